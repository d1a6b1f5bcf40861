"""The records of transfers, which decide them. See `transfers`.

Records are never deleted. A record that was called off before it was inserted has only `_id`, `state` and `created_at`,
and so has, with `call`, a call that was refused before it came to a transfer, e.g. because there is no such account.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.read_concern import ReadConcern

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection, Versioned
from portico.resolvers.writes.deciding import DecidedKey, KeyDecisions, insert
from portico.resolvers.writes.marks import derived_id


class TransferDocument(Versioned):
    """A record. Its `_id` is derived from the operation and the number of the attempt."""

    _id: ObjectId
    # The key of the attempt that was decided; missing in transfers of former versions, and if nothing moved.
    key: NotRequired[str]
    # The account that pays; None for a deposit, whose money comes from outside. Then the account that is paid.
    source: NotRequired[ObjectId | None]
    destination: NotRequired[ObjectId]
    # The subjects of both accounts' owners.
    owners: NotRequired[list[str]]
    # Minor units.
    amount: NotRequired[int]
    # ISO 4217, that of both accounts.
    currency: NotRequired[str]
    # SETTLED, or CANCELLED if it was refused or called off. Only former versions stored NEW, COMMITTED and ROLLBACK.
    # See `former_transfers`.
    state: str
    # Why it was refused: `funds` or `limit`; this is final.
    refused: NotRequired[str]
    # The idempotency key that it decides, if it decides one.
    call: NotRequired[DecidedKey]
    # The reference of the charge that it pays; missing if it pays none.
    reference: NotRequired[str]
    created_at: datetime
    # How often somebody has looked at it to go on with what another process has begun.
    looks: NotRequired[int]
    # Of former versions, while the transfer was open.
    open_since: NotRequired[datetime]


TRANSFERS = CollectionSpec(
    "transfers",
    document=TransferDocument,
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
) -> dict[ObjectId, TransferDocument]:
    """Returns the transfers with these ids, without deposits."""
    query = {"_id": {"$in": list(ids)}, "source": {"$ne": None}}
    found = await TRANSFERS.of(db).find(query, projection, batch_size=len(ids) + 1).to_list()
    return {transfer["_id"]: transfer for transfer in found}


async def find_decided(db: Database, ids: Sequence[ObjectId]) -> Document | None:
    """Returns one of these transfers that is settled or refused. A later election does not roll it back."""
    at_majority = db[TRANSFERS.name].with_options(read_concern=ReadConcern("majority"))
    decided: list[Document] = [{"state": SETTLED}, {"refused": {"$exists": True}}]
    return await at_majority.find_one({"_id": {"$in": list(ids)}, "$or": decided})


def record_id(operation_id: str, number: int) -> ObjectId:
    """Returns the `_id` of the record of an attempt; `number` counts those before it that were called off."""
    return derived_id(operation_id, f"transfer {number}")


def _empty(now: datetime) -> Document:
    return {"state": CANCELLED, "created_at": now, "schema_version": TRANSFERS.version}


# Transfers and deposits decide the keys of their calls.
DECISIONS = KeyDecisions(TRANSFERS, record_id, _empty)


async def call_off(db: Database, note: Document, record: Document | None, now: datetime) -> None:
    """Makes it impossible to decide the attempt of a note. Idempotent."""
    if record is None:
        await insert(db, TRANSFERS, {"_id": note["record"], **_empty(now)})
