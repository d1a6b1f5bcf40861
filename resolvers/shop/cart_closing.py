"""Closing a cart: all lines are sold together, returned to stock together, or passed on to another cart.

The cart is locked: it is pending and paid for, or it is expiring. Both states end only by closing, so every process
that closes the cart does the same:

1. Prepare a move for each line (see `moves`).
2. Store these moves in the cart as its `settlement`, and its final status, guarded by the cart's version. One process
   succeeds.
3. Conclude the moves. The answer to a sale does not wait for that. If nobody does it, the job of the stock does.

The moves stay in the cart, so a process that resumes late finds them and prepares none.

A sale can write the order at the same time as step 2. Then the cart keeps `due` and the reference of its payment until
a job has seen the order. A process that needs it earlier writes it; so no move is concluded before its order is
written.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from pymongo import ReturnDocument

from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.together import both
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settler import AT_ONCE, Answering

from . import moves
from .carts import CARTS, COMPLETE, EXPIRED, EXPIRING, PENDING
from .orders import place_order

# The final status of a locked cart, and the kind of move for its lines.
_ENDS: dict[str, tuple[str, moves.Kind]] = {PENDING: (COMPLETE, "sell"), EXPIRING: (EXPIRED, "return")}
_LEFT = {"due": "", "checkout.payment": ""}


async def prepare(db: Database, cart: Document, *, now: datetime) -> list[Document]:
    """Prepares the moves of a locked cart. Returns them; none if the cart is closed."""
    if "settlement" in cart:
        return []
    prepared = moves_of(cart, now)
    await moves.prepare_all(db, prepared, now=now)
    return prepared


def moves_of(cart: Document, now: datetime) -> list[Document]:
    """Returns new moves for the lines of a locked cart. Writes nothing."""
    return [_move_of(cart, line, now) for line in cart["items"]]


async def close(
    db: Database,
    cart: Document,
    *,
    now: datetime,
    prepared: list[Document] | None = None,
    paid: str | None = None,
    answering: Answering = AT_ONCE,
) -> Document:
    """Sells the lines of a pending cart that is paid for, or returns those of an expiring one. Idempotent.

    Args:     cart: as read when it was locked, or later.  prepared: what `prepare` has returned for it.
              paid: the reference of the payment, if the order is to be written at the same time.
              answering: how the call is answered.
    Returns:  the cart, closed.
    Raises:   Conflict (others kept changing the cart).
    Writes:   stock, then carts and orders, then stock; each guarded. One command each, for any number of lines.
    """
    locked = {"_id": cart["_id"], "status": cart["status"]}
    present: Document | None = cart
    async for _ in attempts():
        if present is None or "settlement" in present:
            break
        ready = await prepare(db, present, now=now) if prepared is None else prepared
        if paid is None:
            closed = await _decide(db, present, ready)
        else:
            due = {"due": now + Job.STALE_AFTER, "checkout.payment_reference": paid}
            closed, _ = await both(_decide(db, present, ready, due), place_order(db, cart, paid))
            paid = None
        await moves.conclude_all(db, ready, is_taken=closed is not None, now=now, answering=answering)
        if closed is not None:
            return closed
        present, prepared = await db[CARTS.name].find_one(locked), None
    else:
        raise Conflict("Other callers are changing the cart. Try again.")
    if present is not None:
        await _conclude_former(db, present, now=now)
    return await _require_cart(db, cart)


async def _require_cart(db: Database, cart: Document) -> Document:
    """Returns the cart as it is now."""
    found = await db[CARTS.name].find_one({"_id": cart["_id"]})
    assert found is not None
    return found


def _move_of(cart: Document, line: Document, now: datetime) -> Document:
    final, kind = _ENDS[cart["status"]]
    if "into" in cart:
        return {**_new_move(cart, line, final, "pass", now), "line": line, "into": cart["into"]}
    return _new_move(cart, line, final, kind, now)


def _new_move(cart: Document, line: Document, final: str, kind: moves.Kind, now: datetime) -> Document:
    return moves.new_move(
        kind,
        sku=line["sku"],
        cart_id=cart["_id"],
        quantity=line["quantity"],
        now=now,
        operation_id=f"{final} {cart['_id']}",
    )


async def _decide(
    db: Database, cart: Document, prepared: list[Document], due: Mapping[str, Any] = MappingProxyType({})
) -> Document | None:
    """Stores the moves and the final status in the cart. Returns the cart; None if it has changed."""
    same = {"_id": cart["_id"], "status": cart["status"], "version": cart["version"]}
    final, _ = _ENDS[cart["status"]]
    update: dict[str, Any] = {
        "$set": {"settlement": prepared, "status": final, **due},
        "$unset": {name: "" for name in ("holding", *_LEFT) if name not in due},
        "$inc": {"version": 1},
    }
    return await db[CARTS.name].find_one_and_update(same, update, return_document=ReturnDocument.AFTER)


async def _conclude_former(db: Database, cart: Document, *, now: datetime) -> None:
    """Ends a cart that a former version has decided. It concluded the moves before it stored the final status."""
    await moves.conclude_all(db, cart["settlement"], is_taken=True, now=now)
    final, _ = _ENDS[cart["status"]]
    locked = {"_id": cart["_id"], "status": cart["status"]}
    await db[CARTS.name].update_one(locked, {"$set": {"status": final}, "$unset": _LEFT})
