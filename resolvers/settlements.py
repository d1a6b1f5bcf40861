"""How the stock lets go of all the lines of a cart at once: they are sold, or they go back.

The cart is locked: pending and paid for, or expiring. Neither ends but by a settlement, so all who settle it do the
same:

1. prepare a move for each line (see `moves`)
2. list these moves in the cart as its settlement, guarded by the cart's version: one process succeeds
3. conclude them, and give the cart its last status

The settlement stays in the cart, so that a process that wakes up late finds it and prepares nothing of its own.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from . import moves
from .carts import CARTS, COMPLETE, EXPIRED, EXPIRING, PENDING
from .documents import Database, Document

# The last status of a locked cart, and what becomes of its lines.
_ENDS: dict[str, tuple[str, moves.Kind]] = {PENDING: (COMPLETE, "sell"), EXPIRING: (EXPIRED, "return")}


async def settle(db: Database, cart: Document, *, now: datetime) -> None:
    """Sells the lines of a pending cart that is paid for, or returns those of an expiring one. May be repeated.

    Args:     cart: as it was when it was locked, or later.
    Writes:   stock, then carts, then stock, then carts; each guarded. One command each, however many lines there are.
    """
    final, kind = _ENDS[cart["status"]]
    locked = {"_id": cart["_id"], "status": cart["status"]}
    while True:
        present = await db[CARTS.name].find_one(locked)
        if present is None:
            return
        if "settlement" in present:
            break
        prepared = [
            moves.new_move(
                kind,
                sku=line["sku"],
                cart_id=cart["_id"],
                quantity=line["quantity"],
                now=now,
                operation_id=f"{final} {cart['_id']}",
            )
            for line in present["items"]
        ]
        if await _prepare(db, present, prepared, now):
            present["settlement"] = prepared
            break
    if present["settlement"]:
        await moves.conclude_all(db, present["settlement"], is_taken=True, now=now)
    end: dict[str, Any] = {"$set": {"status": final}, "$unset": {"due": "", "checkout.payment": ""}}
    await db[CARTS.name].update_one(locked, end)


async def _prepare(db: Database, cart: Document, prepared: list[Document], now: datetime) -> bool:
    """False, with the moves undone, where somebody else has changed the cart meanwhile."""
    if prepared:
        await moves.prepare_all(db, prepared, now=now)
    same = {"_id": cart["_id"], "status": cart["status"], "version": cart["version"]}
    settlement = {"$set": {"settlement": prepared}, "$unset": {"holding": ""}, "$inc": {"version": 1}}
    if (await db[CARTS.name].update_one(same, settlement)).matched_count:
        return True
    if prepared:
        await moves.conclude_all(db, prepared, is_taken=False, now=now)
    return False
