"""Merging: a cart passes its lines on to another cart of its owner. No unit becomes available to others meanwhile.

1. Lock the cart that is given up: `ACTIVE` → `EXPIRING`, with the id of the other cart. Closing it (see
   `cart_closing`) then does not return the units: its moves pass them on.
2. When such a move is concluded, one update of the stock replaces it by a reservation of the same units for the other
   cart (see `moves.arriving`). The counters of the stock stay the same.
3. **Take**: one update of the other cart, guarded by its version, adds the lines and stores its decisions on these
   reservations. What it cannot hold, or everything if it is no longer active, is refused.
4. Conclude the reservations, and forget the decisions.

Whatever the other cart refuses, its owner still wants: it may have been bought, discarded or merged itself, it may have
expired, or it may have been filled. So it refuses the lines in favor of a further cart of the owner: the one that it
was merged into, or a new one, which is created before. The conclusion then replaces each reservation by one of the
further cart, which takes it as in step 3. The id of a new cart is derived, so every process creates the same one. A
line follows a bounded number of merges, and then gets a new cart.

Unlike other reservations, one that was passed on is not refused when it is found old: the process that finds it takes
it. It is taken once: a cart is read before the stock, a reservation leaves the stock before its decision is forgotten,
and every decision changes the version of the cart. After a crash, the jobs that finish expiries and moves continue.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.writes.retries import attempts

from . import moves
from .carts import ACTIVE, CARTS, MAX_LINES, MAX_QUANTITY, MAX_TOTAL, find_cart, total_of, touched
from .stock import STOCK

_NOTHING: Mapping[str, Any] = MappingProxyType({})
# How many merges a line follows from cart to cart. Carts that are merged into each other cannot send it in a circle.
_MERGES_FOLLOWED = 4
# The idle time of a new cart, if the cart that it takes the place of does not say.
_IDLE_TIME = timedelta(hours=1)


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
    Writes:   carts, then stock, then carts; each guarded. If the cart refuses lines, a new cart as well.
    """
    if not arrived:
        return
    key = arrived[0]["cart_id"]
    async for _ in attempts():
        # Read the cart before the stock.
        cart = await find_cart(db, key)
        decided = {} if cart is None else moves.decisions(cart)
        going = _going_on(cart)
        listed = await _listed(db, arrived)
        new = [move for move in arrived if move["id"] in listed and move["id"] not in decided]
        if new and cart is not None:
            cart = await _decide(db, cart, new, now=now, values=values)
            if cart is None:
                continue
            decided, going = moves.decisions(cart), _going_on(cart)
        elif cart is None:
            decided = {move["id"]: False for move in new}
        for is_taken in (True, False):
            ended = [going.get(move["id"], move) for move in arrived if decided.get(move["id"]) is is_taken]
            await moves.conclude_all(db, ended, is_taken=is_taken, now=now)
        ids = [move["id"] for move in arrived]
        await db[CARTS.name].update_one({"_id": key}, {"$pull": {"decided": {"id": {"$in": ids}}}})
        await take(db, [moves.going_on(going[one]) for one in ids if one in going], now=now)
        return
    raise Conflict("Other callers are changing the cart. Try again.")


async def find_taker(db: Database, cart: Document, arrived: Sequence[Document]) -> Document:
    """Returns the active cart that has taken these lines, which went to this cart first; this one if there is none."""
    taker = cart
    for _ in range(_MERGES_FOLLOWED + 1):
        if taker["status"] == ACTIVE or not arrived:
            return taker
        for key in (_rest_id(taker["_id"], arrived[0]), taker.get("into")):
            found = None if key is None else await find_cart(db, key)
            if found is not None:
                taker = found
                break
    return taker


def _rest_id(key: str, move: Mapping[str, Any]) -> str:
    """Returns the id of the new cart that gets what the cart with this key refuses."""
    return hashlib.blake2b(f"{key} {move['op']}/rest".encode(), digest_size=16).hexdigest()


def _going_on(cart: Document | None) -> dict[str, Document]:
    """Returns the decisions that were made in favor of another cart, by the ids of their moves."""
    return {} if cart is None else {move["id"]: move for move in cart.get("decided", ()) if "rest" in move}


async def _further_cart(db: Database, cart: Document, move: Document, now: datetime) -> str:
    """Returns the id of the cart that gets what this one refuses. Creates it if there is none. Idempotent."""
    if "into" in cart and move["id"].count(moves.GOING_ON) < _MERGES_FOLLOWED:
        return str(cart["into"])
    rest = {
        "_id": _rest_id(cart["_id"], move),
        "owner": cart["owner"],
        "status": ACTIVE,
        "items": [],
        "currency": move["line"]["currency"],
        # If the other cart is active, or becomes active again, it remains the current one of the owner.
        **touched(now, _lasting(cart)) | {"last_modified": cart["last_modified"] - timedelta(milliseconds=1)},
        "version": 0,
        "holding": True,
    }
    with contextlib.suppress(DuplicateKeyError):
        await db[CARTS.name].insert_one(rest)
    return str(rest["_id"])


def _lasting(cart: Document) -> timedelta:
    """Returns the idle time of a cart that is created in place of this one."""
    if cart["status"] == ACTIVE:
        lasting: timedelta = cart["expires_at"] - cart["last_modified"]
        return max(_IDLE_TIME, lasting)
    return timedelta(seconds=cart["checkout"]["lasts"]) if "checkout" in cart else _IDLE_TIME


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
    refused = [one for one in decided if not one["is_taken"]]
    if refused:
        # All of these moves come from one cart, so one further cart gets what is refused.
        rest = await _further_cart(db, cart, refused[0], now)
        for one in refused:
            one["rest"] = rest
    changes = {**content, **(values if cart["status"] == ACTIVE else {})}
    update = {"$set": changes, "$push": {"decided": {"$each": decided}}, "$inc": {"version": 1}}
    same = {"_id": cart["_id"], "version": cart["version"]}
    return await db[CARTS.name].find_one_and_update(same, update, return_document=ReturnDocument.AFTER)
