"""Requests by page and day, with distinct visitors: from roll-ups where there are any, otherwise from the log.

A day is read from its roll-up if the range has all of it, if the roll-up is complete, and if no event of the day is
marked as uncounted. All other events of the range are counted and grouped now, in one pass over the keys of an index.

1. It reads which days have marks.
2. Then it reads the documents of the days. An event without a mark was in a complete roll-up before its mark was
   removed, and in every later one, so the roll-up that is read in this step includes it.
3. It reads the counts of these roll-ups, and counts the rest.
4. It reads the documents of the days again. If another roll-up is valid now, the counts that were read may have been
   deleted meanwhile, and it repeats everything.

So each acknowledged event is counted once: in a roll-up, or from the log. All reads are from the primary.

MongoDB merges the walks of up to 200 days along an index in the order of the answer, so a command reads about as many
keys as it returns rows. A range with more than `PORTICO_MAX_PAGE_COUNT_EVENTS` events to count is refused, because the
numbers are exact.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.hints import with_hint
from portico.resolvers.parts import as_part
from portico.resolvers.writes.retries import attempts

from .log_days import BY_PAGE, DAY, LOG_DAYS, PAGE_DAYS, VALID, uncounted_days
from .log_events import COUNTED, LOG_EVENTS
from .periods import require_range, start_of

MAX_PAGES = 1_000
# MongoDB merges so many walks along an index. Source: `internalQueryMaxScansToExplode`, 200.
_MERGED = 200
# The most stretches of time between days with a roll-up that are counted apart.
_MOST_STRETCHES = 100
# How often a read is repeated because roll-ups were replaced meanwhile. Then it reads no roll-up.
_ATTEMPTS = 4
_MANY = 10_000
_ORDER = [("hits", -1), ("path", 1), ("day", 1)]
_FIELDS = ("path", "day", "hits", "visitors")
_SHOWN = {"_id": 0, **dict.fromkeys(_FIELDS, 1)}
# In each row of the aggregation: how many events were read.
_ALL = "all_events"
# The documents of days with a complete roll-up, {_id, valid, pages}, by day and in order.
RollUps = Mapping[datetime, Document]
Stretch = tuple[datetime, datetime]


async def count_pages(
    db: Database, begin: datetime, end: datetime, *, limit: int, max_events: int
) -> Sequence[Document]:
    """Returns {path, day, hits, visitors} of each page and day, most hits first, then by path and day.

    Only requests within the range count, so the first and the last day can be parts of a day. Exact: no sampling, and
    visitors are compared, not estimated.

    Args:     db: reads from the primary.
              limit: the most pages and days to return, 1 to 1,000.
              max_events: the most events that are counted now, because no roll-up includes them.
    Raises:   InvalidInput.
    """
    with InvalidInput.collect() as check:
        check(require_range, begin, end)
        if not 1 <= limit <= MAX_PAGES:
            text = f"`limit` must be between 1 and {MAX_PAGES:,}; got {limit}."
            check.refuse(InvalidInput(text, "limit", code=InvalidInput.OUT_OF_RANGE, least=1, most=MAX_PAGES))

    async def read(db: Database) -> Sequence[Document]:
        found = await _count_pages(db, begin, end, limit, max_events)
        return [{name: one[name] for name in _FIELDS if name in one} for one in found]

    # After a roll-up, a day has the same counts, if no event has come late.
    return await as_part(db, read)


async def _count_pages(db: Database, begin: datetime, end: datetime, limit: int, max_events: int) -> Sequence[Document]:
    first, last = start_of("DAY", begin + DAY - datetime.resolution), start_of("DAY", end)
    async for attempt in attempts(_ATTEMPTS):
        has_days = first < last and attempt < _ATTEMPTS - 1
        stretches, rolled = _split(begin, end, await _roll_ups(db, first, last) if has_days else {})
        counts = await _count(db, stretches, limit, max_events) if stretches else []
        if not rolled:
            return counts
        counts = [*counts, *await _stored_counts(db, rolled, limit)]
        if await _complete(db, min(rolled), max(rolled) + DAY, rolled) == rolled:
            return sorted(counts, key=lambda one: (-one["hits"], one["path"], one["day"]))[:limit]
    raise AssertionError("The last attempt reads no roll-up.")


async def _roll_ups(db: Database, first: datetime, last: datetime) -> RollUps:
    """Returns the roll-ups of the days in the range that include all events of their days."""
    # In this order: see the module's docstring.
    uncounted = await uncounted_days(db, first, last)
    complete = await _complete(db, first, last)
    return {day: one for day, one in complete.items() if day not in uncounted}


async def _complete(
    db: Database, first: datetime, last: datetime, chosen: Collection[datetime] | None = None
) -> dict[datetime, Document]:
    """Returns the complete roll-ups of the days in the range, or of the chosen ones among them."""
    query = {"_id": {"$gte": first, "$lt": last}, VALID: {"$exists": True}}
    found = db[LOG_DAYS.name].find(query, {VALID: 1, "pages": 1}, sort=[("_id", ASCENDING)], batch_size=_MANY)
    return {one["_id"]: one async for one in found if chosen is None or one["_id"] in chosen}


def _split(begin: datetime, end: datetime, rolled: RollUps) -> tuple[list[Stretch], RollUps]:
    """Returns the stretches of the range that are counted from the log, and the roll-ups of the other days.

    Of many stretches, the last one has all days after the others.
    """
    stretches: list[Stretch] = []
    used: dict[datetime, Document] = {}
    for day, one in rolled.items():
        if begin < day:
            if len(stretches) == _MOST_STRETCHES - 1:
                break
            stretches.append((begin, day))
        used[day] = one
        begin = day + DAY
    if begin < end:
        stretches.append((begin, end))
    return stretches, used


async def _count(db: Database, stretches: Sequence[Stretch], limit: int, max_events: int) -> list[Document]:
    """Counts the events of these stretches: one command, which reads one key of an index for each event.

    Raises InvalidInput if there are too many.
    """
    times: list[Document] = [{"time": {"$gte": begin, "$lt": end}} for begin, end in stretches]
    # One more than there may be, so that a range with too many events is noticed without reading all of them.
    stages: list[Document] = [
        {"$match": times[0] if len(times) == 1 else {"$or": times}},
        {"$limit": max_events + 1},
        *BY_PAGE,
        {"$setWindowFields": {"output": {_ALL: {"$sum": "$hits"}}}},
        {"$sort": dict(_ORDER)},
        {"$limit": limit},
    ]
    cursor = await with_hint(
        COUNTED, partial(db[LOG_EVENTS.name].aggregate, stages, allowDiskUse=True, batchSize=limit + 1)
    )
    found: list[Document] = await cursor.to_list()
    if found and found[0][_ALL] > max_events:
        text = f"The range has more than {max_events:,} log events that are not rolled up. Choose a shorter one."
        raise InvalidInput(text, "to", code=InvalidInput.OUT_OF_RANGE)
    return found


async def _stored_counts(db: Database, rolled: RollUps, limit: int) -> list[Document]:
    """Returns the first counts of each 200 days: one command for each, which walks along one index in its order."""
    tokens = [one[VALID] for one in rolled.values() if one["pages"]]
    found: list[Document] = []
    for start in range(0, len(tokens), _MERGED):
        chosen = {"roll_up": {"$in": tokens[start : start + _MERGED]}}
        cursor = db[PAGE_DAYS.name].find(chosen, _SHOWN, sort=_ORDER, limit=limit, batch_size=limit + 1)
        found += await cursor.to_list()
    return found
