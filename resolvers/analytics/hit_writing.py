"""The writer of hits of a process: it owns a slot, and counts what all calls record in common flushes.

Calls hand over their hits and wait. One flush at a time takes everything that waits, so the number of commands does not
grow with the number of calls. `hit_slots` describes what a flush does.

If the outcome of a seal is unknown, its callers get an error, and the gateway looks at its slot by a write before the
next flush. If a counter is damaged, the gateway leaves its slot to the job, and counts in another one. If a gateway
dies, the job `settle-hits` applies its flush when the lease of 30 seconds has ended.
"""

from __future__ import annotations

import contextlib
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from bson import ObjectId
from pymongo.errors import BulkWriteError, PyMongoError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, DomainError, InvalidInput
from portico.resolvers.import_outcomes import rejected_rows
from portico.resolvers.lru import Lru
from portico.resolvers.texts import require_filled
from portico.resolvers.writes.combining import Combiner, Waiting
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.sweeps import DAMAGED
from portico.resolvers.writes.timer import Timer

from . import hit_slots
from .batches import id_of_event, insert_new, is_filled, is_time, require_time
from .hit_counters import HIT_DAYS, HIT_MONTHS, Counter, Series, empty_day, empty_month
from .hit_slots import Slot
from .periods import start_of

MAX_SITE, MAX_PAGE = 200, 8_192
# The most hits in one flush, and the most counters of which a process remembers that they exist.
MAX_FLUSH, _REMEMBERED = 2_000, 50_000
# How often a call tries to count what is certain to be counted, before its caller gets an error.
_APPLIED = 5
# Counters that one command inserts. Encoding one of a day takes as long as answering a small query.
_INSERTED = 100


class Hit(NamedTuple):
    """A view of a page. `event` is the `_id` for its `eventId`, None without one. `minute` is UTC."""

    series: Series
    minute: datetime
    event: ObjectId | None


def checked_hit(*, event_id: str | None, site: str, page: str, at: datetime) -> Hit:
    """Returns a hit. Raises InvalidInput."""
    # Almost all hits are valid, and calls of checks take most of the time.
    if not (is_filled(site, MAX_SITE) and is_filled(page, MAX_PAGE) and is_time(at)):
        _check(event_id, site, page, at)
    event = None if event_id is None else id_of_event("hit", event_id)
    return Hit(Series(site, page), start_of("MINUTE", at), event)


def _check(event_id: str | None, site: str, page: str, at: datetime) -> None:
    """Raises InvalidInput for all values that are invalid."""
    with InvalidInput.collect() as check:
        check(require_filled, site, "site", longest=MAX_SITE)
        check(require_filled, page, "page", longest=MAX_PAGE)
        check(id_of_event, "hit", event_id)
        check(require_time, at, "at")


@dataclass(eq=False, kw_only=True)
class _Part(Waiting[None]):
    """The hits of a call."""

    hits: Sequence[Hit]
    timer: Timer


def _take(parts: list[_Part]) -> tuple[list[_Part], list[_Part]]:
    """Takes the parts of the next flush: as many as fit, at least one."""
    size = taken = 0
    for part in parts:
        size += len(part.hits)
        if taken and (part.db is not parts[0].db or size > MAX_FLUSH):
            break
        taken += 1
    return parts[:taken], parts[taken:]


