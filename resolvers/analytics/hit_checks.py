"""Checks the counters of hits: their numbers, and that months agree with their days. Checks the slots of writers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from bson import Int64
from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import wrong_in_batches, wrong_with

from .hit_counters import DAYS, HIT_DAYS, HIT_MONTHS, HOURS, MINUTES, Counter, hits_in_day, increments_of
from .hit_repairs import within
from .hit_slots import HIT_SLOTS, hits_of
from .periods import start_of


async def find_wrong_counters(db: Database) -> AsyncIterator[Document]:
    """Yields counters that are damaged or disagree, as {_id, problem, is_open, counter}.

    `is_open` means that a flush was being counted during the check. `hit_repairs.repair` repairs a problem that has a
    `counter`.
    """

    async def find_in_days(batch: list[Document]) -> AsyncIterator[Document]:
        slots = await _slots_of(db, batch)
        for day in batch:
            for wrong in wrong_with(day, lambda one: _wrong_with_day(one, slots)):
                yield wrong
        async for day in _without_month(db, batch):
            yield {**_wrong(day, "the counter of its month is missing"), "counter": day}

    async def find_in_months(batch: list[Document]) -> AsyncIterator[Document]:
        for month in batch:
            for wrong in await _wrong_with_month(db, month):
                yield wrong

    async for wrong in wrong_in_batches(db[HIT_DAYS.name].find({}, sort=[("_id", ASCENDING)]), find_in_days):
        yield wrong
    async for wrong in wrong_in_batches(db[HIT_MONTHS.name].find({}, sort=[("_id", ASCENDING)]), find_in_months):
        yield wrong


async def find_wrong_slots(db: Database) -> AsyncIterator[Document]:
    """Yields damaged slots, as {_id, problem}. Nobody writes in them, and hits of their latest flush may not count."""

    async def find(batch: list[Document]) -> AsyncIterator[Document]:
        for slot in batch:
            for wrong in wrong_with(slot, _wrong_with_slot):
                yield wrong

    async for wrong in wrong_in_batches(db[HIT_SLOTS.name].find({}, sort=[("_id", ASCENDING)]), find):
        yield wrong


def _wrong_with_slot(slot: Document) -> Iterator[Document]:
    if not isinstance(slot["seq"], Int64):
        yield _wrong(slot, "it has no number of a flush")
    if not isinstance(slot["until"], datetime):
        yield _wrong(slot, "its lease has no end")
    if (flush := slot["flush"]) is not None:
        increments_of(hits_of(flush, [event["_id"] for event in flush["events"]]), slot["_id"])


def _wrong_with_day(day: Document, slots: Mapping[int, int]) -> Iterator[Document]:
    hours, minutes = day["hours"], day["minutes"]
    if len(hours) != HOURS or [len(one) for one in minutes] != [MINUTES] * HOURS:
        yield _wrong(day, "it has not 24 hours of 60 minutes")
    elif [sum(one) for one in minutes] != hours:
        yield _wrong(day, "its hours are not the sums of their minutes")
    elif min(map(min, minutes)) < 0:
        yield _wrong(day, "it has a negative count")
    if day.get("unplaced", 0) < 0:
        yield _wrong(day, "it has a negative number of hits without a minute")
    if day["seq"] > slots.get(day["slot"], -1):
        yield _wrong(day, "it has a flush that its slot has not")


def _wrong(counter: Document, problem: str) -> Document:
    return {"_id": counter["_id"], "problem": problem}


async def _slots_of(db: Database, counters: list[Document]) -> Mapping[int, int]:
    """Returns the number of the latest flush of each slot of these counters. It is read after the counters."""
    chosen = {"_id": {"$in": list({counter["slot"] for counter in counters})}}
    return {slot["_id"]: slot["seq"] async for slot in db[HIT_SLOTS.name].find(chosen, {"seq": 1})}


async def _without_month(db: Database, days: list[Document]) -> AsyncIterator[Document]:
    """Yields the counters of days whose month has no counter. A month is inserted before anything is counted."""
    months = {day["_id"]: Counter(day["series"], start_of("MONTH", day["start"]), day["slot"]).key for day in days}
    chosen = {"_id": {"$in": list(months.values())}, "series": {"$in": list({day["series"] for day in days})}}
    present = {month["_id"] async for month in db[HIT_MONTHS.name].find(chosen, {"_id": 1})}
    for day in days:
        if months[day["_id"]] not in present and any(day["hours"]):
            yield day


async def _wrong_with_month(db: Database, month: Document) -> list[Document]:
    if len(month["days"]) != DAYS or min(month["days"]) < 0:
        return [_wrong(month, "it has not 31 counts of 0 or more")]
    days, latest = [0] * DAYS, 0
    async for day in db[HIT_DAYS.name].find(within(month), {"start": 1, "hours": 1, "unplaced": 1, "seq": 1}):
        days[day["start"].day - 1] = hits_in_day(day)
        latest = max(latest, day["seq"])
    if days == month["days"]:
        return []
    # A flush that counts in a day counts in its month as well.
    is_partly_counted = latest > month["seq"] and await _is_flushing(db, month, latest)
    is_open = is_partly_counted or await _has_moved(db, month)
    return [{**_wrong(month, _difference(month, days)), "is_open": is_open, "counter": month}]


def _difference(month: Document, days: list[int]) -> str:
    """Describes which hits the month has and its days lack, and the other way round."""
    parts = []
    more = [(number, above - below) for number, (above, below) in enumerate(zip(month["days"], days, strict=True))]
    if lost := {number: hits for number, hits in more if hits > 0}:
        parts.append(
            f"hits of {_dates(month, lost)} in no hour and minute: {sum(lost.values()):,}. A repair counts those of "
            "the latest flush there, and keeps the others in their day only, because their time is stored nowhere"
        )
    if lost := {number: -hits for number, hits in more if hits < 0}:
        parts.append(f"hits that it lacks of {_dates(month, lost)}, which the days have: {sum(lost.values()):,}")
    return "; ".join(parts)


def _dates(month: Document, numbers: Iterable[int]) -> str:
    first, *others = (f"{month['start']:%Y-%m}-{number + 1:02}" for number in numbers)
    if not others:
        return first
    return f"{first} and {len(others)} other {'day' if len(others) == 1 else 'days'}"


async def _is_flushing(db: Database, month: Document, seq: int) -> bool:
    """Returns whether this flush is the latest of the slot, so that it may be counted only in part."""
    slot: Any = await db[HIT_SLOTS.name].find_one({"_id": month["slot"]}, {"flush": 1, "seq": 1})
    return slot is not None and slot["flush"] is not None and slot["seq"] == seq


async def _has_moved(db: Database, month: Document) -> bool:
    """Returns whether the counter has changed since it was read."""
    now = await db[HIT_MONTHS.name].find_one({"_id": month["_id"], "series": month["series"]}, {"seq": 1})
    return now is None or now["seq"] != month["seq"]
