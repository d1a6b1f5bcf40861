"""Checks the orders of the whole database, while it is in use: their totals, stock, payments and cancellations."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from portico.resolvers.accounts import transfer_records
from portico.resolvers.accounts.transfer_records import SETTLED
from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem, mend_now
from portico.resolvers.writes.sweeps import require

from .account_payments import shop_account_id, transfer_of
from .carts import total_of
from .orders import CANCELLED, ORDERS
from .stock_reads import find_stocks

_NAME = Problem.named("order")
_FIELDS = ("owner", "cart_id", "placed_at", "items", "total", "currency", "payment_reference")
_SHOWN = dict.fromkeys((*_FIELDS, "status", "history", "returned", "refund", "due"), 1)


async def find_wrong_orders(db: Database) -> AsyncIterator[Problem]:
    """Yields orders with a wrong total or status, with SKUs without stock, or without their payment by account, and
    cancelled orders that do not give back everything.

    One read is enough: the transfer is settled before the order is written, the stock exists before units are sold, and
    neither is ever deleted. Payments by token are not checked.
    """
    found = db[ORDERS.name].find({"_id": {"$gte": ""}}, _SHOWN)
    async for problem in Problem.all_in(found, partial(_wrong_in, db), _NAME):
        yield problem


async def _wrong_in(db: Database, batch: list[Document]) -> AsyncIterator[Problem]:
    skus = list({line["sku"] for order in batch for line in order["items"]})
    stocks = await find_stocks(db, skus) if skus else {}
    payments = {order["_id"]: transfer_of(order["payment_reference"]) for order in batch}
    refunds = {order["_id"]: transfer_of(order.get("refund", {}).get("reference", "")) for order in batch}
    by_account = [payment for payment in (*payments.values(), *refunds.values()) if payment is not None]
    paid = await transfer_records.find_by_ids(db, by_account) if by_account else {}
    for order in batch:
        require(order, _FIELDS)
        problems = [*_wrong_total(order), *_wrong_status(order)]
        problems += [f"its SKU {line['sku']} has no stock" for line in order["items"] if line["sku"] not in stocks]
        payment = payments[order["_id"]]
        if payment is not None:
            problems += _unpaid(order, paid.get(payment))
            refund = refunds[order["_id"]]
            problems += _not_refunded(order, paid.get(payment), None if refund is None else paid.get(refund))
        if _is_stuck(order):
            text = "it is cancelled and has given no money back, but no job finds it"
            yield Problem(_NAME(order), text, partial(mend_now, _mend, db, order))
        for text in problems:
            yield Problem(_NAME(order), text)


def _wrong_total(order: Document) -> list[str]:
    total = total_of(order)
    return [] if order["total"] == total else [f"its total is {order['total']:,}, but its lines add up to {total:,}"]


def _unpaid(order: Document, payment: Mapping[str, Any] | None) -> list[str]:
    if payment is None or payment["state"] != SETTLED:
        return ["the transfer that paid it is missing or not settled"]
    if payment["destination"] != shop_account_id(order["currency"]):
        return ["the transfer that paid it went to another account than the shop's"]
    if payment["amount"] != order["total"]:
        return [f"its total is {order['total']:,}, but {payment['amount']:,} were paid"]
    return []


def _wrong_status(order: Document) -> Iterator[str]:
    """Yields what is wrong with the status. An order of an older version has none until it is upgraded."""
    if "status" not in order:
        return
    if order["history"][-1]["status"] != order["status"]:
        yield f"its status is {order['status']}, but its history ends with {order['history'][-1]['status']}"
    bought = Counter({line["sku"]: line["quantity"] for line in order["items"]})
    returned = Counter({move["sku"]: move["quantity"] for move in order.get("returned", ())})
    if returned != (bought if order["status"] == CANCELLED else Counter()):
        yield f"it is {order['status']}, and has put {returned.total():,} of {bought.total():,} units back into stock"


def _not_refunded(order: Document, payment: Mapping[str, Any] | None, refund: Mapping[str, Any] | None) -> list[str]:
    """Returns what is wrong with the refund of an order that was paid by account."""
    if "reference" not in order.get("refund", {}) or payment is None or order["total"] == 0:
        return []
    if refund is None or refund["state"] != SETTLED:
        return ["the transfer that refunded it is missing or not settled"]
    names = ("source", "destination", "amount")
    if [refund[name] for name in names] != [payment["destination"], payment["source"], payment["amount"]]:
        return ["the transfer that refunded it is not the reverse of its payment"]
    return []


def _is_stuck(order: Document) -> bool:
    is_open = order.get("status") == CANCELLED and "reference" not in order.get("refund", {})
    return is_open and not isinstance(order.get("due"), datetime)


async def _mend(db: Database, order: Document, *, now: datetime) -> None:
    """Leaves the order to the job, unless another process has."""
    await db[ORDERS.name].update_one({"_id": order["_id"], "due": order.get("due")}, {"$set": {"due": now}})