class HitWriter:
    """Counts the hits of this process. One for each process."""

    def __init__(self) -> None:
        self._parts: Combiner[None, _Part] = Combiner(self._flush, take=_take)
        self._slot: Slot | None = None
        # Whether the outcome of the last write of the slot is unknown.
        self._is_unsure = False
        # Counters that exist, by collection and key: the counter of a month has the key of the one of its first day.
        self._known: Lru[tuple[str, ObjectId], None] = Lru(_REMEMBERED)

    async def record(self, db: Database, hits: Sequence[Hit], *, now: datetime) -> None:
        """Counts hits, except those whose `eventId` was recorded before. Safe to repeat for hits with an `eventId`.

        Returns when they are counted on every level; if a counter is damaged, they are certain to be counted after its
        repair.

        Raises:   errors of the database: it is unknown whether the hits will be counted. Conflict.
        Writes:   what `hit_slots` describes, together with other calls. For the first hit of a page on a day or in a
                  month, an insert of its counters.
        """
        if hits:
            part = _Part(db=db, hits=hits, timer=Timer(now))
            self._parts.add(None, part)
            await part.done

    async def close(self, db: Database) -> None:
        """Waits until everything is counted, and gives up the slot."""
        await self._parts.close()
        if self._slot is not None and not self._is_unsure:
            slot, self._slot = self._slot, None
            # If that fails, the lease of the slot ends by itself.
            with contextlib.suppress(PyMongoError):
                await hit_slots.release(db, slot)

    async def _flush(self, _key: None, parts: list[_Part]) -> None:
        await self._count(parts[0].db, [hit for part in parts for hit in part.hits], parts[-1].timer)
        for part in parts:
            part.answer(None)

    async def _count(self, db: Database, hits: Sequence[Hit], timer: Timer) -> None:
        keys = {series: series.key for series in {hit.series for hit in hits}}
        flush = _flush_of(hits, keys)
        async for _ in attempts():
            slot = await self._own(db, timer)
            await self._create_counters(db, slot, hits, keys)
            self._is_unsure = True
            is_sealed = await hit_slots.seal(db, slot, flush, now=timer.now())
            if is_sealed:
                break
        else:
            raise Conflict("Other gateways keep taking the slot of this one. Try again.")
        self._is_unsure = False
        await self._count_now(db, slot, timer)

    async def _count_now(self, db: Database, slot: Slot, timer: Timer) -> None:
        """Counts the flush that was sealed, so that no call has its answer before its hits are counted.

        If that fails, the flush is counted before the next one, or by a job.
        """
        failure: Exception | None = None
        async for _ in attempts(_APPLIED):
            try:
                await self._is_counted(db, slot, timer)
            except (PyMongoError, DomainError) as error:
                failure = error
            else:
                return
        if failure is not None:
            raise failure

    async def _own(self, db: Database, timer: Timer) -> Slot:
        """Returns the slot of this process, with all its flushes counted."""
        if self._slot is not None and self._is_unsure:
            self._slot = await hit_slots.look(db, self._slot, now=timer.now())
            self._is_unsure = False
        if self._slot is not None and not await self._is_counted(db, self._slot, timer):
            self._slot = None
        if self._slot is None:
            self._known.clear()
            self._slot = await hit_slots.take(db, now=timer.now())
        return self._slot

    async def _is_counted(self, db: Database, slot: Slot, timer: Timer) -> bool:
        """Counts the flush of the slot, if it is not counted. Returns False if a damaged counter prevents it.

        Such a slot is left to the job, which tries until the counter is repaired. Another slot has other counters.
        """
        try:
            await hit_slots.apply(db, slot, now=timer.now())
        except DAMAGED as error:
            if isinstance(error, BulkWriteError):
                # Raises an error of the whole command, e.g. of an outage.
                rejected_rows(error)
            return False
        return True

    async def _create_counters(
        self, db: Database, slot: Slot, hits: Iterable[Hit], keys: Mapping[Series, ObjectId]
    ) -> None:
        """Inserts the counters of the hits that do not exist, so that a flush never meets a missing one."""
        days: dict[ObjectId, Document] = {}
        months: dict[ObjectId, Document] = {}
        for series, minute in {(hit.series, start_of("DAY", hit.minute)) for hit in hits}:
            day = Counter(keys[series], minute, slot.number)
            month = Counter(keys[series], start_of("MONTH", minute), slot.number)
            if (HIT_DAYS.name, key := day.key) not in self._known:
                days[key] = empty_day(day, series)
            if (HIT_MONTHS.name, key := month.key) not in self._known:
                months[key] = empty_month(month, series)
        for spec, counters in ((HIT_DAYS, days), (HIT_MONTHS, months)):
            missing = list(counters.items())
            for start in range(0, len(missing), _INSERTED):
                await insert_new(db, spec, [document for _, document in missing[start : start + _INSERTED]])
            for key in counters:
                self._known.put((spec.name, key), None)


def _flush_of(hits: Iterable[Hit], keys: Mapping[Series, ObjectId]) -> Document:
    counts: Tally[tuple[ObjectId, datetime]] = Tally()
    events: dict[ObjectId, Document] = {}
    for hit in hits:
        series = keys[hit.series]
        if hit.event is None:
            counts[series, hit.minute] += 1
        else:
            events.setdefault(hit.event, {"_id": hit.event, "series": series, "minute": hit.minute})
    summed = [{"series": series, "minute": minute, "hits": count} for (series, minute), count in counts.items()]
    return {"counts": summed, "events": list(events.values())}
