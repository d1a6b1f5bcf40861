"""What each storage of comments can do. There are three; everything else works on any of them by these operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bson import ObjectId

from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.paging import Key, Page
from portico.resolvers.writes import idempotency

from .comments import CommentListing, CommentRef, new_comment, to_stored

# A slug, and the discussion that it is in.
Slug = tuple[ObjectId, str]
# Of its repeatable edits a comment keeps the marks of so many at least. It may share its document with many others.
MARKS_KEPT = 8
# What a caller is told where bounded retries have not been enough.
CONTESTED = "The discussion is being changed by others."


def posted_id(operation_id: str, number: int = 0) -> ObjectId:
    """The `_id` of the comment that an operation posts. `number` counts those before it that can never come."""
    return idempotency.derived_id(operation_id, f"comment/{number}")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A comment that somebody wants to post. Its text and its depth are good; `parent` is a shown comment, whole.

    `posted` is when it was posted elsewhere, `edited` when it was changed there; None where it is new.
    """

    discussion: ObjectId
    parent: Document | None
    author: Document
    text: str
    now: datetime
    operation_id: str
    posted: datetime | None = None
    edited: datetime | None = None

    def comment(self, comment_id: ObjectId) -> Document:
        """The comment with this `_id`, as nobody has seen it yet."""
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
    """The comments of discussions that are kept in one way. What it returns is shown: see `comments.to_public`."""

    name: str

    async def find(
        self, db: Database, refs: Sequence[CommentRef], projection: Projection | None = None
    ) -> dict[CommentRef, Document]:
        """The comments of these names, without those that are gone."""
        ...

    async def find_by_slug(
        self, db: Database, slugs: Sequence[Slug], projection: Projection | None = None
    ) -> dict[Slug, Document]:
        """The comments that direct links lead to."""
        ...

    async def find_removed(self, db: Database, discussion: ObjectId, ids: Sequence[ObjectId]) -> set[ObjectId]:
        """Which of these have been there, and were removed."""
        ...

    async def find_posted_ids(
        self, db: Database, discussion: ObjectId, operation_ids: Sequence[str]
    ) -> dict[str, ObjectId]:
        """The `_id` of the comment that each of these operations has posted, or posts if it is carried out now."""
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
        """A page of each listing, in their order."""
        ...

    async def count(self, db: Database, discussions: Sequence[ObjectId]) -> Mapping[ObjectId, int]:
        """How many comments each discussion lists, where there is any."""
        ...

    async def post(self, db: Database, draft: Draft) -> Document:
        """The comment, which is there once however often the operation is repeated.

        Raises:   NotFound (the parent, or the comment, where somebody has removed it since), DiscussionFull.
        Writes:   one insert or one update makes the comment visible; it names the comment: see `comment_changes`.
        """
        ...

    async def edit(self, db: Database, comment: Document, *, text: str, now: datetime, operation_id: str) -> Document:
        """The comment with another text. Raises NotFound where it is deleted, InvalidInput where there is no room."""
        ...

    async def delete(self, db: Database, comment: Document, *, now: datetime) -> Document:
        """The comment as it was, without its text. It goes, unless it has replies; so do those that it was the last
        reply to, and that were deleted themselves. Raises NotFound if something else has deleted it first.
        """
        ...

    async def settle(self, db: Database, discussion: Document, entry: Document, *, now: datetime) -> None:
        """Finishes or undoes what was left under way. May be repeated."""
        ...
