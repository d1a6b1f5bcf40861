"""Reads the roll-ups of a user, and the time until which they are complete.

It reads the user's oldest mark first, and then the roll-ups, both from the primary. The time is as exact as the clocks
of the gateways, and can go back between two reads. A deposed primary that still answers can promise too much for as
long as an election takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput

from .batches import FIRST
from .periods import MAX_POINTS, Granularity, count_periods, start_of
from .session_recording import require_user_id
from .sessions import PENDING, ROLL_UPS, SESSIONS

_SHOWN = {"_id": 0, "start": 1, "sessions": 1, "total": 1}


class SessionReport(NamedTuple):
    """Roll-ups in a range, {start, sessions, total: microseconds}, by their start.

    They include every session of the user that was acknowledged before `as_of`.
    """

    as_of: datetime
    stats: Sequence[Document]


async def read_stats(
    db: Database, *, user_id: str, granularity: Granularity, begin: datetime, end: datetime, now: datetime
) -> SessionReport:
    """Returns the roll-ups of the periods that overlap the range, without periods that have no session.

    The pending sessions are read first, then the roll-ups, both from the primary. So a session that was acknowledged
    before is pending, and `as_of` is not after it, or the roll-ups that are read include it.

    Args:     begin, end: `begin` is included, `end` is not.
    Raises:   InvalidInput.
    """
    with InvalidInput.collect() as check:
        check(require_user_id, user_id)
        if granularity == "MINUTE":
            text = "Sessions are rolled up by HOUR, DAY, WEEK, MONTH and YEAR, not by MINUTE."
            check.refuse(InvalidInput(text, "granularity", code=InvalidInput.NOT_ALLOWED))
        check(count_periods, granularity, begin, end)
    # MongoDB uses the partial index only for what exists.
    pending = {"user_id": user_id, PENDING: {"$exists": True, "$gte": FIRST}}
    oldest = await _oldest(db, pending)
    inside = {"$gte": start_of(granularity, begin), "$lt": end}
    chosen = {"user_id": user_id, "level": granularity, "start": inside}
    found = db[ROLL_UPS.name].find(chosen, _SHOWN, sort=[("start", ASCENDING)], batch_size=MAX_POINTS + 1)
    return SessionReport(min(now, oldest or now), await found.to_list())


async def count_pending(db: Database, _now: datetime) -> float:
    """Returns how many sessions some roll-ups may lack."""
    return await db[SESSIONS.name].count_documents({PENDING: {"$exists": True}})


async def oldest_pending(db: Database, now: datetime) -> float:
    """Returns the age of the oldest session that some roll-ups may lack, in seconds; 0 if there is none."""
    oldest = await _oldest(db, {PENDING: {"$gte": FIRST}})
    return max(0.0, (now - (oldest or now)).total_seconds())


async def _oldest(db: Database, pending: Document) -> datetime | None:
    """Returns the time of the longest pending session among these."""
    found = (
        await db[SESSIONS.name].find(pending, {"_id": 0, PENDING: 1}, sort=[(PENDING, ASCENDING)], limit=1).to_list()
    )
    return found[0][PENDING] if found else None
