"""Whether every transfer is between accounts that are there, and has bought what it paid for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.shop.carts import CARTS, PENDING
from portico.resolvers.shop.orders import find_by_ids, order_id
from portico.resolvers.writes.sweeps import wrong_in_batches

from . import accounts
from .transfers import SETTLED, TRANSFERS

_SHOWN = dict.fromkeys(("source", "destination", "state", "reference"), 1)


async def find_wrong_transfers(db: Database) -> AsyncIterator[Document]:
    """Transfers of which an account does not exist, or that have paid for a checkout of which there is no order.

    Accounts are there before their transfers, and stay. Yields {_id, problem}.
    """
    found = db[TRANSFERS.name].find({}, _SHOWN, sort=[("_id", ASCENDING)])
    async for wrong in wrong_in_batches(found, partial(_wrong_in, db)):
        yield wrong


async def _wrong_in(db: Database, batch: list[Document]) -> AsyncIterator[Document]:
    sides = [(transfer, side) for transfer in batch for side in ("source", "destination")]
    named = list({transfer[side] for transfer, side in sides} - {None})
    there = await accounts.find_by_ids(db, named, {"_id": 1})
    for transfer, side in sides:
        # A deposit has no source.
        is_outside = side == "source" and transfer[side] is None
        if not is_outside and transfer[side] not in there:
            yield {"_id": transfer["_id"], "problem": f"its {side}, account {transfer[side]}, does not exist"}
    for transfer in await _without_order(db, batch):
        yield {"_id": transfer["_id"], "problem": "it has paid for a checkout, and there is no order"}


async def _without_order(db: Database, batch: list[Document]) -> list[Document]:
    """Those that have paid for a checkout that nobody goes on with.

    The order is written before its cart ceases to be pending. So one that was missing before the cart was looked at,
    and is missing after it, will not come any more.
    """
    paid = [transfer for transfer in batch if transfer["state"] == SETTLED and transfer.get("reference") is not None]
    paid = await _not_ordered(db, paid)
    if not paid:
        return []
    references = [transfer["reference"] for transfer in paid]
    locked = {"due": {"$exists": True}, "status": PENDING, "checkout.reference": {"$in": references}}
    found = db[CARTS.name].find(locked, {"checkout.reference": 1})
    pending = {cart["checkout"]["reference"] async for cart in found}
    return await _not_ordered(db, [transfer for transfer in paid if transfer["reference"] not in pending])


async def _not_ordered(db: Database, paid: list[Document]) -> list[Document]:
    ids = {transfer["_id"]: order_id(transfer["reference"]) for transfer in paid}
    orders = await find_by_ids(db, list(ids.values()), {"_id": 1}) if ids else {}
    return [transfer for transfer in paid if ids[transfer["_id"]] not in orders]
