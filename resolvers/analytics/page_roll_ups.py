"""Rolls up the log events of days that are over, by page.

An event is inserted with the mark `uncounted`. A roll-up of a day is a *build*:

1. It registers a new token as `building` in the document of the day. Whatever was building before can no longer become
   valid.
2. It reads the ids of the events that have the mark.
3. It counts all events of the day, and inserts the counts under its token.
4. It makes its token valid, if it is still the one that is building. Otherwise it stops here.
5. It removes the marks of the events that it has read in step 2.

Each build begins after all builds that became valid before, and events stay until they expire. So each valid build
includes all events that an earlier one included, and every event without a mark. A late event has a mark, and readers
count its day from the log until the next build. A crash leaves marks, or a day without valid counts: a later run builds
the day again.

A token that is in no day was replaced, and never becomes valid again. So a run deletes the counts with such a token. It
reads the tokens before the days: a token is registered before its first counts are inserted.

When events of a day expire, its document is deleted first. A build of the day can then no longer become valid, and
readers count what is left of the day from the log.

Days of an older database have no roll-up: a run builds up to 31 days, the latest first.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, timeout

from portico.resolvers.documents import Database, Document, in_batches
from portico.resolvers.hints import with_hint
from portico.resolvers.writes.sweeps import each

from .batches import FIRST
from .log_days import BUILDING, BY_PAGE, DAY, LOG_DAYS, PAGE_DAYS, VALID, uncounted_days
from .log_events import COUNTED, LOG_EVENTS, UNCOUNTED
from .log_recording import limit_of
from .periods import start_of

JOB = "roll-up-log-days"
# When a day is rolled up, counted from its end: most events have arrived then.
_SETTLED_AFTER = timedelta(minutes=10)
# A day with late events is rolled up again at most this often.
_AGAIN_AFTER = timedelta(minutes=5)
# The most days of one run.
_MOST_DAYS = 31
# Longer gaps without events get no roll-ups.
_LONGEST_GAP = timedelta(days=366)
# The most marks that one build removes, 12 bytes each. The next one removes the others.
_MOST_MARKS = 1_000_000
_INSERTED_AT_ONCE, _UNMARKED_AT_ONCE = 1_000, 10_000
_ID_BYTES = 12
# How long a build may take.
_BUILD_SECONDS = 600.0

Days = Mapping[datetime, Document]


async def roll_up_days(db: Database, *, now: datetime, days: float | None) -> int:
    """Rolls up to 31 days up: first those with late events, then those without a roll-up, the latest before the others.

    Args:     days: after how many days events expire; None if they are kept. Days with expired events get no roll-up.
    Returns:  how many days, and how many counts of earlier roll-ups it has deleted.
    Raises:   SweepFailed or another error, if some days cannot be rolled up. The others are.
    """
    tokens = await _tokens(db)
    shown = {VALID: 1, BUILDING: 1, "at": 1}
    found = db[LOG_DAYS.name].find({}, shown, sort=[("_id", ASCENDING)], batch_size=10_000)
    stored = {one["_id"]: one async for one in found}
    deleted = await _delete_counts(
        db, tokens - {one.get(name) for one in stored.values() for name in (VALID, BUILDING)}
    )
    limit = limit_of(now, days)
    begin = FIRST if limit is None else max(FIRST, start_of("DAY", limit) + DAY)
    end = start_of("DAY", now - _SETTLED_AFTER)
    late = await _late_days(db, begin, end, stored, now) if begin < end else []
    missing = await _missing_days(db, begin, end, stored) if begin < end else []
    chosen = list(dict.fromkeys([*late, *missing]))[:_MOST_DAYS]
    return deleted + await each(chosen, partial(_roll_up, db, now))


async def _tokens(db: Database) -> set[ObjectId]:
    """Returns the tokens of all stored counts. Reads one key of an index for each."""
    found = await db[PAGE_DAYS.name].aggregate([{"$sort": {"roll_up": 1}}, {"$group": {"_id": "$roll_up"}}])
    return {row["_id"] async for row in found}


async def _delete_counts(db: Database, tokens: set[ObjectId]) -> int:
    if not tokens:
        return 0
    return (await db[PAGE_DAYS.name].delete_many({"roll_up": {"$in": list(tokens)}})).deleted_count


async def _late_days(db: Database, begin: datetime, end: datetime, stored: Days, now: datetime) -> list[datetime]:
    """Returns the days with marks, the latest first, without those that were rolled up a short time ago."""
    marked = await uncounted_days(db, begin, end)
    recent = {day for day, one in stored.items() if VALID in one and one["at"] > now - _AGAIN_AFTER}
    return sorted(marked - recent, reverse=True)


async def _missing_days(db: Database, begin: datetime, end: datetime, stored: Days) -> list[datetime]:
    """Returns the latest days without a roll-up, back to the first event, without long gaps between events."""
    first = await _day_of_event(db, begin, end, ASCENDING)
    day, latest, found = end - DAY, end, list[datetime]()
    while first is not None and day >= first and len(found) < _MOST_DAYS:
        if VALID not in stored.get(day, ()):
            if day < latest:
                latest = await _day_of_event(db, begin, day + DAY, DESCENDING) or first
            if day - latest > _LONGEST_GAP:
                day = latest
                continue
            found.append(day)
        day -= DAY
    return found


async def _day_of_event(db: Database, begin: datetime, end: datetime, direction: int) -> datetime | None:
    """Returns the day of the first or the last event in the range."""
    query = {"time": {"$gte": begin, "$lt": end}}
    found = await db[LOG_EVENTS.name].find(query, {"_id": 0, "time": 1}, sort=[("time", direction)], limit=1).to_list()
    return start_of("DAY", found[0]["time"]) if found else None


async def _roll_up(db: Database, now: datetime, day: datetime) -> int:
    return int(await roll_up_day(db, day, now=now))


async def roll_up_day(db: Database, day: datetime, *, now: datetime) -> bool:
    """Rolls up a day. Returns False if another build of the day has begun meanwhile, which then counts.

    Writes:   analytics.log_days, analytics.page_days, log_days, then the marks of events; a build, see above.
    """
    # A day with many events takes longer than other commands may.
    with timeout(_BUILD_SECONDS):
        token, days = ObjectId(), db[LOG_DAYS.name]
        await days.update_one({"_id": day}, {"$set": {BUILDING: token}}, upsert=True)
        marked = await _marked_ids(db, day)
        pages = await _insert_counts(db, day, token)
        result: Document = {"$set": {VALID: token, "pages": pages, "at": now}, "$unset": {BUILDING: ""}}
        if not (await days.update_one({"_id": day, BUILDING: token}, result)).matched_count:
            await _delete_counts(db, {token})
            return False
        await _remove_marks(db, day, marked)
    return True


async def _marked_ids(db: Database, day: datetime) -> bytearray:
    """Returns the ids of the events with marks, one after the other: there can be very many."""
    ids = bytearray()
    async for event in db[LOG_EVENTS.name].find({UNCOUNTED: day}, {"_id": 1}, limit=_MOST_MARKS, batch_size=10_000):
        # An id of another kind is damage. It keeps its mark, so its day is counted from the log.
        ids += event["_id"].binary if isinstance(event["_id"], ObjectId) else b""
    return ids


async def _insert_counts(db: Database, day: datetime, token: ObjectId) -> int:
    """Counts the events of the day, and inserts the counts. Returns the number of pages."""
    stages: list[Document] = [{"$match": {"time": {"$gte": day, "$lt": day + DAY}}}, *BY_PAGE]
    read = partial(db[LOG_EVENTS.name].aggregate, stages, allowDiskUse=True, batchSize=_INSERTED_AT_ONCE)
    found = await with_hint(COUNTED, read)
    pages = 0
    async for batch in in_batches(found, _INSERTED_AT_ONCE):
        await db[PAGE_DAYS.name].insert_many([{"roll_up": token, **one} for one in batch], ordered=False)
        pages += len(batch)
    return pages


async def _remove_marks(db: Database, day: datetime, ids: bytearray) -> None:
    size = _UNMARKED_AT_ONCE * _ID_BYTES
    for start in range(0, len(ids), size):
        part = bytes(ids[start : start + size])
        chosen = [ObjectId(part[at : at + _ID_BYTES]) for at in range(0, len(part), _ID_BYTES)]
        await db[LOG_EVENTS.name].update_many({"_id": {"$in": chosen}, UNCOUNTED: day}, {"$unset": {UNCOUNTED: ""}})


async def forget_days(db: Database, limit: datetime) -> int:
    """Deletes the roll-ups of days with events before the limit, so that these can expire. Returns how many.

    The next run of `roll_up_days` deletes their counts.
    """
    return (await db[LOG_DAYS.name].delete_many({"_id": {"$lt": limit}})).deleted_count
