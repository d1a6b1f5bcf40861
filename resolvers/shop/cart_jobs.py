"""Expires idle carts, deletes old ones, and continues interrupted checkouts, expiries and moves."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from pymongo import ReturnDocument

from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document, in_batches
from portico.resolvers.errors import DomainError
from portico.resolvers.shop.payments import Payments
from portico.resolvers.shop.refusals import PaymentPending
from portico.resolvers.writes.sweeps import each, sweep
from portico.resolvers.writes.timer import Timer

from . import cart_merging, moves
from .cart_closing import close
from .carts import ACTIVE, CARTS, COMPLETE, EXPIRED, EXPIRING, PENDING, expiring
from .checkout import ASKED_AGAIN_AFTER, finish
from .orders import find_by_ids, order_id, place_due
from .stock import STOCK

# The most carts of one run, so that the next run soon finds what has become due since.
BATCH = 500
_CHARGES = 50
_CHARGES_AT_ONCE = 10


async def expire_idle(db: Database, *, now: datetime) -> int:
    """Expires idle carts: returns their units to stock. Returns how many carts.

    It locks a cart first, by an update that matches only if the cart is still idle. A locked cart cannot be changed.
    """
    idle = {"status": ACTIVE, "expires_at": {"$lte": now}}
    lock = {
        "$set": {"status": EXPIRING, **expiring(now)},
        "$inc": {"version": 1},
    }

    async def expire(found: Document) -> int:
        cart = await db[CARTS.name].find_one_and_update(
            {"_id": found["_id"], **idle}, lock, return_document=ReturnDocument.AFTER
        )
        if cart is not None:
            await close(db, cart, now=now)
        return int(cart is not None)

    return await sweep(db, CARTS, idle, expire, fields=(), most=BATCH)


async def finish_expiries(db: Database, *, now: datetime) -> int:
    """Continues interrupted expiries of carts. Returns how many."""

    async def go_on(cart: Document) -> int:
        closed = await close(db, cart, now=now)
        if "into" in closed:
            await cart_merging.take(db, [moves.arriving(move) for move in closed["settlement"]], now=now)
        return 1

    return await sweep(db, CARTS, {"due": {"$lte": now}, "status": EXPIRING}, go_on, most=BATCH)


async def delete_old(db: Database, *, now: datetime, kept: timedelta) -> int:
    """Deletes carts that are paid or expired, and that no buyer has changed for this long. Returns how many.

    A cart with decisions stays, because a move in the stock may still depend on them; so does one whose
    moves are not concluded, and one whose order may be missing.
    """
    old = {
        "status": {"$in": [COMPLETE, EXPIRED]},
        "last_modified": {"$lte": now - kept},
        "decided.0": {"$exists": False},
        "due": {"$exists": False},
    }
    found = await db[CARTS.name].find(old, {"settlement.sku": 1}, limit=BATCH).to_list()
    skus = list({move["sku"] for cart in found for move in cart.get("settlement", ())})
    listing = {"_id": {"$in": skus}, "under_way.0": {"$exists": True}}
    stocks = await db[STOCK.name].find(listing, {"under_way.cart_id": 1}).to_list() if skus else []
    needed = {move["cart_id"] for stock in stocks for move in stock["under_way"]}
    ids = [cart["_id"] for cart in found if cart["_id"] not in needed]
    if not ids:
        return 0
    return (await db[CARTS.name].delete_many({"_id": {"$in": ids}, **old})).deleted_count


async def finish_checkouts(db: Database, payments: Payments, *, now: datetime) -> int:
    """Asks for the outcome of open payments that no call waits for, and finishes or rolls back their checkouts.

    It asks for several at a time, because a payment provider can be slow.

    Returns:  how many have ended. For a payment that is still open, it asks again after half a minute.
    """
    timer = Timer(now)

    async def ask(cart: Document) -> int:
        asked = timer.now()
        mine = {"_id": cart["_id"], "status": PENDING, "due": cart["due"]}
        if not (await db[CARTS.name].update_one(mine, {"$set": {"due": asked + ASKED_AGAIN_AFTER}})).matched_count:
            return 0
        try:
            await finish(db, payments, cart, now=asked)
        except PaymentPending:
            return 0
        except DomainError:
            # The payment was refused, and the cart is active again.
            pass
        return 1

    due = {"due": {"$lte": now}, "status": PENDING}
    return await sweep(db, CARTS, due, ask, at_once=_CHARGES_AT_ONCE, most=_CHARGES)


# What a cart no longer has when its order is known to be written.
_SEEN = {"$unset": {"due": "", "checkout.payment_reference": ""}}


async def finish_orders(db: Database, *, now: datetime) -> int:
    """Writes the orders of sold carts that may be missing; see `cart_closing`. Returns how many were missing.

    Most are there. So it looks for those of many carts at a time, and then writes the others one by one.
    """
    due = {"due": {"$lte": now}, "status": COMPLETE}

    async def forget_written() -> int:
        async for batch in in_batches(db[CARTS.name].find(due, {"checkout.reference": 1}), BATCH):
            ids = {cart["_id"]: _order_of(cart) for cart in batch}
            written = await find_by_ids(db, list(ids.values()), {"_id": 1})
            done = [cart for cart, order in ids.items() if order in written]
            if done:
                await db[CARTS.name].update_many({"_id": {"$in": done}, **due}, _SEEN)
        return 0

    async def write(cart: Document) -> int:
        await place_due(db, cart)
        await db[CARTS.name].update_one({"_id": cart["_id"], "status": COMPLETE}, _SEEN)
        return 1

    return await Job.in_sequence(forget_written, partial(sweep, db, CARTS, due, write, most=BATCH))


def _order_of(cart: Document) -> str:
    """Returns the id of the order of a cart; that of no order, if the cart is damaged."""
    locked = cart.get("checkout")
    return order_id(str(locked.get("reference"))) if isinstance(locked, dict) else ""


async def finish_moves(db: Database, *, now: datetime) -> int:
    """Settles every move between stock and carts that is older than five seconds. Returns how many."""
    before = now - Job.STALE_AFTER
    stale = {"$elemMatch": {"at": {"$lte": before}}}

    async def finish_move(move: Document) -> int:
        if move["at"] > before:
            return 0
        await moves.finish(db, move, is_taken=move["is_taken"], now=now)
        return 1

    async def finish_of(cart: Document) -> int:
        return await each(cart["decided"], finish_move)

    return await sweep(db, CARTS, {"decided": stale}, finish_of, fields=("decided",))
