"""Discussions: the comments on a product, a content node or whatever else has one. The collection, and its reads.

A document:

    _id         ObjectId, derived from the subject: so there is one for each, whoever opens it
    subject     {kind, key}, what is discussed
    storage     DOCUMENTS, EMBEDDED or PAGES: how its comments are kept
    count       how many comments are listed; of EMBEDDED it stands beside the comments
    under_way   [{id, attempt, by, parent, at}], comments that are being posted (by: 1) or removed (by: -1): see
                `comment_ledger`
    opened      {at, by}, by a subject

A discussion is never deleted, nor does it ever change its storage.

Source: MongoDB Applied Design Patterns, ch. 6, "Storing Comments".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from .documents import SCHEMA_VERSION, CollectionSpec, Database, Document, Projection

DISCUSSIONS = CollectionSpec(
    "discussions",
    indexes=[IndexModel([("under_way.at", ASCENDING)], sparse=True)],
    shard_key={"_id": "hashed"},
)

DOCUMENTS, EMBEDDED, PAGES = "DOCUMENTS", "EMBEDDED", "PAGES"


def discussion_id(kind: str, key: str) -> ObjectId:
    """The id of the discussion on this subject, whether there is one or not."""
    return ObjectId(hashlib.blake2b(f"discussion/{kind}/{key}".encode(), digest_size=12).digest())


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, Document]:
    query = {"_id": {"$in": list(ids)}}
    found = await db[DISCUSSIONS.name].find(query, projection, batch_size=len(ids) + 1).to_list()
    return {discussion["_id"]: discussion for discussion in found}


async def open_discussion(db: Database, *, kind: str, key: str, storage: str, subject: str, now: datetime) -> Document:
    """The discussion on a subject, opened where there is none yet. The storage of the first to open it stays.

    Args:     kind, key: what is discussed. storage: DOCUMENTS, EMBEDDED or PAGES. subject: who opens it.
    Returns:  the discussion.
    Writes:   discussions; one insert.
    """
    fresh: Document = {
        "_id": discussion_id(kind, key),
        "subject": {"kind": kind, "key": key},
        "storage": storage,
        "count": 0,
        "under_way": [],
        "opened": {"at": now, "by": subject},
        SCHEMA_VERSION: DISCUSSIONS.version,
    }
    known = await db[DISCUSSIONS.name].find_one({"_id": fresh["_id"]})
    if known is not None:
        return known
    try:
        await db[DISCUSSIONS.name].insert_one(fresh)
    except DuplicateKeyError:
        return (await find_by_ids(db, [fresh["_id"]]))[fresh["_id"]]
    return fresh
