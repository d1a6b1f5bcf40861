"""Records that decide: they are inserted once, and never deleted. See `settlements`."""

from __future__ import annotations

from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document


async def insert(db: Database, records: CollectionSpec, record: Document) -> Document:
    """Inserts a record that decides or refuses. Returns it, or the record with its `_id` that was inserted before."""
    try:
        await db[records.name].insert_one(record)
    except DuplicateKeyError:
        found = await look_at(db, records, record["_id"])
        assert found is not None, "records that decide are never deleted"
        return found
    return record


async def look_at(db: Database, spec: CollectionSpec, record: Any) -> Document | None:
    """Returns a record, to go on with what another process has begun. It writes: see the protocol."""
    looked = {"$inc": {"looks": 1}}
    return await db[spec.name].find_one_and_update({"_id": record}, looked, return_document=ReturnDocument.AFTER)
