"""Discussions: the comments on a product, a content node or whatever else has one. The collection, and its reads.

A document:

    _id         ObjectId, derived from the subject: so there is one for each, whoever opens it
    subject     {kind, key}, what is discussed
    storage     DOCUMENTS, EMBEDDED or PAGES: how its comments are kept
    count       how many comments are listed; of EMBEDDED it stands beside the comments
    under_way   [{id, attempt, by, parent, at}], comments that are being posted (by: 1) or removed (by: -1): see
                `comment_ledger`
    opened      {at, by}, by a subject
    of          the `_id` of what is discussed; older ones have none
    closed      {of, by, is_final}: the subject with the `_id` `of` is gone, or, unless it `is_final`, about to be
                deleted by the deletion `by`. Nobody sees the discussion any more
    closing_at  since when, until what belongs to it is gone, too, or it is seen again

A discussion never changes its storage. Once its subject is gone a job takes its comments away, and nothing is left of
it but the document itself, so that its `_id` is never given to another one: what comes late for the one is not taken
for the other's. Where a subject comes again with the same key, e.g. a product with the SKU, its discussion has an `_id`
that is derived from the subject's own.

Source: MongoDB Applied Design Patterns, ch. 6, "Storing Comments".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.attachments import Target
from portico.resolvers.documents import SCHEMA_VERSION, CollectionSpec, Database, Document, Projection
from portico.resolvers.errors import Conflict, NotFound
from portico.resolvers.writes.retries import attempts

DISCUSSIONS = CollectionSpec(
    "discussions",
    indexes=[
        IndexModel([("under_way.at", ASCENDING)], sparse=True),
        IndexModel([("closing_at", ASCENDING)], sparse=True),
    ],
    shard_key={"_id": "hashed"},
)

# Whoever is still posting finds that their entry is gone, and looks what has become of the discussion.
_EMPTIED: Document = {"count": 0, "under_way": []}

DOCUMENTS, EMBEDDED, PAGES = "DOCUMENTS", "EMBEDDED", "PAGES"


# The condition of what is seen.
OPEN: Document = {"closed": None}


def discussion_id(kind: str, key: str) -> ObjectId:
    """The id of the first discussion on a subject of this key, whether there is one or not."""
    return ObjectId(hashlib.blake2b(f"discussion/{kind}/{key}".encode(), digest_size=12).digest())


def discussion_ids(kind: str, key: str, of: ObjectId | None) -> list[ObjectId]:
    """The ids that the discussion on the subject with this `_id` may have. It has the second where the first was that
    of another subject, which is gone.
    """
    first = discussion_id(kind, key)
    return [first] if of is None else [first, discussion_id(kind, f"{key}/{of}")]


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, Document]:
    """Discussions, but for those whose subject is gone or about to be."""
    query = {"_id": {"$in": list(ids)}, **OPEN}
    found = await db[DISCUSSIONS.name].find(query, projection, batch_size=len(ids) + 1).to_list()
    return {discussion["_id"]: discussion for discussion in found}


async def open_discussion(
    db: Database, *, kind: str, key: str, storage: str, subject: str, now: datetime, of: ObjectId | None = None
) -> Document:
    """The discussion on a subject, opened where there is none yet. The storage of the first to open it stays.

    Args:     kind, key: what is discussed; of: its `_id`. storage: DOCUMENTS, EMBEDDED or PAGES. subject: who opens it.
    Returns:  the discussion.
    Raises:   NotFound (the subject: it is gone, or about to be).
    Writes:   discussions; one insert.
    """
    fresh: Document = {
        "of": of,
        "subject": {"kind": kind, "key": key},
        "storage": storage,
        "count": 0,
        "under_way": [],
        "opened": {"at": now, "by": subject},
        SCHEMA_VERSION: DISCUSSIONS.version,
    }
    ids = discussion_ids(kind, key, of)
    async for _ in attempts(steps=2):
        found = await db[DISCUSSIONS.name].find({"_id": {"$in": ids}}).to_list()
        known = {discussion["_id"]: discussion for discussion in found}
        # What was of another subject with the key is passed over.
        mine = next((one for one in ids if one not in known or _belongs_to(known[one], of)), None)
        if mine is None or "closed" in known.get(mine, {}):
            raise NotFound(kind, key)
        if mine in known:
            return known[mine]
        try:
            await db[DISCUSSIONS.name].insert_one({"_id": mine, **fresh})
        except DuplicateKeyError:
            continue
        return {"_id": mine, **fresh}
    raise Conflict("The discussion is being opened by others.")


def _belongs_to(discussion: Document, of: ObjectId | None) -> bool:
    closed = discussion.get("closed")
    if closed is not None:
        return bool(closed["of"] == of)
    return discussion.get("of") in {None, of}


async def close(db: Database, *, kind: str, key: str, of: ObjectId, by: str, is_final: bool, now: datetime) -> None:
    """Takes the discussion on a subject out of sight, for good where it `is_final`. May be repeated.

    Writes:   discussions; one update.
    """
    mine = {"_id": {"$in": discussion_ids(kind, key, of)}, "of": {"$in": [None, of]}, **OPEN}
    closed = {"closed": {"of": of, "by": by, "is_final": is_final}, "closing_at": now}
    await db[DISCUSSIONS.name].update_many(mine, {"$set": {**closed, **(_EMPTIED if is_final else {})}})


async def settle_closed(
    db: Database, *, kind: str, key: str, of: ObjectId, by: str, is_gone: bool, now: datetime
) -> None:
    """Closes for good what this deletion has closed, or lets it be seen again. May be repeated."""
    mine = {"_id": {"$in": discussion_ids(kind, key, of)}, "closed": {"of": of, "by": by, "is_final": False}}
    gone = {"$set": {"closed.is_final": True, "closing_at": now, **_EMPTIED}}
    there = {"$unset": {"closed": "", "closing_at": ""}}
    await db[DISCUSSIONS.name].update_many(mine, gone if is_gone else there)


class DiscussionAttachment:
    """The discussion about an object of any kind. It never refuses a deletion."""

    def belongs_to(self, kind: str) -> bool:  # noqa: ARG002 - any kind can be discussed
        return True

    async def close(self, db: Database, target: Target, *, by: str, now: datetime) -> bool:
        assert target.of is not None
        await close(db, kind=target.kind, key=target.key, of=target.of, by=by, is_final=False, now=now)
        return True

    async def settle(self, db: Database, target: Target, *, by: str, present: ObjectId | None, now: datetime) -> None:
        """Leaves the discussion to its own job where the object is gone and its `_id` is not known."""
        of = target.of or present
        if of is not None:
            is_gone = of != present
            await settle_closed(db, kind=target.kind, key=target.key, of=of, by=by, is_gone=is_gone, now=now)

    async def drop(self, db: Database, target: Target, *, by: str, now: datetime) -> None:
        assert target.of is not None
        await close(db, kind=target.kind, key=target.key, of=target.of, by=by, is_final=True, now=now)
