"""Comments: what one is, however it is kept; how comments are named, and in which orders they are listed.

A comment, with the keys that it has in each storage:

    _id       ObjectId, derived from the operation that has posted it
    key       for each level down to it the time and its part of the slug, `2012.02.08.12.21.08.123:34db…/…`: the order
              of threads. Every level is as long as any other, so nothing stands between a comment and its replies
    slug      the parts alone, `34db…/8bda…`; unique in its discussion
    parent    the _id of the comment that it replies to; None
    depth     how many levels are above it
    author    {id, name}
    posted    later than its parent, whatever the clocks say, unless that is of the last millisecond there is
    edited    None while it is as it was posted
    text      CommonMark; empty once deleted
    deleted   it stays for the sake of its replies
    replies   how many reply to it directly; of EMBEDDED they are counted beside the comments
    attempt   the attempt that has posted it: see `comment_ledger`
    coming    [{attempt, by}], replies that are being posted (by: 1) or removed (by: -1)
    removing  the attempt that is about to remove it
    gone      {attempt, at}: it has been removed, and is in no list any more
    applied   ids of the latest repeatable edits

Two comments of the same millisecond are ordered by the random part of their slugs. The order of time is by `posted`,
then by slug; so each order is total, and the same in each storage.

Source: MongoDB Applied Design Patterns, ch. 6, "Storing Comments".
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bson import ObjectId
from bson.errors import InvalidId

from portico.resolvers.documents import Document, Projection
from portico.resolvers.paging import Listing, Sort

from .discussions import DOCUMENTS, EMBEDDED, PAGES

# Levels of replies, counted from 0; a reply to a comment of the last one is refused.
MAX_DEPTH = 31
# Letters and digits that are not taken for each other.
_PART = 10
_LETTERS = {DOCUMENTS: "D", EMBEDDED: "E", PAGES: "P"}
_STORAGES = {letter: storage for storage, letter in _LETTERS.items()}
# Behind every key and slug there is: both begin with a letter or digit of ASCII.
END = "~"
_NAMING = dict.fromkeys(("_id", "discussion", "key", "slug", "posted"), 1)
# Where a shown comment tells of itself; no stored one has this.
REF = "ref"
THREADED, CHRONOLOGICAL = "THREADED", "CHRONOLOGICAL"
_BY_KEY = Sort((("key", 1),))
_BY_TIME = Sort((("posted", 1), ("slug", 1)))
_MILLISECOND = timedelta(milliseconds=1)
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC).replace(tzinfo=None)


class CommentRef(NamedTuple):
    """Which comment: enough to find it without reading its discussion. As text `D.<discussion>.<comment>`."""

    storage: str
    discussion: ObjectId
    id: ObjectId

    def __str__(self) -> str:
        return f"{_LETTERS[self.storage]}.{self.discussion}.{self.id}"


def parse_comment_ref(text: str) -> CommentRef:
    """The comment that this text is the name of. Raises ValueError."""
    letter, _, ids = text.partition(".")
    discussion, _, comment = ids.partition(".")
    try:
        return CommentRef(_STORAGES[letter], ObjectId(discussion), ObjectId(comment))
    except (KeyError, InvalidId) as error:
        raise ValueError(text) from error


def slug_part(comment_id: ObjectId, attempt: int) -> str:
    """What a comment adds to the slug of its parent. Nobody can tell it before the comment is there.

    `attempt` counts from 0; another one makes another part, where a slug is taken.
    """
    digest = hashlib.blake2b(b"%s/%d" % (comment_id.binary, attempt), digest_size=8).digest()
    return base64.b32encode(digest).decode().lower()[:_PART]


def new_comment(
    comment_id: ObjectId, *, discussion: ObjectId, parent: Document | None, author: Document, text: str, now: datetime
) -> Document:
    """A comment below its parent, or the first of a thread, as nobody has seen it yet."""
    posted = now.replace(microsecond=now.microsecond // 1000 * 1000)
    if parent is not None:
        posted = max(posted, _behind(parent["posted"]))
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


def _behind(posted: datetime) -> datetime:
    """The next moment; of the last one there is itself, at which a reply still comes behind its parent by its slug."""
    return posted + _MILLISECOND if posted < _LAST else posted


def with_slug(comment: Document, parent: Document | None, attempt: int) -> Document:
    """The comment with the slug and the key of this attempt, from 0."""
    part = slug_part(comment["_id"], attempt)
    posted: datetime = comment["posted"]
    # Not every system gives a year of less than 1000 four digits by `%Y`.
    level = f"{posted.year:04}{posted:.%m.%d.%H.%M.%S}.{posted.microsecond // 1000:03}:{part}"
    if parent is None:
        return {**comment, "slug": part, "key": level}
    return {**comment, "slug": f"{parent['slug']}/{part}", "key": f"{parent['key']}/{level}"}


@dataclass(frozen=True, eq=False)
class CommentListing(Listing):
    """Comments of one discussion, in one of two orders.

    `below` is the key of the comment whose whole thread is listed, without itself; `parent` the _id of the one whose
    direct replies are. `max_depth` leaves deeper ones out.
    """

    storage: str = DOCUMENTS
    discussion: ObjectId | None = None
    below: str | None = None
    parent: ObjectId | None = None
    max_depth: int | None = None

    @property
    def is_threaded(self) -> bool:
        return self.sort is _BY_KEY


def listing_of(storage: str, discussion: ObjectId, *, order: str, max_depth: int | None) -> CommentListing:
    """Every comment of the discussion, but for those that are deeper than `max_depth`."""
    bounded = None if max_depth is None or max_depth >= MAX_DEPTH else max_depth
    depths = {"$in": list(range((MAX_DEPTH if bounded is None else bounded) + 1))}
    wanted: Document = {"discussion": discussion}
    if order == CHRONOLOGICAL:
        # Every depth has a walk of its own, so that one index serves both with and without a bound.
        wanted["depth"] = depths
    elif bounded is not None:
        wanted["depth"] = depths
    else:
        wanted["key"] = {"$gte": ""}
    return CommentListing(
        wanted,
        _BY_TIME if order == CHRONOLOGICAL else _BY_KEY,
        named={"discussion": discussion, "order": order, "depth": bounded},
        storage=storage,
        discussion=discussion,
        max_depth=bounded,
    )


def replies_of(ref: CommentRef) -> CommentListing:
    """The direct replies to a comment, by time."""
    wanted = {"discussion": ref.discussion, "parent": ref.id}
    return CommentListing(wanted, _BY_KEY, named=wanted, storage=ref.storage, discussion=ref.discussion, parent=ref.id)


def thread_of(ref: CommentRef, key: str) -> CommentListing:
    """Every comment below the one with this key, in threaded order."""
    wanted = {"discussion": ref.discussion, "key": {"$gt": f"{key}/", "$lt": f"{key}0"}}
    return CommentListing(wanted, _BY_KEY, named=wanted, storage=ref.storage, discussion=ref.discussion, below=key)


def stored_projection(projection: Projection | None) -> dict[str, int] | None:
    """The projection as a storage takes it: with what names and orders a comment, without what only a shown one has."""
    if projection is None:
        return None
    return {**{path: 1 for path in projection if path != REF}, **_NAMING}


def to_public(comment: Document, storage: str, discussion: ObjectId) -> Document:
    """The comment as everybody beyond the storages sees it: with its own name, and its parent's."""
    comment["discussion"] = discussion
    comment[REF] = CommentRef(storage, discussion, comment["_id"])
    if comment.get("parent") is not None:
        comment["parent"] = CommentRef(storage, discussion, comment["parent"])
    return comment


def to_stored(comment: Document) -> Document:
    """A shown comment as it is stored."""
    parent = comment.get("parent")
    return {**comment, "parent": parent.id if isinstance(parent, CommentRef) else parent}
