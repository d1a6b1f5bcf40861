"""The operations that all three comment storages have. All other code uses only these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from bson import ObjectId

from portico.resolvers.documents import Author, Database, Document, Projection
from portico.resolvers.paging import Key, Page
from portico.resolvers.writes.marks import derived_id
from portico.resolvers.writes.settler import AT_ONCE, Answering

from .comments import CommentListing, CommentRef, new_comment, to_stored

# A discussion, and a slug within it.
Slug = tuple[ObjectId, str]
# A comment keeps the marks of at least this many repeatable edits. It may share its document with many others.
MARKS_KEPT = 8
# The message of the conflict after the last retry.
CONTESTED = "Other writes keep changing the discussion. Send the call again with the same idempotency key."


def posted_id(operation_id: str, number: int = 0) -> ObjectId:
    """Returns the `_id` of the comment that an operation posts. `number` counts the earlier ones that were fenced."""
    return derived_id(operation_id, f"comment/{number}")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A comment to post, with a valid text and depth. `parent` is in its public form, with all fields.

    For imports, `posted` and `edited` are the times when it was posted and edited elsewhere. `answering` is how the
    call is answered.
    """

    discussion: ObjectId
    parent: Mapping[str, Any] | None
    author: Author
    text: str
    now: datetime
    operation_id: str
    posted: datetime | None = None
    edited: datetime | None = None
    answering: Answering = AT_ONCE

    def comment(self, comment_id: ObjectId) -> Document:
        """Returns the new comment with this `_id`."""
        parent = self.stored_parent
        comment = new_comment(
            comment_id,
            discussion=self.discussion,
            parent=parent,
            author=self.author,
            text=self.text,
            now=self.posted or self.now,
        )
        return comment if self.edited is None else {**comment, "edited": self.edited}

    @property
    def stored_parent(self) -> Document | None:
        return None if self.parent is None else to_stored(self.parent)


class Storage(Protocol):
    """A storage of comments. Returned comments are in their public form: see `comments.to_public`."""

    name: str

    async def find(
        self, db: Database, refs: Sequence[CommentRef], projection: Projection | None = None
    ) -> dict[CommentRef, Document]:
        """Finds comments by reference, without removed ones."""
        ...

    async def find_by_slug(
        self, db: Database, slugs: Sequence[Slug], projection: Projection | None = None
    ) -> dict[Slug, Document]:
        """Finds comments by slug, for direct links."""
        ...

    async def find_removed(self, db: Database, discussion: ObjectId, ids: Sequence[ObjectId]) -> set[ObjectId]:
        """Returns the ids of comments that existed and were removed."""
        ...

    async def find_posted_ids(
        self, db: Database, discussion: ObjectId, operation_ids: Sequence[str]
    ) -> dict[str, ObjectId]:
        """Returns the `_id` of the comment that each operation has posted, or would post now."""
        ...

    async def find_pages(
        self,
        db: Database,
        listings: Sequence[CommentListing],
        *,
        first: int,
        after: Key | None,
        projection: Projection | None,
    ) -> list[Page]:
        """Finds a page of each listing, in the order of the listings."""
        ...

    async def count(self, db: Database, discussions: Sequence[ObjectId]) -> Mapping[ObjectId, int]:
        """Counts the listed comments of each discussion. Discussions without comments may be missing."""
        ...

    async def post(self, db: Database, draft: Draft) -> Document:
        """Posts a comment, once, no matter how often the operation is repeated. Returns the comment.

        Raises:   NotFound (the parent; or the comment, if it was removed since), DiscussionFull.
        Writes:   one insert or one update makes the comment visible, and names the comment: see `posted`.
        """
        ...

    async def edit(
        self, db: Database, comment: Mapping[str, Any], *, text: str, now: datetime, operation_id: str
    ) -> Document:
        """Changes the text. Returns the comment. Raises NotFound (it is deleted), InvalidInput (there is no room)."""
        ...

    async def delete(self, db: Database, comment: Mapping[str, Any], *, now: datetime) -> Document:
        """Deletes a comment. Returns it as it was, without its text.

        Removes it, unless it has replies, and then the deleted ancestors that have lost their last reply. Raises
        NotFound if another operation deleted it first.
        """
        ...

    async def settle(self, db: Database, discussion: Document, entry: Document, *, now: datetime) -> None:
        """Finishes or undoes the write of a stale entry. May be repeated."""
        ...
