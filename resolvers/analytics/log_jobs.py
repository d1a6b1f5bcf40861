"""The job that deletes old log events."""

from __future__ import annotations

from datetime import datetime

from portico.resolvers.documents import Database

from .batches import delete_older
from .log_events import LOG_EVENTS
from .log_recording import limit_of


async def forget_log_events(db: Database, *, now: datetime, days: float | None) -> int:
    """Deletes events that are older than this many days, at most 20,000 of them. Returns how many."""
    limit = limit_of(now, days)
    return 0 if limit is None else await delete_older(db, LOG_EVENTS, "time", limit)
