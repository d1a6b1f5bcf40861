"""Repairs counters of hits of which some levels lack hits that others have.

A flush is counted in the counters of days, and in those of months. If one of them was lost, or did not exist when a
flush was counted, its level has fewer hits than the other.

1. The latest flush of the slot is counted. It is stored in the slot, so whatever is missing of it is counted with its
   minutes. Earlier flushes are no longer stored, and the `eventId` of a hit is stored without its page and time.
2. If the days of a month still have more hits than the month, the month gets their sums.
3. If the month has more hits of a day than the day itself, the day keeps their number in `unplaced`. Their hours and
   minutes are stored nowhere, so no hour and no minute shows them.

Steps 2 and 3 use numbers of one moment: no flush was sealed while they were read. Their updates are guarded by the
`seq` that was read, and raise it to that of the slot. So a flush is neither lost nor counted twice, and each step can
be repeated.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from bson import Int64

from portico.resolvers.documents import Collection, Database, Document
from portico.resolvers.errors import Conflict

from . import hit_slots
from .batches import insert_new
from .hit_counters import HIT_DAYS, HIT_MONTHS, Counter, Series, empty_day, empty_month, hits_in_day
from .periods import next_start, start_of


async def repair(db: Database, wrong: Document, *, now: datetime) -> None:
    """Makes a month and its days agree.

    Args:     wrong: a counter of the month or of one of its days: {series, site, page, slot, start}.
    Raises:   Conflict, if hits arrive meanwhile or the slot is gone. Errors of DAMAGED, if it or a counter is damaged.
    Writes:   what a flush writes; inserts of the counters that are missing, and one update of each that differs.
    """
    series = Series(wrong["site"], wrong["page"])
    counter = Counter(wrong["series"], start_of("MONTH", wrong["start"]), wrong["slot"])
    slot = await hit_slots.read(db, counter.slot)
    if slot is None:
        raise Conflict("The slot of the counter is gone.")
    await hit_slots.apply(db, slot, now=now)
    await insert_new(db, HIT_MONTHS, [empty_month(counter, series)])
    month: Any = await db[HIT_MONTHS.name].find_one(counter.guard())
    days = {day["start"]: day async for day in db[HIT_DAYS.name].find(within(month))}
    if (await hit_slots.read(db, counter.slot) or slot).seq != slot.seq:
        raise Conflict("Hits arrived during the repair.")
    sums: Document = {}
    for number, hits in enumerate(month["days"]):
        start = counter.start + timedelta(days=number)
        placed = hits_in_day(days[start]) if start in days else 0
        if hits > placed and start < next_start("MONTH", counter.start):
            day = days.get(start) or await _created(db, counter._replace(start=start), series)
            unplaced = Int64(day.get("unplaced", 0) + hits - placed)
            await _store(db[HIT_DAYS.name], day, {"unplaced": unplaced}, slot.seq)
        elif hits < placed:
            sums[f"days.{number}"] = Int64(placed)
    if sums:
        await _store(db[HIT_MONTHS.name], month, sums, slot.seq)


def within(month: Document) -> Document:
    """Returns a filter for the counters of the days of a month."""
    inside: dict[str, datetime] = {"$gte": month["start"], "$lt": next_start("MONTH", month["start"])}
    return {"series": month["series"], "start": inside, "slot": month["slot"]}


async def _created(db: Database, counter: Counter, series: Series) -> Document:
    """Inserts the counter of a day that did not exist. If another process was faster, its guard does not match."""
    day = empty_day(counter, series)
    await insert_new(db, HIT_DAYS, [day])
    return day


async def _store(collection: Collection, counter: Document, changes: Document, seq: int) -> None:
    """Changes a counter, unless a flush was counted in it since it was read."""
    guard = {name: counter[name] for name in ("_id", "series", "seq")}
    done = await collection.update_one(guard, {"$set": {**changes, "seq": Int64(seq)}})
    if not done.matched_count:
        raise Conflict("Hits arrived during the repair.")
