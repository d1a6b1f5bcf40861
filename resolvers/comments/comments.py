"""Comments: the fields that they have in all storages, their references, and the orders of lists.

Comments of the same millisecond are sorted by the random part of their slugs. The chronological order is by `posted`,
then by slug. Therefore each order is total, and the same in all storages.

Source: MongoDB Applied Design Patterns, ch. 6, "Storing Comments".
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, NotRequired

from bson import ObjectId
from bson.errors import InvalidId

from portico.resolvers.documents import Author, Document, Projection
from portico.resolvers.paging import Listing, Sort
from portico.resolvers.typed import TypedDict

from .discussions import DOCUMENTS, EMBEDDED, PAGES

# The largest depth, counted from 0. A comment of this depth cannot have replies.
MAX_DEPTH = 31
# Characters of a slug part. Base 32 does not use digits that look like letters, e.g. 0 and 1.
_PART = 10
_LETTERS = {DOCUMENTS: "D", EMBEDDED: "E", PAGES: "P"}
_STORAGES = {letter: storage for storage, letter in _LETTERS.items()}
# Sorts after every key and slug: both begin with an ASCII letter or digit.
END = "~"
_NAMING = dict.fromkeys(("_id", "discussion", "key", "slug", "posted"), 1)
# The field with the reference of a public comment. Stored comments do not have it.
REF: Final = "ref"
THREADED, CHRONOLOGICAL, NEWEST = "THREADED", "CHRONOLOGICAL", "NEWEST"
_BY_KEY = Sort((("key", 1),))
_BY_TIME = Sort((("posted", 1), ("slug", 1)))
_MILLISECOND = timedelta(milliseconds=1)
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC).replace(tzinfo=None)


class Coming(TypedDict):
    """A reply that is being posted (by: 1) or removed (by: -1)."""

    attempt: str
    by: int


class Gone(TypedDict):
    """The mark of a removed comment, which is no longer in any list."""

    attempt: str
    at: datetime


class _Comment(TypedDict):
    # Derived from the operation that posted it.
    _id: ObjectId
    # One part for each level, with the time and the level's part of the slug: `2012.02.08.12.21.08.123:34db…/…`.
    # Sorting by `key` gives the thread order. All parts have one length, so that no other comment sorts between a
    # comment and its replies.
    key: NotRequired[str]
    # Only the slug parts, `34db…/8bda…`; unique within the discussion.
    slug: str
    # The number of levels above it.
    depth: NotRequired[int]
    # Later than the parent's, even if clocks differ. Equal only at the last millisecond that exists.
    posted: NotRequired[datetime]
    # When the text was last changed; missing if never.
    edited: NotRequired[datetime]
    # CommonMark; empty once deleted.
    text: NotRequired[str]
    # True if the comment was deleted, and only stays for its replies.
    deleted: NotRequired[bool]
    # The number of direct replies; EMBEDDED counts them outside of the comments.
    replies: NotRequired[int]
    # The attempt that posted it, and the one that is removing it: see `ledger`.
    attempt: NotRequired[str]
    removing: NotRequired[str]
    # The attempts to remove it that a job took for crashed, and called off.
    called_off: NotRequired[list[str]]
    coming: NotRequired[list[Coming]]
    gone: NotRequired[Gone]
    # Ids of the latest repeatable edits.
    applied: NotRequired[list[str]]


class StoredComment(_Comment):
    """A comment in any storage. A removed one keeps its `_id` and its slug, and maybe more."""

    # The _id of the comment that it replies to; None for the first of a thread.
    parent: NotRequired[ObjectId | None]
    author: NotRequired[Author | None]


class CommentRef(NamedTuple):
    """The reference of a comment, to find it without reading its discussion. As text: `D.<discussion>.<comment>`."""

    storage: str
    discussion: ObjectId
    id: ObjectId

    def __str__(self) -> str:
        return f"{_LETTERS[self.storage]}.{self.discussion}.{self.id}"


class PublicComment(_Comment):
    """A comment as reads return it. A read with a projection has a part of it."""

    discussion: ObjectId
    # The references of the comment, and of the comment that it replies to.
    ref: CommentRef
    parent: NotRequired[CommentRef | None]
    author: Author


def parse_comment_ref(text: str) -> CommentRef:
    """Parses the text form of a reference. Raises ValueError."""
    letter, _, ids = text.partition(".")
    discussion, _, comment = ids.partition(".")
    try:
        return CommentRef(_STORAGES[letter], ObjectId(discussion), ObjectId(comment))
    except (KeyError, InvalidId) as error:
        raise ValueError(text) from error


def slug_part(comment_id: ObjectId, attempt: int) -> str:
    """Returns the part that a comment adds to the slug of its parent. Nobody can guess it beforehand.

    `attempt` counts from 0. If a slug is taken, the next attempt gives another part.
    """
    digest = hashlib.blake2b(b"%s/%d" % (comment_id.binary, attempt), digest_size=8).digest()
    return base64.b32encode(digest).decode().lower()[:_PART]


def new_comment(
    comment_id: ObjectId, *, discussion: ObjectId, parent: Document | None, author: Author, text: str, now: datetime
) -> Document:
    """Returns a new comment, not yet inserted: a reply to `parent`, or the first of a thread."""
    posted = now.replace(microsecond=now.microsecond // 1000 * 1000)
    if parent is not None:
        posted = max(posted, _next_millisecond(parent["posted"]))
    comment: Document = {
        "key": "",
        "_id": comment_id,
        "discussion": discussion,
        "slug": "",
        "parent": None if parent is None else parent["_id"],
        "depth": 0 if parent is None else parent["depth"] + 1,
        "author": author,
        "posted": posted,
        "text": text,
        "deleted": False,
        "replies": 0,
    }
    return with_slug(comment, parent, 0)


def _next_millisecond(posted: datetime) -> datetime:
    """Returns the next millisecond. The last one returns itself: a reply still sorts after its parent, by its slug."""
    return posted + _MILLISECOND if posted < _LAST else posted


def with_slug(comment: Document, parent: Document | None, attempt: int) -> Document:
    """Returns the comment with the slug and the key of this attempt, counted from 0."""
    part = slug_part(comment["_id"], attempt)
    posted: datetime = comment["posted"]
    # On some systems, `%Y` gives years before 1000 fewer than four digits.
    level = f"{posted.year:04}{posted:.%m.%d.%H.%M.%S}.{posted.microsecond // 1000:03}:{part}"
    if parent is None:
        return {**comment, "slug": part, "key": level}
    return {**comment, "slug": f"{parent['slug']}/{part}", "key": f"{parent['key']}/{level}"}


@dataclass(frozen=True, eq=False)
class CommentListing(Listing):
    """Comments of one discussion, in one of two orders, or in the opposite of one.

    `below` is the key of a comment, to list its whole thread without the comment itself. `parent` is the _id of a
    comment, to list its direct replies. `max_depth` omits deeper comments.
    """

    storage: str = DOCUMENTS
    discussion: ObjectId | None = None
    below: str | None = None
    parent: ObjectId | None = None
    max_depth: int | None = None

    @property
    def is_threaded(self) -> bool:
        return self.sort.paths[0][0] == "key"

    @property
    def is_backwards(self) -> bool:
        """Whether it is in the opposite order: the latest comments first, or replies before their parents."""
        return self.sort.paths[0][1] < 0


def listing_of(storage: str, discussion: ObjectId, *, order: str, max_depth: int | None) -> CommentListing:
    """Returns the listing of all comments of a discussion, without those deeper than `max_depth`."""
    bounded = None if max_depth is None or max_depth >= MAX_DEPTH else max_depth
    depths = {"$in": list(range((MAX_DEPTH if bounded is None else bounded) + 1))}
    wanted: Document = {"discussion": discussion}
    sort = {THREADED: _BY_KEY, CHRONOLOGICAL: _BY_TIME, NEWEST: _BY_TIME.reversed()}[order]
    if order != THREADED:
        # Each depth is an index scan of its own, so that one index serves lists with and without `max_depth`.
        wanted["depth"] = depths
    elif bounded is not None:
        wanted["depth"] = depths
    else:
        wanted["key"] = {"$gte": ""}
    return CommentListing(
        wanted,
        sort,
        named={"discussion": discussion, "order": order, "depth": bounded},
        storage=storage,
        discussion=discussion,
        max_depth=bounded,
    )


def replies_of(ref: CommentRef) -> CommentListing:
    """Returns the listing of the direct replies to a comment, by time."""
    wanted = {"discussion": ref.discussion, "parent": ref.id}
    return CommentListing(wanted, _BY_KEY, named=wanted, storage=ref.storage, discussion=ref.discussion, parent=ref.id)


def thread_of(ref: CommentRef, key: str) -> CommentListing:
    """Returns the listing of all comments below the comment with this key, in thread order."""
    wanted = {"discussion": ref.discussion, "key": {"$gt": f"{key}/", "$lt": f"{key}0"}}
    return CommentListing(wanted, _BY_KEY, named=wanted, storage=ref.storage, discussion=ref.discussion, below=key)


def stored_projection(projection: Projection | None) -> dict[str, int] | None:
    """Returns the projection for stored comments: with the fields of references and orders, without `ref`."""
    if projection is None:
        return None
    return {**{path: 1 for path in projection if path != REF}, **_NAMING}


def to_public(comment: Document, storage: str, discussion: ObjectId) -> Document:
    """Changes a stored comment, in place, to the public form: with its reference as `ref`, and its parent's."""
    comment["discussion"] = discussion
    comment[REF] = CommentRef(storage, discussion, comment["_id"])
    if comment.get("parent") is not None:
        comment["parent"] = CommentRef(storage, discussion, comment["parent"])
    return comment


def to_stored(comment: Mapping[str, Any]) -> Document:
    """Returns a public comment with `parent` in its stored form."""
    parent = comment.get("parent")
    return {**comment, "parent": parent.id if isinstance(parent, CommentRef) else parent}
