"""Lets idle carts lapse, and goes on with what a crash has left of checkouts, expiries and moves."""

from __future__ import annotations

from datetime import datetime

from pymongo import ReturnDocument

from . import moves
from .carts import ACTIVE, CARTS, EXPIRING, PENDING
from .category_jobs import STALE_AFTER
from .checkout import ASKED_AGAIN_AFTER, finish
from .documents import Database
from .errors import DomainError, PaymentPending
from .payments import Payments
from .settlements import settle

# What one turn does at most, so that a job is done before its lease runs out.
BATCH = 500
_CHARGES = 50


async def expire_idle(db: Database, *, now: datetime) -> int:
    """Gives back what is in carts that nobody has changed for too long. Returns how many carts.

    A cart is locked first, by an update that matches only where it is still idle; nothing can be put into it then.
    """
    idle = {"status": ACTIVE, "expires_at": {"$lte": now}}
    lock = {
        "$set": {"status": EXPIRING, "expires_at": None, "due": now + STALE_AFTER},
        "$inc": {"version": 1},
    }
    expired = 0
    async for found in db[CARTS.name].find(idle, {"_id": 1}, limit=BATCH):
        cart = await db[CARTS.name].find_one_and_update(
            {"_id": found["_id"], **idle}, lock, return_document=ReturnDocument.AFTER
        )
        if cart is not None:
            await settle(db, cart, now=now)
            expired += 1
    return expired


async def finish_expiries(db: Database, *, now: datetime) -> int:
    """Goes on with carts that somebody has begun to let lapse. Returns how many."""
    finished = 0
    async for cart in db[CARTS.name].find({"due": {"$lte": now}, "status": EXPIRING}, limit=BATCH):
        await settle(db, cart, now=now)
        finished += 1
    return finished


async def finish_checkouts(db: Database, payments: Payments, *, now: datetime) -> int:
    """Asks what came of payments that nobody waits for any more, and finishes or undoes their checkouts.

    Returns:  how many have come to an end. One whose outcome is still unknown is asked for again in half a minute.
    """
    finished = 0
    async for cart in db[CARTS.name].find({"due": {"$lte": now}, "status": PENDING}, limit=_CHARGES):
        mine = {"_id": cart["_id"], "status": PENDING, "due": cart["due"]}
        if not (await db[CARTS.name].update_one(mine, {"$set": {"due": now + ASKED_AGAIN_AFTER}})).matched_count:
            continue
        try:
            await finish(db, payments, cart, now=now)
        except PaymentPending:
            continue
        except DomainError:
            # The payment was refused, and the cart is active again.
            pass
        finished += 1
    return finished


async def finish_moves(db: Database, *, now: datetime) -> int:
    """Settles every move between stock and carts that is older than five seconds. Returns how many."""
    before = now - STALE_AFTER
    stale = {"$elemMatch": {"at": {"$lte": before}}}
    settled = 0
    async for cart in db[CARTS.name].find({"decided": stale}, {"decided": 1}):
        for move in cart["decided"]:
            if move["at"] <= before:
                await moves.finish(db, move, is_taken=move["is_taken"], now=now)
                settled += 1
    return settled
