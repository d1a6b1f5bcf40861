"""Roll-ups of log events: the counts of each page on one day, and which of them are valid.

A roll-up of a day is a number of documents in `analytics.page_days`. They are written under a token that is new for
each roll-up, and never changed. The document of the day in `analytics.log_days` says which token is valid, so one
update replaces all counts of a day.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NotRequired

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned

from .log_events import LOG_EVENTS, UNCOUNTED

DAY = timedelta(days=1)
# The token of the valid counts, and that of the counts that are being written.
VALID, BUILDING = "valid", "building"


class LogDay(Versioned):
    """A day. Its `_id` is midnight."""

    _id: datetime
    # The token of its counts; absent before the first roll-up is complete.
    valid: NotRequired[ObjectId]
    # How many pages they have, and when they became valid.
    pages: NotRequired[int]
    at: NotRequired[datetime]
    # The token of the latest roll-up that has begun; absent after it is complete.
    building: NotRequired[ObjectId]


class PageDay(Versioned):
    """The requests of a page on a day. Its `_id` is random."""

    _id: ObjectId
    # A token.
    roll_up: ObjectId
    # Midnight.
    day: datetime
    path: str
    hits: int
    visitors: int


LOG_DAYS = CollectionSpec("analytics.log_days", document=LogDay)
PAGE_DAYS = CollectionSpec(
    "analytics.page_days",
    document=PageDay,
    indexes=[
        # In the order of `pageCounts`, and with all that it reads.
        IndexModel(
            [
                ("roll_up", ASCENDING),
                ("hits", DESCENDING),
                ("path", ASCENDING),
                ("day", ASCENDING),
                ("visitors", ASCENDING),
            ]
        )
    ],
    shard_key={"roll_up": 1},
)

# The stages from events to {path, day, hits, visitors}. The first stage makes visitors distinct.
BY_PAGE: Sequence[Document] = (
    {
        "$group": {
            "_id": {"path": "$path", "day": {"$dateTrunc": {"date": "$time", "unit": "day"}}, "visitor": "$visitor"},
            "hits": {"$sum": 1},
        }
    },
    {
        "$group": {
            "_id": {"path": "$_id.path", "day": "$_id.day"},
            "hits": {"$sum": "$hits"},
            "visitors": {"$sum": 1},
        }
    },
    {"$project": {"_id": 0, "path": "$_id.path", "day": "$_id.day", "hits": 1, "visitors": 1}},
)


async def uncounted_days(db: Database, begin: datetime, end: datetime) -> set[datetime]:
    """Returns the days in the range that have events which no roll-up includes. Reads one key of an index for each."""
    marked: Document = {"$match": {UNCOUNTED: {"$gte": begin, "$lt": end}}}
    found = await db[LOG_EVENTS.name].aggregate([marked, {"$group": {"_id": f"${UNCOUNTED}"}}])
    return {row["_id"] async for row in found}
