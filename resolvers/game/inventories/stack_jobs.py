"""Finishes or undoes interrupted settlements."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import sweep

from . import trade_edits
from .exchanges import NOTED
from .trade_records import TRADES


async def finish_trades(db: Database, *, now: datetime) -> int:
    """Removes notes, and settles accepted trades, that are older than five seconds. Returns how many."""
    return await Job.in_sequence(partial(NOTED.finish_stale, db, now=now), partial(_settle_accepted, db, now))


async def _settle_accepted(db: Database, now: datetime) -> int:
    async def settle(trade: Document) -> int:
        await trade_edits.finish_another(db, trade["_id"])
        return 1

    return await sweep(db, TRADES, {"open_since": {"$lte": now - Job.STALE_AFTER}}, settle, fields=())
