"""Checks whether stock, carts and orders agree, over the whole database while it is in use, in bounded memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem, mend_now
from portico.resolvers.writes.sweeps import require

from .carts import CARTS, PENDING
from .moves import decisions
from .orders import CANCELLED, ORDERS, order_id
from .stock import STOCK, change, changed_by

# The most reads of a SKU that looks wrong. If it changes every time, it is too busy to judge.
_LOOKS = 50
_PAUSE = 0.02
_NAME, _CART = Problem.named("stock of"), Problem.named("cart")
_COUNTERS = ("available", "reserved", "sold")
_CHECKED = dict.fromkeys((*_COUNTERS, "restocked", "under_way", "version"), 1)


async def find_wrong_stocks(db: Database) -> AsyncIterator[Problem]:
    """Yields stocks whose counters do not add up to what was restocked, or differ from carts and orders.

    A SKU that looks wrong is read again, and judged by what was read between two equal versions of its stock. Every
    change of a line first adds a move to the stock and finally removes it, so in between only the listed moves can have
    changed something. The problem is open if the stock changed during every check, so that it cannot be judged.
    """
    found = db[STOCK.name].find({"_id": {"$gte": ""}}, _CHECKED)
    async for problem in Problem.all_in(found, partial(_wrong_in, db), _NAME):
        yield problem


async def _wrong_in(db: Database, batch: list[Document]) -> AsyncIterator[Problem]:
    held, sold = await _held(db, batch, []), await _sold(db, batch, [])
    for stock in batch:
        require(stock, _CHECKED)
        sku = stock["_id"]
        if _problem(stock, held.get(sku, 0), sold.get(sku, 0)) is not None:
            for problem in await _look_again(db, sku):
                yield problem


async def find_lines_without_stock(db: Database) -> AsyncIterator[Problem]:
    """Yields carts that hold units of a SKU without a stock."""
    holding = {"holding": True, "items.sku": {"$gte": ""}}
    async for problem in Problem.all_in(db[CARTS.name].find(holding, {"items.sku": 1}), partial(_unstocked, db), _CART):
        yield problem


async def _unstocked(db: Database, carts: list[Document]) -> AsyncIterator[Problem]:
    skus = list({line["sku"] for cart in carts for line in cart["items"]})
    known = {stock["_id"] async for stock in db[STOCK.name].find({"_id": {"$in": skus}}, {"_id": 1})}
    for cart in carts:
        for line in cart["items"]:
            if line["sku"] not in known:
                yield Problem(_CART(cart), f"it holds units of {line['sku']}, which has no stock")


async def _mend(db: Database, stock: Document, counters: Document, *, now: datetime) -> None:
    """Writes the correct counters, unless the stock has changed since the check."""
    update = changed_by(now)
    update[0]["$set"] |= counters
    await change(db, {"_id": stock["_id"], "version": stock["version"]}, update)


async def _held(db: Database, stocks: Sequence[Document], without: Sequence[str]) -> dict[str, int]:
    """Returns the units in carts that the stock counts as reserved, except carts with the ids `without`."""
    return await _sum(db, CARTS.name, [stock["_id"] for stock in stocks], {"holding": True, **_not_among(without)})


async def _sold(db: Database, stocks: Sequence[Document], without: Sequence[str]) -> dict[str, int]:
    """Returns the units in orders that are not cancelled, except orders with the ids `without`."""
    which = {"status": {"$ne": CANCELLED}, **_not_among(without)}
    return await _sum(db, ORDERS.name, [stock["_id"] for stock in stocks], which)


def _not_among(ids: Sequence[str]) -> Document:
    return {"_id": {"$nin": list(ids)}} if ids else {}


async def _sum(db: Database, collection: str, skus: Sequence[str], which: Document) -> dict[str, int]:
    wanted = {"items.sku": {"$in": list(skus)}}
    stages: list[Document] = [
        {"$match": {**which, **wanted}},
        {"$unwind": "$items"},
        {"$match": wanted},
        {"$group": {"_id": "$items.sku", "units": {"$sum": "$items.quantity"}}},
    ]
    return {row["_id"]: row["units"] async for row in await db[collection].aggregate(stages)}


def _problem(stock: Document, held: int, sold: int) -> str | None:
    if any(stock[name] < 0 for name in _COUNTERS):
        return "a counter is below zero"
    if sum(stock[name] for name in _COUNTERS) != stock["restocked"]:
        return f"its counters do not add up to the {stock['restocked']:,} that were restocked"
    if stock["reserved"] != held:
        return f"{stock['reserved']:,} units are reserved, but {held:,} are in carts"
    if stock["sold"] != sold:
        return f"{stock['sold']:,} units are sold, but {sold:,} are in orders"
    return None


async def _look_again(db: Database, sku: str) -> Sequence[Problem]:
    """Returns what is wrong with the stock of the SKU, or that it is too busy."""
    for _ in range(_LOOKS):
        stock = await db[STOCK.name].find_one({"_id": sku}, _CHECKED)
        if stock is None:
            return []
        found = await _look(db, stock)
        if found is not None:
            return found
        await asyncio.sleep(_PAUSE)
    return [Problem(_NAME({"_id": sku}), "it changed during every check", is_open=True)]


async def _look(db: Database, stock: Document) -> Sequence[Problem] | None:
    """Judges a stock as it was read; returns None if it has changed since.

    While its version stays the same, only carts with a listed move can change their lines of the SKU or decide. Each of
    these carts is judged by one read, so it counts either before its decision or after it. So is each order with a
    listed move that restores its units.
    """
    sku, moves = stock["_id"], stock["under_way"]
    ids = list({move["cart_id"] for move in moves})
    unsettled = await _unsettled(db, sku, moves, await _carts(db, ids))
    restoring = {move["order_id"] for move in moves if move["kind"] == "restore"}
    sold = (await _sold(db, [stock], [*unsettled, *restoring])).get(sku, 0)
    sold += await _not_restored(db, sku, moves, list(restoring))
    held = (await _held(db, [stock], ids)).get(sku, 0)
    carts = await _carts(db, ids)
    # If a cart was locked in the meantime, the sum of orders may include its order.
    is_same = await _unsettled(db, sku, moves, carts) <= unsettled
    after = await db[STOCK.name].find_one({"_id": sku}, {"version": 1})
    if not is_same or after is None or after["version"] != stock["version"]:
        return None
    return _judged(db, stock, held + _reserved_for(carts, sku, moves), sold)


async def _carts(db: Database, ids: Sequence[str]) -> dict[str, Document]:
    if not ids:
        return {}
    shown = dict.fromkeys(("items", "holding", "decided", "settlement", "checkout.reference"), 1)
    return {cart["_id"]: cart async for cart in db[CARTS.name].find({"_id": {"$in": list(ids)}}, shown)}


async def _not_restored(db: Database, sku: str, moves: Sequence[Document], orders: Sequence[str]) -> int:
    """Returns the units of these orders that the stock still counts as sold."""
    if not orders:
        return 0
    listed = {move["id"] for move in moves}
    found = db[ORDERS.name].find({"_id": {"$in": list(orders)}}, {"items": 1, "status": 1, "returned.id": 1})
    units = 0
    async for order in found:
        # A cancelled order whose own moves have been concluded only has moves of other calls, which are rolled back.
        if order["status"] != CANCELLED or listed & {move["id"] for move in order["returned"]}:
            units += sum(line["quantity"] for line in order["items"] if line["sku"] == sku)
    return units


async def _unsettled(db: Database, sku: str, moves: Sequence[Document], carts: dict[str, Document]) -> set[str]:
    """Returns the ids of orders that may be written already while the stock still counts their units as reserved."""
    paying = {"holding": True, "items.sku": sku, "status": PENDING}
    found = db[CARTS.name].find(paying, {"checkout.reference": 1})
    references = [cart["checkout"]["reference"] async for cart in found]
    for move in moves:
        cart = carts.get(move["cart_id"])
        if move["kind"] == "sell" and cart is not None and decisions(cart).get(move["id"]):
            references.append(cart["checkout"]["reference"])
    return {order_id(reference) for reference in references}


def _reserved_for(carts: dict[str, Document], sku: str, moves: Sequence[Document]) -> int:
    """Returns the units that the stock counts as reserved for the carts of these moves: in lines or in flight."""
    holding = [cart for cart in carts.values() if cart.get("holding")]
    held = sum(line["quantity"] for cart in holding for line in cart["items"] if line["sku"] == sku)
    taken = {move: is_taken for cart in carts.values() for move, is_taken in decisions(cart).items()}
    # A cart has the units of a reservation after it took the move, and those of other moves until then.
    in_flight = [move for move in moves if taken.get(move["id"], False) == (move["kind"] != "reserve")]
    return int(held + sum(move["quantity"] for move in in_flight))


def _judged(db: Database, stock: Document, held: int, sold: int) -> Sequence[Problem]:
    """Computes the correct counters: carts and orders are the truth, and the rest of `restocked` is available."""
    text = _problem(stock, held, sold)
    if text is None:
        return []
    available = stock["restocked"] - held - sold
    can_mend = available >= 0 and not stock["under_way"]
    counters = {"available": available, "reserved": held, "sold": sold}
    return [Problem(_NAME(stock), text, partial(mend_now, _mend, db, stock, counters) if can_mend else None)]
