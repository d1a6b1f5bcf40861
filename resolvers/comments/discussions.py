"""Discussions of objects, e.g. of products and content nodes: the collection, and its reads.

A discussion never changes its storage. Once its subject is gone, a job removes its comments. The document itself stays,
so that its `_id` is never reused, and late writes cannot reach another discussion. If a subject is created again with
the same key, e.g. a product with the same SKU, the `_id` of its discussion is derived from the subject's `_id`, too.

Source: MongoDB Applied Design Patterns, ch. 6, "Storing Comments".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.attachments import Attachments, Hosts
from portico.resolvers.documents import CollectionSpec, Database, Document, Projection, Versioned
from portico.resolvers.errors import Conflict, NotFound
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.retries import attempts


class Subject(TypedDict):
    """The object that is discussed."""

    kind: str
    key: str


class UnderWay(TypedDict):
    """A comment that is being posted (by: 1) or removed (by: -1); see `ledger`."""

    id: ObjectId
    attempt: str
    by: int
    parent: ObjectId | None
    at: datetime


class Opened(TypedDict):
    """When and by whom it was opened; `by` is the subject of a token."""

    at: datetime
    by: str


class Closed(TypedDict):
    """The object with the `_id` `of` is gone, or, if not `is_final`, the deletion `by` is in progress."""

    of: ObjectId
    by: str
    is_final: bool


class DiscussionDocument(Versioned):
    """A discussion. Its `_id` is derived from the subject, so that each subject has at most one discussion."""

    _id: ObjectId
    subject: Subject
    # DOCUMENTS, EMBEDDED or PAGES.
    storage: str
    # The number of listed comments; EMBEDDED counts them in its own document.
    count: int
    under_way: list[UnderWay]
    opened: Opened
    # The `_id` of the object that is discussed; missing in older documents.
    of: NotRequired[ObjectId]
    # Nobody sees the discussion any more.
    closed: NotRequired[Closed]
    # When it was closed; removed once its comments are removed, or it is visible again.
    closing_at: NotRequired[datetime]


DISCUSSIONS = CollectionSpec(
    "discussions",
    document=DiscussionDocument,
    indexes=[
        IndexModel([("under_way.at", ASCENDING)], sparse=True),
        IndexModel([("closing_at", ASCENDING)], sparse=True),
    ],
    shard_key={"_id": "hashed"},
)

# A post in flight finds that its entry is gone, and then checks whether the discussion still exists.
_EMPTIED: Document = {"count": 0, "under_way": []}

DOCUMENTS, EMBEDDED, PAGES = "DOCUMENTS", "EMBEDDED", "PAGES"


# Matches visible discussions.
OPEN: Document = {"closed": None}


def discussion_id(kind: str, key: str) -> ObjectId:
    """Returns the id that the first discussion on a subject with this key has, or would have."""
    return ObjectId(hashlib.blake2b(f"discussion/{kind}/{key}".encode(), digest_size=12).digest())


def discussion_ids(kind: str, key: str, of: ObjectId | None) -> list[ObjectId]:
    """Returns the ids that the discussion on the subject with this `_id` can have.

    It has the second id if the first belonged to an earlier subject with the same key.
    """
    first = discussion_id(kind, key)
    return [first] if of is None else [first, discussion_id(kind, f"{key}/{of}")]


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, DiscussionDocument]:
    """Finds discussions, without those whose subject is gone or being deleted."""
    query = {"_id": {"$in": list(ids)}, **OPEN}
    found = await DISCUSSIONS.of(db).find(query, projection, batch_size=len(ids) + 1).to_list()
    return {discussion["_id"]: discussion for discussion in found}


async def open_discussion(
    db: Database, *, kind: str, key: str, storage: str, subject: str, now: datetime, of: ObjectId | None = None
) -> DiscussionDocument:
    """Returns the discussion on a subject. Opens it if there is none. An existing discussion keeps its storage.

    Args:     kind, key: of the object to discuss; of: its `_id`. storage: DOCUMENTS, EMBEDDED or PAGES. subject: of the
              caller's token.
    Returns:  the discussion.
    Raises:   NotFound (the subject: it is gone, or being deleted).
    Writes:   discussions; one insert.
    """
    fresh: Document = {
        "of": of,
        "subject": {"kind": kind, "key": key},
        "storage": storage,
        "count": 0,
        "under_way": [],
        "opened": {"at": now, "by": subject},
        "schema_version": DISCUSSIONS.version,
    }
    ids = discussion_ids(kind, key, of)
    async for _ in attempts(steps=2):
        found = await DISCUSSIONS.of(db).find({"_id": {"$in": ids}}).to_list()
        known = {discussion["_id"]: discussion for discussion in found}
        # Skips the discussion of an earlier subject with the same key.
        mine = next((one for one in ids if one not in known or _belongs_to(known[one], of)), None)
        present = None if mine is None else known.get(mine)
        if mine is None or (present is not None and "closed" in present):
            raise NotFound(kind, key)
        if present is not None:
            return present
        created: Any = {"_id": mine, **fresh}
        opened: DiscussionDocument = created
        try:
            await DISCUSSIONS.of(db).insert_one(opened)
        except DuplicateKeyError:
            continue
        return opened
    raise Conflict("Other requests are opening the discussion. Send the request again.")


def _belongs_to(discussion: DiscussionDocument, of: ObjectId | None) -> bool:
    closed = discussion.get("closed")
    if closed is not None:
        return bool(closed["of"] == of)
    return discussion.get("of") in {None, of}


async def close(db: Database, *, kind: str, key: str, of: ObjectId, by: str, is_final: bool, now: datetime) -> None:
    """Hides the discussion on a subject, permanently if `is_final`. May be repeated.

    Writes:   discussions; one update.
    """
    mine = {"_id": {"$in": discussion_ids(kind, key, of)}, "of": {"$in": [None, of]}, **OPEN}
    closed = {"closed": {"of": of, "by": by, "is_final": is_final}, "closing_at": now}
    await db[DISCUSSIONS.name].update_many(mine, {"$set": {**closed, **(_EMPTIED if is_final else {})}})


async def settle_closed(
    db: Database, *, kind: str, key: str, of: ObjectId, by: str, is_gone: bool, now: datetime
) -> None:
    """Closes the discussion that this deletion has closed permanently, or makes it visible again. May be repeated."""
    mine = {"_id": {"$in": discussion_ids(kind, key, of)}, "closed": {"of": of, "by": by, "is_final": False}}
    gone = {"$set": {"closed.is_final": True, "closing_at": now, **_EMPTIED}}
    there = {"$unset": {"closed": "", "closing_at": ""}}
    await db[DISCUSSIONS.name].update_many(mine, gone if is_gone else there)


class DiscussionAttachment:
    """The discussion on an object of any kind. It never refuses the object's deletion."""

    def belongs_to(self, kind: str) -> bool:  # noqa: ARG002 - any kind can be discussed
        return True

    async def close(self, db: Database, target: Attachments.Target, *, by: str, now: datetime) -> bool:
        assert target.of is not None
        await close(db, kind=target.kind, key=target.key, of=target.of, by=by, is_final=False, now=now)
        return True

    async def settle(
        self,
        db: Database,
        hosts: Hosts,  # noqa: ARG002
        target: Attachments.Target,
        *,
        by: str,
        present: ObjectId | None,
        now: datetime,
    ) -> None:
        """Makes the close permanent, or undoes it. Leaves it to a job if the `_id` is not known."""
        of = target.of or present
        if of is not None:
            is_gone = of != present
            await settle_closed(db, kind=target.kind, key=target.key, of=of, by=by, is_gone=is_gone, now=now)

    async def drop(self, db: Database, hosts: Hosts, target: Attachments.Target, *, by: str, now: datetime) -> None:  # noqa: ARG002
        assert target.of is not None
        await close(db, kind=target.kind, key=target.key, of=target.of, by=by, is_final=True, now=now)
