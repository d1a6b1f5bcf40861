"""Checks the orders of the whole database, while it is in use: their totals, their stock and their payments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from portico.resolvers.accounts import transfer_records
from portico.resolvers.accounts.accounts import shop_account_id
from portico.resolvers.accounts.transfer_records import SETTLED
from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem, Problems, named, problems_in
from portico.resolvers.writes.sweeps import require

from .account_payments import transfer_of
from .carts import total_of
from .orders import ORDERS
from .stock_reads import find_stocks

_NAME = named("order")
_SHOWN = dict.fromkeys(("owner", "cart_id", "placed_at", "items", "total", "currency", "payment_reference"), 1)


async def find_wrong_orders(db: Database) -> Problems:
    """Yields orders with a wrong total, with SKUs without stock, or without their payment by account.

    One read is enough: the transfer is settled before the order is written, the stock exists before units are sold, and
    neither is ever deleted. Payments by token are not checked.
    """
    found = db[ORDERS.name].find({"_id": {"$gte": ""}}, _SHOWN)
    async for problem in problems_in(found, partial(_wrong_in, db), _NAME):
        yield problem


async def _wrong_in(db: Database, batch: list[Document]) -> Problems:
    skus = list({line["sku"] for order in batch for line in order["items"]})
    stocks = await find_stocks(db, skus) if skus else {}
    payments = {order["_id"]: transfer_of(order["payment_reference"]) for order in batch}
    by_account = [payment for payment in payments.values() if payment is not None]
    paid = await transfer_records.find_by_ids(db, by_account) if by_account else {}
    for order in batch:
        require(order, _SHOWN)
        problems = [*_wrong_total(order)]
        problems += [f"its SKU {line['sku']} has no stock" for line in order["items"] if line["sku"] not in stocks]
        payment = payments[order["_id"]]
        if payment is not None:
            problems += _unpaid(order, paid.get(payment))
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
