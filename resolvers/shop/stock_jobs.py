"""Finishes what a crash has left in the stock."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from portico.resolvers.catalog import product_edits
from portico.resolvers.catalog.category_jobs import STALE_AFTER
from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import each, in_turn, sweep

from . import moves
from .stock import STOCK, tell


async def finish_changes(db: Database, *, now: datetime) -> int:
    """Settles every move that has been under way for more than five seconds, tells products what they have not heard,
    and finishes or undoes deletions. Returns how many.
    """
    before = now - STALE_AFTER

    async def settle_move(move: Document) -> int:
        if move["at"] > before:
            return 0
        await moves.settle(db, move, now=now)
        return 1

    async def settle_moves(stock: Document) -> int:
        return await each(stock["under_way"], settle_move)

    async def tell_product(stock: Document) -> int:
        await tell(db, stock["_id"])
        return 1

    async def settle_deletion(stock: Document) -> int:
        await product_edits.settle_deletion(db, stock["_id"], stock["closed"]["deletion"], now=now)
        return 1

    stale = {"under_way": {"$elemMatch": {"at": {"$lte": before}}}}
    closed = {"closed.is_final": False, "closed.at": {"$lte": before}}
    return await in_turn(
        partial(sweep, db, STOCK, stale, settle_moves, fields=("under_way",)),
        partial(sweep, db, STOCK, {"flipped_at": {"$lte": before}}, tell_product, fields=()),
        partial(sweep, db, STOCK, closed, settle_deletion, fields=("closed",)),
    )
