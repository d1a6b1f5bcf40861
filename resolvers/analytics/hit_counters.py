"""Counters of hits: one document for each page, day and slot, and one for each page, month and slot.

A counter is inserted with all its
zeros before the first hit is counted, so counting changes numbers in place, and the document does not grow.

A process counts in the documents of its own slot, so a hot page is spread over as many documents as processes count it,
and the processes do not wait for each other. Readers add them up.

Source: pre-allocated documents with nested minutes are a pattern of the book. `seq` is added.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, NotRequired

from bson import Int64, ObjectId
from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.errors import BulkWriteError

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned

from .batches import hashed_id, insert_new
from .periods import start_of

HOURS, MINUTES, DAYS = 24, 60, 31
_BY_SERIES = [IndexModel([("series", ASCENDING), ("start", ASCENDING)])]
_SHARDED_BY = {"series": 1}


class _Counter(Versioned):
    # From series, day or month, and slot.
    _id: ObjectId
    # From site and page.
    series: ObjectId
    site: str
    page: str
    # The number of the writer that counts in it, see `hit_slots`.
    slot: int
    # Midnight UTC of the day, or of the first of the month.
    start: datetime
    # Int64, the latest flush of the writer that is counted.
    seq: int


class DayCounter(_Counter):
    """A counter of a day. Counts are Int64."""

    # 24 counts, and for each hour 60 counts.
    hours: list[int]
    minutes: list[list[int]]
    # Hits of the day whose hour and minute are lost, see `hit_repairs`; missing for 0.
    unplaced: NotRequired[int]


class MonthCounter(_Counter):
    """A counter of a month."""

    # 31 counts.
    days: list[int]


HIT_DAYS = CollectionSpec("analytics.hit_days", document=DayCounter, indexes=_BY_SERIES, shard_key=_SHARDED_BY)
HIT_MONTHS = CollectionSpec("analytics.hit_months", document=MonthCounter, indexes=_BY_SERIES, shard_key=_SHARDED_BY)

# Counts to add, by path.
Increments = dict[str, int]


class Series(NamedTuple):
    """A page of a site."""

    site: str
    page: str

    @property
    def key(self) -> ObjectId:
        """What counters of the page have in common. Different pages have different texts, and so different hashes."""
        return hashed_id(json.dumps([self.site, self.page]))


class Counter(NamedTuple):
    """A counter of a slot: of a page, and of the day or month that begins at `start`."""

    series: ObjectId
    start: datetime
    slot: int

    @property
    def key(self) -> ObjectId:
        return hashed_id(f"{self.series} {self.start:%Y-%m-%d} {self.slot}")

    def guard(self) -> Document:
        """Returns a filter for its document, with the shard key."""
        return {"_id": self.key, "series": self.series}


def empty_day(counter: Counter, series: Series) -> Document:
    """Returns the document of a day without hits."""
    zeros = {"hours": [Int64(0)] * HOURS, "minutes": [[0] * MINUTES] * HOURS}
    return {**_described(counter, series), **zeros}


def empty_month(counter: Counter, series: Series) -> Document:
    """Returns the document of a month without hits."""
    return {**_described(counter, series), "days": [Int64(0)] * DAYS}


def hits_in_day(day: Document) -> int:
    """Returns the hits of a counter of a day, which the counter of its month must have."""
    return int(sum(day["hours"]) + day.get("unplaced", 0))


def _described(counter: Counter, series: Series) -> Document:
    named = {"site": series.site, "page": series.page, "slot": counter.slot, "start": counter.start}
    return {"_id": counter.key, "series": counter.series, **named, "seq": Int64(0)}


def increments_of(
    hits: Iterable[tuple[ObjectId, datetime, int]], slot: int
) -> tuple[Mapping[Counter, Increments], Mapping[Counter, Increments]]:
    """Returns what hits, as (series, minute, count), add to the counters of days and to those of months."""
    days: defaultdict[Counter, Increments] = defaultdict(lambda: defaultdict(int))
    months: defaultdict[Counter, Increments] = defaultdict(lambda: defaultdict(int))
    for series, minute, count in hits:
        day = days[Counter(series, start_of("DAY", minute), slot)]
        day[f"hours.{minute.hour}"] += count
        day[f"minutes.{minute.hour}.{minute.minute}"] += count
        months[Counter(series, start_of("MONTH", minute), slot)][f"days.{minute.day - 1}"] += count
    return days, months


async def add(db: Database, spec: CollectionSpec, counters: Mapping[Counter, Increments], seq: Int64) -> None:
    """Counts a flush in counters of days or of months, each unless it has the flush already.

    Raises:   BulkWriteError, if counters are damaged; the others are incremented. LookupError, if one does not exist
              and no other counter names its page.
    """
    if not counters:
        return
    failure: BulkWriteError | None = None
    try:
        done = await db[spec.name].bulk_write(_updates_of(counters, seq), ordered=False)
        if done.matched_count == len(counters):
            return
    except BulkWriteError as error:
        failure = error
    missing = await _missing(db, spec, counters)
    if missing:
        await insert_new(db, spec, [await _empty(db, spec, counter) for counter in missing])
        await db[spec.name].bulk_write(_updates_of({one: counters[one] for one in missing}, seq), ordered=False)
    if failure is not None:
        raise failure


def _updates_of(counters: Mapping[Counter, Increments], seq: Int64) -> Sequence[UpdateOne]:
    """Returns the updates that count a flush. Each matches only while its counter lacks the flush."""
    return [
        UpdateOne({**counter.guard(), "seq": {"$lt": seq}}, {"$inc": added, "$set": {"seq": seq}})
        for counter, added in counters.items()
    ]


async def _missing(db: Database, spec: CollectionSpec, counters: Iterable[Counter]) -> list[Counter]:
    """Returns which of the counters do not exist."""
    by_key = {counter.key: counter for counter in counters}
    chosen = {"_id": {"$in": list(by_key)}, "series": {"$in": list({one.series for one in by_key.values()})}}
    present = {one["_id"] for one in await db[spec.name].find(chosen, {"_id": 1}, batch_size=len(by_key) + 1).to_list()}
    return [counter for key, counter in by_key.items() if key not in present]


async def _empty(db: Database, spec: CollectionSpec, counter: Counter) -> Document:
    """Returns a counter without hits. Any other counter of its page names the page."""
    for other in (HIT_MONTHS, HIT_DAYS):
        found: Any = await db[other.name].find_one({"series": counter.series}, {"site": 1, "page": 1})
        if found is not None:
            series = Series(found["site"], found["page"])
            return empty_day(counter, series) if spec is HIT_DAYS else empty_month(counter, series)
    raise LookupError(f"no counter names the page of the counter {counter.key}")
