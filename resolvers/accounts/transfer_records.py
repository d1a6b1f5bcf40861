"""The records of transfers, which decide them. See `transfers`.

A document:

    _id          ObjectId, derived from the operation and the number of the attempt
    key          the key of the attempt that was decided; missing in transfers of former versions, and if nothing moved
    source       the account that pays; None for a deposit, whose money comes from outside
    destination  the account that is paid
    owners       the subjects of both accounts' owners
    amount       minor units
    currency     ISO 4217, that of both accounts
    state        SETTLED, or CANCELLED if it was refused or called off. Only former versions stored NEW, COMMITTED and
                 ROLLBACK, see `former_transfers`
    refused      why it was refused: `funds` or `limit`; this is final
    reference    the reference of the charge that it pays; missing if it pays none
    created_at
    looks        how often somebody has looked at it to go on with what another process has begun

Records are never deleted. A record that was called off before it was inserted has only `_id`, `state` and `created_at`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import SCHEMA_VERSION, CollectionSpec, Database, Document, Projection
from portico.resolvers.writes.settlements import look_at

TRANSFERS = CollectionSpec(
    "transfers",
    indexes=[
        IndexModel([("open_since", ASCENDING)], sparse=True),
        IndexModel([("source", ASCENDING)]),
        IndexModel([("destination", ASCENDING)]),
    ],
    shard_key={"_id": "hashed"},
)

NEW, COMMITTED, SETTLED, ROLLBACK, CANCELLED = "NEW", "COMMITTED", "SETTLED", "ROLLBACK", "CANCELLED"
FUNDS, LIMIT = "funds", "limit"


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, Document]:
    """Returns the transfers with these ids, without deposits."""
    query = {"_id": {"$in": list(ids)}, "source": {"$ne": None}}
    found = await db[TRANSFERS.name].find(query, projection, batch_size=len(ids) + 1).to_list()
    return {transfer["_id"]: transfer for transfer in found}


async def insert(db: Database, record: Document) -> Document:
    """Decides. Returns the record, or the one with its `_id` that was inserted before."""
    try:
        await db[TRANSFERS.name].insert_one(record)
    except DuplicateKeyError:
        found = await look_at(db, TRANSFERS, record["_id"])
        assert found is not None, "transfers are never deleted"
        return found
    return record


async def call_off(db: Database, note: Document, record: Document | None, now: datetime) -> None:
    """Makes it impossible to decide the attempt of a note. Idempotent."""
    if record is None:
        called_off = {"_id": note["record"], "state": CANCELLED, "created_at": now, SCHEMA_VERSION: TRANSFERS.version}
        with contextlib.suppress(DuplicateKeyError):
            await db[TRANSFERS.name].insert_one(called_off)
