"""Settlements: all lines of a cart are sold together, or returned to stock together.

The cart is locked: it is pending and paid for, or it is expiring. Both states end only by a settlement, so every
process that settles the cart does the same:

1. Prepare a move for each line (see `moves`).
2. Store these moves in the cart as its settlement, guarded by the cart's version. One process succeeds.
3. Conclude the moves, and give the cart its final status.

The settlement stays in the cart, so a process that resumes late finds it and prepares no moves.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pymongo import ReturnDocument

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.writes.retries import attempts

from . import moves
from .carts import CARTS, COMPLETE, EXPIRED, EXPIRING, PENDING

# The final status of a locked cart, and the kind of move for its lines.
_ENDS: dict[str, tuple[str, moves.Kind]] = {PENDING: (COMPLETE, "sell"), EXPIRING: (EXPIRED, "return")}


async def settle(db: Database, cart: Document, *, now: datetime) -> Document:
    """Sells the lines of a pending cart that is paid for, or returns those of an expiring one. Idempotent.

    Args:     cart: as read when it was locked, or later.
    Returns:  the cart, settled.
    Raises:   Conflict (others kept changing the cart).
    Writes:   stock, then carts, then stock, then carts; each guarded. One command each, for any number of lines.
    """
    final, _ = _ENDS[cart["status"]]
    locked = {"_id": cart["_id"], "status": cart["status"]}
    present: Document | None = cart
    async for _ in attempts():
        if present is None or "settlement" in present:
            break
        prepared = [_move_of(present, line, now) for line in present["items"]]
        is_decided = await _decide(db, present, prepared, now)
        present = {**present, "settlement": prepared} if is_decided else await db[CARTS.name].find_one(locked)
    else:
        raise Conflict("Other callers are changing the cart. Try again.")
    if present is not None:
        await moves.conclude_all(db, present["settlement"], is_taken=True, now=now)
        end: dict[str, Any] = {"$set": {"status": final}, "$unset": {"due": "", "checkout.payment": ""}}
        settled = await db[CARTS.name].find_one_and_update(locked, end, return_document=ReturnDocument.AFTER)
        if settled is not None:
            return settled
    others = await db[CARTS.name].find_one({"_id": cart["_id"]})
    assert others is not None
    return others


def _move_of(cart: Document, line: Document, now: datetime) -> Document:
    final, kind = _ENDS[cart["status"]]
    return moves.new_move(
        kind,
        sku=line["sku"],
        cart_id=cart["_id"],
        quantity=line["quantity"],
        now=now,
        operation_id=f"{final} {cart['_id']}",
    )


async def _decide(db: Database, cart: Document, prepared: list[Document], now: datetime) -> bool:
    """Prepares the moves and stores them in the cart. If the cart has changed, rolls them back and returns False."""
    await moves.prepare_all(db, prepared, now=now)
    same = {"_id": cart["_id"], "status": cart["status"], "version": cart["version"]}
    settlement = {"$set": {"settlement": prepared}, "$unset": {"holding": ""}, "$inc": {"version": 1}}
    if (await db[CARTS.name].update_one(same, settlement)).matched_count:
        return True
    await moves.conclude_all(db, prepared, is_taken=False, now=now)
    return False
