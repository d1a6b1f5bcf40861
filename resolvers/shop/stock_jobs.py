"""Finishes interrupted changes of the stock."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from portico.resolvers.attachments import Attachments
from portico.resolvers.catalog import product_deletions
from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import each, sweep

from . import cart_merging, moves
from .stock import STOCK, notify_product


async def finish_changes(db: Database, attachments: Attachments, *, now: datetime) -> int:
    """Settles old moves, updates `in_stock` of products, and finishes or rolls back deletions. Returns how many.

    It processes what is older than five seconds.
    """
    before = now - Job.STALE_AFTER

    async def settle_move(move: Document) -> int:
        if move["at"] > before:
            return 0
        if move["kind"] == "reserve" and "line" in move:
            await cart_merging.take(db, [move], now=now)
        else:
            await moves.settle(db, move, now=now)
        if move["kind"] == "pass":
            await cart_merging.take(db, [moves.arriving(move)], now=now)
        return 1

    async def settle_moves(stock: Document) -> int:
        return await each(stock["under_way"], settle_move)

    async def notify(stock: Document) -> int:
        await notify_product(db, stock["_id"])
        return 1

    async def settle_deletion(stock: Document) -> int:
        await product_deletions.settle_deletion(db, attachments, stock["_id"], stock["closed"]["deletion"], now=now)
        return 1

    stale = {"under_way": {"$elemMatch": {"at": {"$lte": before}}}}
    closed = {"closed.is_final": False, "closed.at": {"$lte": before}}
    return await Job.in_sequence(
        partial(sweep, db, STOCK, stale, settle_moves, fields=("under_way",)),
        partial(sweep, db, STOCK, {"flipped_at": {"$lte": before}}, notify, fields=()),
        partial(sweep, db, STOCK, closed, settle_deletion, fields=("closed",)),
    )
