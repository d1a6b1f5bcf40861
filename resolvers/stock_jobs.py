"""Finishes what a crash has left in the stock."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from . import moves, product_edits
from .category_jobs import STALE_AFTER
from .documents import Database, Document
from .stock import STOCK, tell
from .sweeps import each, in_turn


async def finish_changes(db: Database, *, now: datetime) -> int:
    """Settles every move that has been under way for more than five seconds, tells products what they have not heard,
    and finishes or undoes deletions. Returns how many.
    """
    before = now - STALE_AFTER
    stocks = db[STOCK.name]

    async def settle_moves(stock: Document) -> int:
        old = [move for move in stock["under_way"] if move["at"] <= before]
        for move in old:
            await moves.settle(db, move, now=now)
        return len(old)

    async def tell_product(stock: Document) -> int:
        await tell(db, stock["_id"])
        return 1

    async def settle_deletion(stock: Document) -> int:
        await product_edits.settle_deletion(db, stock["_id"], stock["closed"]["deletion"], now=now)
        return 1

    stale = {"under_way": {"$elemMatch": {"at": {"$lte": before}}}}
    closed = {"closed.is_final": False, "closed.at": {"$lte": before}}
    parts = [
        partial(each, stocks.find(stale, {"under_way": 1}), settle_moves),
        partial(each, stocks.find({"flipped_at": {"$lte": before}}, {"_id": 1}), tell_product),
        partial(each, stocks.find(closed, {"closed": 1}), settle_deletion),
    ]
    return await in_turn(*parts)
