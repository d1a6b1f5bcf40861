"""The job that deletes old log events."""

from __future__ import annotations

from datetime import datetime

from portico.resolvers.documents import Database

from .batches import delete_older
from .log_events import LOG_EVENTS
from .log_recording import limit_of
from .page_roll_ups import forget_days


async def forget_log_events(db: Database, *, now: datetime, days: float | None) -> int:
    """Deletes events that are older than this many days, at most 20,000 of them. Returns how many.

    Writes:   the roll-ups of their days first, so that `pageCounts` never counts deleted events.
    """
    limit = limit_of(now, days)
    if limit is None:
        return 0
    await forget_days(db, limit)
    return await delete_older(db, LOG_EVENTS, "time", limit)
