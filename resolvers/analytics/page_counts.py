"""Requests by page and day, with distinct visitors, counted from the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput

from .log_events import COUNTED, LOG_EVENTS
from .periods import require_range

MAX_PAGES = 1_000
# In each row of the aggregation: how many events were read.
_ALL = "all_events"


async def count_pages(
    db: Database, begin: datetime, end: datetime, *, limit: int, max_events: int
) -> Sequence[Document]:
    """Returns {path, day, hits, visitors} of each page and day, most hits first, then by path and day.

    Only requests within the range count, so the first and the last day can be parts of a day. Exact: no sampling, and
    visitors are compared, not estimated. One command, which reads each event of the range once: a key of an index.

    Args:     limit: the most pages and days to return, 1 to 1,000.
              max_events: the most events that the range may have.
    Raises:   InvalidInput.
    """
    require_range(begin, end)
    if not 1 <= limit <= MAX_PAGES:
        raise InvalidInput(f"`limit` must be between 1 and {MAX_PAGES:,}; got {limit}.", "limit")
    in_range = {"time": {"$gte": begin, "$lt": end}}
    # One more than there may be, so that a range with too many events is noticed without reading all of them.
    events: list[Document] = [{"$match": in_range}, {"$limit": max_events + 1}]
    cursor = await db[LOG_EVENTS.name].aggregate(
        [*events, *_grouped(limit)], hint=COUNTED, allowDiskUse=True, batchSize=limit + 1
    )
    found = await cursor.to_list()
    if found and found[0][_ALL] > max_events:
        raise InvalidInput(f"The range has more than {max_events:,} log events. Choose a shorter one.", "to")
    return found


def _grouped(limit: int) -> list[Document]:
    """Returns the stages from events to the counts of pages and days, each with the number of all events.

    The first stage makes visitors distinct.
    """
    visits: Document = {
        "_id": {
            "path": "$path",
            "day": {"$dateTrunc": {"date": "$time", "unit": "day"}},
            "visitor": "$visitor",
        },
        "hits": {"$sum": 1},
    }
    pages: Document = {
        "_id": {"path": "$_id.path", "day": "$_id.day"},
        "hits": {"$sum": "$hits"},
        "visitors": {"$sum": 1},
    }
    return [
        {"$group": visits},
        {"$group": pages},
        {"$setWindowFields": {"output": {_ALL: {"$sum": "$hits"}}}},
        {"$sort": {"hits": -1, "_id.path": 1, "_id.day": 1}},
        {"$limit": limit},
        {"$project": {"_id": 0, "path": "$_id.path", "day": "$_id.day", "hits": 1, "visitors": 1, _ALL: 1}},
    ]
