"""Checks whether every payment by account has an order, and every refund a cancelled one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from pymongo import ASCENDING

from portico.resolvers.accounts.transfer_records import SETTLED, TRANSFERS
from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem

from .account_payments import refunded_by, transfer_reference
from .carts import CARTS, COMPLETE, PENDING
from .orders import CANCELLED, find_by_ids, order_id

_NAME = Problem.named("transfer")
_SHOWN = dict.fromkeys(("state", "reference"), 1)


async def find_payments_without_order(db: Database) -> AsyncIterator[Problem]:
    """Yields transfers that have paid for a checkout without an order, or refunded an order that did not ask for it."""
    found = db[TRANSFERS.name].find({}, _SHOWN, sort=[("_id", ASCENDING)])
    async for problem in Problem.all_in(found, partial(_wrong_in, db), _NAME):
        yield problem


async def _wrong_in(db: Database, batch: list[Document]) -> AsyncIterator[Problem]:
    for transfer in await _without_order(db, batch):
        yield Problem(_NAME(transfer), "it has paid for a checkout, but there is no order")
    for transfer in await _without_cancellation(db, batch):
        yield Problem(
            _NAME(transfer), "it has refunded an order that is not cancelled, or that another one has refunded"
        )


async def _without_order(db: Database, batch: list[Document]) -> list[Document]:
    """Returns the transfers that have paid for a checkout that no process will continue.

    An order is written before its cart loses `due`. So if the order is missing before and after the carts are read, and
    no cart that is due has the reference, the order will never be written.
    """
    paid = [transfer for transfer in _referring(batch) if refunded_by(transfer["reference"]) is None]
    paid = await _not_ordered(db, paid)
    if not paid:
        return []
    references = [transfer["reference"] for transfer in paid]
    statuses = {"$in": [PENDING, COMPLETE]}
    locked = {"due": {"$exists": True}, "status": statuses, "checkout.reference": {"$in": references}}
    found = db[CARTS.name].find(locked, {"checkout.reference": 1})
    pending = {cart["checkout"]["reference"] async for cart in found}
    return await _not_ordered(db, [transfer for transfer in paid if transfer["reference"] not in pending])


async def _not_ordered(db: Database, paid: list[Document]) -> list[Document]:
    ids = {transfer["_id"]: order_id(transfer["reference"]) for transfer in paid}
    orders = await find_by_ids(db, list(ids.values()), {"_id": 1}) if ids else {}
    return [transfer for transfer in paid if ids[transfer["_id"]] not in orders]


def _referring(batch: list[Document]) -> list[Document]:
    """Returns the transfers that have moved money for an order."""
    return [transfer for transfer in batch if transfer["state"] == SETTLED and transfer.get("reference") is not None]


async def _without_cancellation(db: Database, batch: list[Document]) -> list[Document]:
    """Returns the transfers that have refunded an order which names another refund, or has asked for none.

    An order is cancelled before it is refunded, and then stores the reference of its refund.
    """
    refunds = {transfer["_id"]: refunded_by(transfer["reference"]) for transfer in _referring(batch)}
    ids = list({order for order in refunds.values() if order is not None})
    orders = await find_by_ids(db, ids, {"status": 1, "refund": 1}) if ids else {}

    def is_wrong(transfer: Document) -> bool:
        order = refunds.get(transfer["_id"])
        if order is None:
            return False
        found = orders.get(order)
        own = transfer_reference(transfer["_id"])
        return found is None or found["status"] != CANCELLED or found["refund"].get("reference", own) != own

    return [transfer for transfer in batch if is_wrong(transfer)]
