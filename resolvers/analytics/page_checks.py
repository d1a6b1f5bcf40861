"""Checks and repairs the roll-ups of log events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial

from pymongo import ASCENDING, timeout

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.hints import with_hint
from portico.resolvers.problems import Problem
from portico.resolvers.server_time import server_time

from .log_days import BY_PAGE, DAY, LOG_DAYS, PAGE_DAYS, VALID, uncounted_days
from .log_events import COUNTED, LOG_EVENTS
from .page_roll_ups import roll_up_day

# How long the check of a day may take.
_CHECK_SECONDS = 600.0


async def find_wrong_days(db: Database) -> AsyncIterator[Problem]:
    """Yields the days whose valid counts are not those of their events.

    Late events differ from the counts until the day is rolled up again. So a day with uncounted events has no problem,
    nor has one of which another roll-up became valid during the check.
    """
    found = db[LOG_DAYS.name].find({}, sort=[("_id", ASCENDING)], batch_size=10_000)
    for stored in await found.to_list():
        day = stored["_id"]
        if not isinstance(day, datetime):
            yield Problem(f"log day {day}", "it is not a day")
            continue
        text = await _problem_of(db, day, stored) if VALID in stored else None
        if text is not None and not await _has_moved(db, stored):
            yield Problem(f"log day {day}", text, partial(repair, db, day))


async def _problem_of(db: Database, day: datetime, stored: Document) -> str | None:
    events: Document = {"$match": {"time": {"$gte": day, "$lt": day + DAY}}}
    shown: Document = {"$project": {"_id": 0, "path": 1, "day": 1, "hits": 1, "visitors": 1}}
    counts: list[Document] = [{"$match": {"roll_up": stored[VALID]}}, shown, {"$set": {"stored": 1}}]
    same: Document = {
        "$group": {
            "_id": {"path": "$path", "day": "$day", "hits": "$hits", "visitors": "$visitors"},
            "rows": {"$sum": 1},
            "stored": {"$sum": "$stored"},
        }
    }
    total: Document = {
        "$group": {
            "_id": None,
            "different": {"$sum": {"$cond": [{"$and": [{"$eq": ["$rows", 2]}, {"$eq": ["$stored", 1]}]}, 0, 1]}},
            "stored": {"$sum": "$stored"},
        }
    }
    stages = [events, *BY_PAGE, {"$unionWith": {"coll": PAGE_DAYS.name, "pipeline": counts}}, same, total]
    with timeout(_CHECK_SECONDS):
        read = partial(db[LOG_EVENTS.name].aggregate, stages, allowDiskUse=True)
        found = await (await with_hint(COUNTED, read)).to_list()
    summed = found[0] if found else {"different": 0, "stored": 0}
    if summed["different"]:
        return "its counts are not those of its log events"
    return None if summed["stored"] == stored.get("pages") else "its number of pages is wrong"


async def _has_moved(db: Database, stored: Document) -> bool:
    """Returns whether events that arrived or expired during the check can explain a difference."""
    if await uncounted_days(db, stored["_id"], stored["_id"] + DAY):
        return True
    now = await db[LOG_DAYS.name].find_one({"_id": stored["_id"]}, {VALID: 1})
    return now is None or bool(now.get(VALID) != stored[VALID])


async def repair(db: Database, day: datetime) -> None:
    """Rolls a day up again. Raises Conflict if another process does so at the same time."""
    if not await roll_up_day(db, day, now=await server_time(db)):
        raise Conflict("Another process rolls up the same day. Try again.")
