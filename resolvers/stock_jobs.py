"""Finishes what a crash has left in the stock."""

from __future__ import annotations

from datetime import datetime

from . import moves, product_edits
from .category_jobs import STALE_AFTER
from .documents import Database
from .stock import STOCK, tell


async def finish_changes(db: Database, *, now: datetime) -> int:
    """Settles every move that has been under way for more than five seconds, tells products what they have not heard,
    and finishes or undoes deletions. Returns how many.
    """
    before = now - STALE_AFTER
    settled = 0
    stale = {"under_way": {"$elemMatch": {"at": {"$lte": before}}}}
    async for stock in db[STOCK.name].find(stale, {"under_way": 1}):
        for move in stock["under_way"]:
            if move["at"] <= before:
                await moves.settle(db, move, now=now)
                settled += 1
    async for stock in db[STOCK.name].find({"flipped_at": {"$lte": before}}, {"_id": 1}):
        await tell(db, stock["_id"])
        settled += 1
    closed = {"closed.is_final": False, "closed.at": {"$lte": before}}
    async for stock in db[STOCK.name].find(closed, {"closed": 1}):
        await product_edits.settle_deletion(db, stock["_id"], stock["closed"]["deletion"], now=now)
        settled += 1
    return settled
