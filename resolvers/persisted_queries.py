"""Texts that clients have persisted by their hashes: the protocol of automatic persisted queries.

A document: {_id: the SHA-256 hash of the text in hexadecimal digits, text, used_at: about when it was used last}.

The collection is a cache. A text can vanish at any time, and the client then sends it again. So a write that is lost
loses nothing, and writers need no order.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from .documents import CollectionSpec, Database

_DAYS = 30
PERSISTED_QUERIES = CollectionSpec(
    "persisted_queries",
    indexes=[IndexModel([("used_at", ASCENDING)], expireAfterSeconds=_DAYS * 86_400)],
)
# How old `used_at` can be. A text that is in use is written this often.
_REFRESHED = timedelta(days=1)
# How many of the oldest texts make room for new ones.
_REMOVED = 100


async def persisted_query(db: Database, key: str, *, now: datetime, may_write: bool) -> str | None:
    """Returns the text with this hash; None if it is not stored.

    Writes:   the text's `used_at`, once a day. With `may_write` false: nothing.
    """
    found = await db[PERSISTED_QUERIES.name].find_one({"_id": key})
    if found is None:
        return None
    if may_write and found["used_at"] < now - _REFRESHED:
        await db[PERSISTED_QUERIES.name].update_one({"_id": key}, {"$set": {"used_at": now}})
    text: str = found["text"]
    return text


async def persist_query(db: Database, key: str, text: str, *, now: datetime, most: int) -> None:
    """Stores a text by its hash. If there are more than `most`, removes the oldest ones.

    Processes can call this concurrently. Each may store one text more before it removes others.

    Writes:   persisted_queries; one upsert, and one deletion if there are too many.
    """
    texts = db[PERSISTED_QUERIES.name]
    try:
        await texts.update_one({"_id": key}, {"$set": {"used_at": now}, "$setOnInsert": {"text": text}}, upsert=True)
    except DuplicateKeyError:
        # Another process has stored it at the same moment.
        return
    excess = await texts.estimated_document_count() - most
    if excess > 0:
        removed = min(most, max(excess, _REMOVED))
        oldest = await texts.find({}, {"_id": 1}).sort("used_at", ASCENDING).limit(removed).to_list()
        await texts.delete_many({"_id": {"$in": [one["_id"] for one in oldest if one["_id"] != key]}})
