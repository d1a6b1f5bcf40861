"""Hits of a page over time, read from its counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from portico.resolvers.answer_bounds import hold
from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.parts import as_part

from .hit_counters import HIT_DAYS, HIT_MONTHS, Series
from .periods import Granularity, count_periods, start_of, starts

# The numbers that a series is read from.
_READ: dict[Granularity, tuple[CollectionSpec, str]] = {
    "MINUTE": (HIT_DAYS, "minutes"),
    "HOUR": (HIT_DAYS, "hours"),
    "DAY": (HIT_MONTHS, "days"),
    "MONTH": (HIT_MONTHS, "days"),
}
# All counters come in one reply, up to 16 MB.
_ONE_REPLY = 1_000_000
# About the memory of a point, which most periods have without any counter that is read.
_POINT_BYTES = 300


async def read_hits(
    db: Database, series: Series, *, granularity: Granularity, begin: datetime, end: datetime
) -> Sequence[Document]:
    """Returns {at, hits} of each period that overlaps the range, in their order; zeros for a page without hits.

    One command, along an index: a counter for each day, or for each month, and slot.

    Args:     begin, end: `begin` is included, `end` is not.
    Raises:   InvalidInput, also for WEEK and YEAR, which have no counters; AnswerTooLarge.
    """
    with InvalidInput.collect() as check:
        if granularity not in _READ:
            text = "Hits are counted by MINUTE, HOUR, DAY and MONTH."
            check.refuse(InvalidInput(text, "granularity", code=InvalidInput.NOT_ALLOWED))
        points = check(count_periods, granularity, begin, end)
    # Before anything is made of them: many such reads can wait at the same time.
    await hold(points * _POINT_BYTES)
    return await as_part(db, lambda db: _read(db, series, granularity, begin, end))


async def _read(
    db: Database, series: Series, granularity: Granularity, begin: datetime, end: datetime
) -> Sequence[Document]:
    spec, numbers = _READ[granularity]
    first = start_of("DAY" if spec is HIT_DAYS else "MONTH", begin)
    chosen = {"series": series.key, "start": {"$gte": first, "$lt": end}}
    found = db[spec.name].find(chosen, {"_id": 0, "start": 1, numbers: 1}, batch_size=_ONE_REPLY)
    counts: defaultdict[datetime, int] = defaultdict(int)
    async for counter in found:
        for at, hits in _points_of(counter, granularity):
            counts[at] += hits
    return [{"at": at, "hits": counts.get(at, 0)} for at in starts(granularity, begin, end)]


def _points_of(counter: Document, granularity: Granularity) -> Iterator[tuple[datetime, int]]:
    start = counter["start"]
    if granularity == "MONTH":
        yield start, sum(counter["days"])
    elif granularity == "DAY":
        # A short month has counts of days that do not exist, which stay 0.
        yield from ((start + timedelta(days=day), hits) for day, hits in enumerate(counter["days"]) if hits)
    elif granularity == "HOUR":
        yield from ((start + timedelta(hours=hour), hits) for hour, hits in enumerate(counter["hours"]) if hits)
    else:
        for hour, minutes in enumerate(counter["minutes"]):
            yield from (
                (start + timedelta(hours=hour, minutes=minute), hits) for minute, hits in enumerate(minutes) if hits
            )
