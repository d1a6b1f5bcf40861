"""Checks the counters of hits: their numbers, and that months agree with their days. Checks the slots of writers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from bson import Int64
from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem, mend_now, problems_with

from .hit_counters import DAYS, HIT_DAYS, HIT_MONTHS, HOURS, MINUTES, Counter, hits_in_day, increments_of
from .hit_repairs import repair, within
from .hit_slots import HIT_SLOTS, hits_of
from .periods import start_of

_COUNTER, _SLOT = Problem.named("hit counter"), Problem.named("hit slot")


async def find_wrong_hits(db: Database) -> AsyncIterator[Problem]:
    """Yields counters that are damaged or disagree, and damaged slots of writers.

    A problem is open if a flush was being counted during the check. Nobody writes in a damaged slot, and hits of its
    latest flush may not count.
    """
    for spec, find, name in (
        (HIT_DAYS, _wrong_days, _COUNTER),
        (HIT_MONTHS, _wrong_months, _COUNTER),
        (HIT_SLOTS, _wrong_slots, _SLOT),
    ):
        async for problem in Problem.all_in(db[spec.name].find({}, sort=[("_id", ASCENDING)]), partial(find, db), name):
            yield problem


async def _wrong_days(db: Database, days: list[Document]) -> AsyncIterator[Problem]:
    slots = await _slots_of(db, days)
    for day in days:
        for problem in problems_with(day, partial(_wrong_with_day, slots), _COUNTER):
            yield problem
    async for day in _without_month(db, days):
        yield _mendable(db, day, "the counter of its month is missing")


async def _wrong_months(db: Database, months: list[Document]) -> AsyncIterator[Problem]:
    for month in months:
        for problem in await _wrong_with_month(db, month):
            yield problem


async def _wrong_slots(_db: Database, slots: list[Document]) -> AsyncIterator[Problem]:
    for slot in slots:
        for problem in problems_with(slot, _wrong_with_slot, _SLOT):
            yield problem


def _mendable(db: Database, counter: Document, text: str, *, is_open: bool = False) -> Problem:
    return Problem(_COUNTER(counter), text, partial(mend_now, repair, db, counter), is_open)


def _wrong_with_slot(slot: Document) -> Iterator[Problem]:
    if not isinstance(slot["seq"], Int64):
        yield Problem(_SLOT(slot), "it has no number of a flush")
    if not isinstance(slot["until"], datetime):
        yield Problem(_SLOT(slot), "its lease has no end")
    if (flush := slot["flush"]) is not None:
        increments_of(hits_of(flush, [event["_id"] for event in flush["events"]]), slot["_id"])


def _wrong_with_day(slots: Mapping[int, int], day: Document) -> Iterator[Problem]:
    hours, minutes = day["hours"], day["minutes"]
    if len(hours) != HOURS or [len(one) for one in minutes] != [MINUTES] * HOURS:
        yield Problem(_COUNTER(day), "it has not 24 hours of 60 minutes")
    elif [sum(one) for one in minutes] != hours:
        yield Problem(_COUNTER(day), "its hours are not the sums of their minutes")
    elif min(map(min, minutes)) < 0:
        yield Problem(_COUNTER(day), "it has a negative count")
    if day.get("unplaced", 0) < 0:
        yield Problem(_COUNTER(day), "it has a negative number of hits without a minute")
    if day["seq"] > slots.get(day["slot"], -1):
        yield Problem(_COUNTER(day), "it has a flush that its slot has not")


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


async def _wrong_with_month(db: Database, month: Document) -> list[Problem]:
    if len(month["days"]) != DAYS or min(month["days"]) < 0:
        return [Problem(_COUNTER(month), "it has not 31 counts of 0 or more")]
    days, latest = [0] * DAYS, 0
    async for day in db[HIT_DAYS.name].find(within(month), {"start": 1, "hours": 1, "unplaced": 1, "seq": 1}):
        days[day["start"].day - 1] = hits_in_day(day)
        latest = max(latest, day["seq"])
    if days == month["days"]:
        return []
    # A flush that counts in a day counts in its month as well.
    is_partly_counted = latest > month["seq"] and await _is_flushing(db, month, latest)
    is_open = is_partly_counted or await _has_moved(db, month)
    return [_mendable(db, month, _difference(month, days), is_open=is_open)]


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
