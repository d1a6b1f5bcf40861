"""Merging: a cart passes its lines on to another cart of its owner. No unit becomes available to others meanwhile.

1. Lock the cart that is given up: `ACTIVE` → `EXPIRING`, with the id of the other cart. Its settlement (see
   `cart_settlements`) then does not return the units: its moves pass them on.
2. When such a move is concluded, one update of the stock replaces it by a reservation of the same units for the other
   cart (see `moves.arriving`). The counters of the stock stay the same.
3. **Take**: one update of the other cart, guarded by its version, adds the lines and stores its decisions on these
   reservations. What it cannot hold, or everything if it is no longer active, is refused.
4. Conclude the reservations, and forget the decisions. The units of refused ones become available.

Unlike other reservations, one that was passed on is not refused when it is found old: whoever finds it takes it. It is
taken once: a cart is read before the stock, a reservation leaves the stock before its decision is forgotten, and every
decision changes the version of the cart. After a crash, the jobs that finish expiries and moves continue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from pymongo import ReturnDocument

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.writes.retries import attempts

from . import moves
from .carts import ACTIVE, CARTS, MAX_LINES, MAX_QUANTITY, MAX_TOTAL, find_cart, total_of
from .stock import STOCK

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def combined(cart: Mapping[str, Any], line: Mapping[str, Any]) -> Document | None:
    """Returns the items and the currency of the cart with the units of this line; None if it cannot hold them."""
    if cart["items"] and cart["currency"] != line["currency"]:
        return None
    by_sku = {present["sku"]: present for present in cart["items"]}
    present = by_sku.get(line["sku"], {**line, "quantity": 0})
    by_sku[line["sku"]] = {**present, "quantity": present["quantity"] + line["quantity"]}
    found: Document = {"items": list(by_sku.values()), "currency": line["currency"]}
    has_room = by_sku[line["sku"]]["quantity"] <= MAX_QUANTITY and len(by_sku) <= MAX_LINES
    return found if has_room and total_of(found) <= MAX_TOTAL else None


async def take(
    db: Database, arrived: Sequence[Document], *, now: datetime, values: Mapping[str, Any] = _NOTHING
) -> None:
    """Adds the lines of these reservations, all for one cart, to the cart. Idempotent.

    Args:     values: what else to set in the cart.
    Raises:   Conflict (others kept changing the cart).
    Writes:   carts, then stock, then carts; each guarded.
    """
    if not arrived:
        return
    key = arrived[0]["cart_id"]
    async for _ in attempts():
        # Read the cart before the stock.
        cart = await find_cart(db, key)
        decided = {} if cart is None else moves.decisions(cart)
        listed = await _listed(db, arrived)
        new = [move for move in arrived if move["id"] in listed and move["id"] not in decided]
        if new and cart is not None:
            cart = await _decide(db, cart, new, now=now, values=values)
            if cart is None:
                continue
            decided = moves.decisions(cart)
        elif cart is None:
            decided = {move["id"]: False for move in new}
        for is_taken in (True, False):
            ended = [move for move in arrived if decided.get(move["id"]) is is_taken]
            await moves.conclude_all(db, ended, is_taken=is_taken, now=now)
        ids = [move["id"] for move in arrived]
        await db[CARTS.name].update_one({"_id": key}, {"$pull": {"decided": {"id": {"$in": ids}}}})
        return
    raise Conflict("Other callers are changing the cart. Try again.")


async def _listed(db: Database, arrived: Sequence[Document]) -> set[str]:
    """Returns the ids of these reservations that the stock lists."""
    ids = [move["id"] for move in arrived]
    query = {"_id": {"$in": [move["sku"] for move in arrived]}, "under_way.id": {"$in": ids}}
    found = await db[STOCK.name].find(query, {"under_way.id": 1}).to_list()
    return {move["id"] for stock in found for move in stock["under_way"]}


async def _decide(
    db: Database, cart: Document, new: Sequence[Document], *, now: datetime, values: Mapping[str, Any]
) -> Document | None:
    """Stores the decisions of the cart, and the lines that it takes. Returns the cart; None if it has changed."""
    content: Document = {"items": cart["items"], "currency": cart["currency"]}
    decided = []
    for move in new:
        grown = combined(content, move["line"]) if cart["status"] == ACTIVE else None
        content = grown or content
        decided.append({**move, "at": now, "is_taken": grown is not None})
    changes = {**content, **(values if cart["status"] == ACTIVE else {})}
    update = {"$set": changes, "$push": {"decided": {"$each": decided}}, "$inc": {"version": 1}}
    same = {"_id": cart["_id"], "version": cart["version"]}
    return await db[CARTS.name].find_one_and_update(same, update, return_document=ReturnDocument.AFTER)
