"""Rolls sessions up: hours from sessions, days from hours, weeks and months from days, years from months.

1. A session is recorded with its mark, `pending_since`, in one insert. It keeps the mark until the roll-ups of all
   levels include it, so roll-ups need no marks.
2. A batch reads marked sessions, and the revisions of the roll-ups of their periods.
3. Level by level, it sums what the roll-ups are computed from, and stores each if its revision is still the one of
   step 2. Otherwise another process has stored it since, and this one repeats the period: it reads the revision again,
   and sums again. A roll-up that differs gets a new revision.
4. It removes the marks of the sessions that it has read.

Sessions are never changed or deleted, so what a later sum reads includes what an earlier one has read. A revision is
read before the sum, so each stored roll-up includes every session that an earlier one included: a process that resumes
late replaces nothing newer. A sum is not a snapshot, so the number of sessions cannot replace the revision.

A roll-up that is equal is confirmed by the same guarded update, which changes nothing, but waits for a majority.
Otherwise a run could rely on a value that another process has stored just before, and that is lost when the primary
changes. For the same reason, all periods of a marked session are computed, also those above an hour that is equal. Each
step can be repeated, so a crash only leaves marks, which the next run finds.

The number of commands of a batch does not depend on how many users and periods its sessions have: one to read the
sessions, one for the revisions, two for each of the four steps from hours to years, and one for the marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson import Int64, ObjectId, encode
from pymongo import ASCENDING, DeleteOne, UpdateOne
from pymongo.errors import BulkWriteError

from portico.resolvers.documents import LENIENT, Collection, CollectionSpec, Database, Document, in_batches
from portico.resolvers.errors import Conflict
from portico.resolvers.import_outcomes import refused_row, rejected_rows
from portico.resolvers.roll_ups import REVISION
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.sweeps import DAMAGED, SweepFailed, each

from .sessions import PENDING, ROLL_UPS, SESSIONS, STEPS, Period, periods_of

JOB = "roll-up-sessions"
# Sessions that are rolled up together.
BATCH = 1_000
# How often a period is computed again that other processes roll up, too.
_ATTEMPTS = 8

Periods = Mapping[ObjectId, Period]


@dataclass
class Done:
    """What a run has done: sessions that were rolled up, and roll-ups that were stored."""

    sessions: int = 0
    periods: int = 0


@dataclass
class Recomputed:
    """Roll-ups that were stored, and the errors of those that could not be computed, by key."""

    stored: int = 0
    failed: dict[ObjectId, Exception] = field(default_factory=dict)


async def roll_up(db: Database, done: Done, report: Callable[[], None] = lambda: None) -> int:
    """Rolls up all sessions that are pending, in batches of 1,000, those that were recorded first before the others.

    Args:     done: is updated, also if it fails.  report: is called after each batch.
    Returns:  how many sessions.
    Raises:   SweepFailed or another error, if damaged documents keep some sessions from being rolled up. The others are
              rolled up.
    """

    async def one(batch: list[Document]) -> int:
        sessions = await _roll_up_batch(db, batch, done)
        report()
        return sessions

    marked = {PENDING: {"$exists": True}}
    shown = {"user_id": 1, "at": 1, "hour": 1, "length": 1}
    found = lenient(db, SESSIONS).find(marked, shown, sort=[(PENDING, ASCENDING)], batch_size=BATCH)
    return await each(in_batches(found, BATCH), one)


async def _roll_up_batch(db: Database, sessions: Sequence[Document], done: Done) -> int:
    """Rolls up sessions and removes their marks. Returns how many. Raises SweepFailed if some have failed."""
    failures: list[Exception] = []
    periods: dict[Any, Periods] = {}
    for session in sessions:
        try:
            periods[session["_id"]] = _periods_of(session)
        except DAMAGED as error:
            error.add_note(f"In {SESSIONS.name}: {session['_id']!r}")
            failures.append(error)
    recomputed = await recompute(db, {key: one for found in periods.values() for key, one in found.items()})
    done.periods += recomputed.stored
    failures += recomputed.failed.values()
    complete = [key for key, found in periods.items() if recomputed.failed.keys().isdisjoint(found)]
    removed = 0
    if complete:
        marked = {"_id": {"$in": complete}, PENDING: {"$exists": True}}
        removed = (await db[SESSIONS.name].update_many(marked, {"$unset": {PENDING: ""}})).modified_count
        done.sessions += removed
    if failures:
        raise SweepFailed.of(failures, removed, len(sessions) - len(complete))
    return removed


def _periods_of(session: Document) -> Periods:
    """Returns the periods of a session by key. Raises an error of DAMAGED if they are not certain."""
    if not isinstance(session["user_id"], str):
        raise TypeError("its user is not a text")
    found = {period.key: period for period in periods_of(session["user_id"], session["at"])}
    if session["hour"] not in found:
        raise ValueError("its hour is not that of its user and time")
    if not isinstance(session["length"], Int64):
        raise TypeError("its length is not a whole number")
    return found


async def recompute(db: Database, periods: Periods) -> Recomputed:
    """Computes the roll-ups of these periods, each level after the one below, and stores those that differ.

    A period without anything to compute it from has no roll-up; one that is stored is deleted. A period that fails
    does not stop the others.
    """
    result = Recomputed()
    if periods:
        present = await _read(db, periods)
        for step in STEPS:
            chosen = {key: period for key, period in periods.items() if period.level in step}
            if chosen:
                await _recompute_step(db, chosen, present, result)
    return result


async def _recompute_step(db: Database, periods: Periods, present: Mapping[ObjectId, Document], to: Recomputed) -> None:
    remaining = periods
    async for attempt in attempts(_ATTEMPTS):
        if attempt:
            present = await _read(db, remaining)
        wanted = await _compute(db, remaining, to)
        overtaken = await _store(db, wanted, present, to)
        remaining = {key: period for key, period in remaining.items() if key in overtaken}
        if not remaining:
            return
    for key in remaining:
        to.failed[key] = Conflict(f"The roll-up {key} keeps being changed by others, or is damaged.")


async def _read(db: Database, periods: Periods) -> dict[ObjectId, Document]:
    """Returns the stored roll-ups of these periods, by key."""
    chosen = {"_id": {"$in": list(periods)}, "user_id": {"$in": _users(periods)}}
    found = lenient(db, ROLL_UPS).find(chosen, batch_size=len(periods) + 1)
    return {one["_id"]: one for one in await found.to_list()}


async def _compute(db: Database, periods: Periods, to: Recomputed) -> dict[ObjectId, tuple[Period, Document | None]]:
    """Returns each period with the fields of its roll-up, by key; None if there is nothing to compute it from."""
    sums = await sums_of(db, periods)
    wanted: dict[ObjectId, tuple[Period, Document | None]] = {}
    for key, period in periods.items():
        try:
            wanted[key] = period, fields_of(period, sums.get(key))
        except DAMAGED as error:
            to.failed[key] = error
    return wanted


def fields_of(period: Period, summed: Document | None) -> Document | None:
    """Returns the fields of a roll-up with this sum, without `_id` and revision; None without a sum.

    Raises ValueError if a document that was summed is damaged, or if the sum exceeds 63 bits.
    """
    if summed is None:
        return None
    if summed["damaged"] or not isinstance(summed["total"], Int64):
        what = "has a damaged source" if summed["damaged"] else "has a total of more than 63 bits"
        raise ValueError(f"the {period.level} of {period.start} of {period.user_id!r} {what}")
    return period.fields(summed["sessions"], summed["total"])


async def sums_of(db: Database, periods: Periods) -> dict[ObjectId, Document]:
    """Returns the sums of what roll-ups are computed from, {sessions, total, damaged}, by the key of the roll-up.

    Sessions whose length is damaged stay pending, or are found by the doctor; they count nowhere. `damaged` is how many
    roll-ups have damaged numbers. All periods must be hours, or none.
    """
    keys = list(periods)
    count: Any
    if next(iter(periods.values())).level == "HOUR":
        name, parent, count, total = SESSIONS.name, "$hour", Int64(1), "$length"
        stages: list[Document] = [{"$match": {"hour": {"$in": keys}, "length": {"$type": "long"}}}]
        damaged: Document = {"$literal": 0}
    else:
        name, parent, count, total = ROLL_UPS.name, "$parents", "$sessions", "$total"
        of_users = {"parents": {"$in": keys}, "user_id": {"$in": _users(periods)}}
        # A day is part of a week and of a month.
        stages = [{"$match": of_users}, {"$unwind": "$parents"}, {"$match": {"parents": {"$in": keys}}}]
        damaged = {"$cond": [{"$and": [{"$eq": [{"$type": one}, "long"]} for one in (count, total)]}, 0, 1]}
    sums = {"sessions": {"$sum": count}, "total": {"$sum": total}, "damaged": {"$sum": damaged}}
    found = await db[name].aggregate([*stages, {"$group": {"_id": parent, **sums}}], batchSize=len(keys) + 1)
    return {row["_id"]: row for row in await found.to_list()}


async def _store(
    db: Database,
    wanted: Mapping[ObjectId, tuple[Period, Document | None]],
    present: Mapping[ObjectId, Document],
    to: Recomputed,
) -> set[ObjectId]:
    """Stores roll-ups, and confirms those that are equal. Returns the keys of those that have changed since."""
    keys: list[ObjectId] = []
    updates: list[UpdateOne | DeleteOne] = []
    for key, (period, fields) in wanted.items():
        stored = present.get(key)
        if stored is not None or fields is not None:
            keys.append(key)
            updates.append(_update({"_id": key, "user_id": period.user_id}, stored, fields))
    if not updates:
        return set()
    overtaken: set[ObjectId] = set()
    written: Mapping[str, Any]
    try:
        written = (await db[ROLL_UPS.name].bulk_write(updates, ordered=False)).bulk_api_result
    except BulkWriteError as error:
        written = error.details
        for row in rejected_rows(error):
            refused, key = refused_row(row), keys[row["index"]]
            if refused is None:
                # Another process has stored a new revision.
                overtaken.add(key)
            else:
                to.failed[key] = refused
    to.stored += written["nModified"] + written["nUpserted"]
    return overtaken


def _update(key: Document, stored: Document | None, fields: Document | None) -> UpdateOne | DeleteOne:
    """Returns the update that stores the fields, or confirms them if they are stored."""
    revision = None if stored is None else stored.get(REVISION)
    guard = {**key, REVISION: revision}
    if fields is None:
        return DeleteOne(guard)
    changed = {name: value for name, value in fields.items() if name not in key}
    new = revision if revision is not None and is_same(stored, fields) else ObjectId()
    return UpdateOne(guard, {"$set": {**changed, REVISION: new}}, upsert=True)


def is_same(stored: Document | None, fields: Document | None) -> bool:
    """Returns whether a stored roll-up has exactly these fields, besides others. Tells 1 from 1.0."""
    if stored is None or fields is None:
        return stored is fields
    return encode({name: stored.get(name) for name in fields}) == encode(fields)


def _users(periods: Periods) -> list[str]:
    return list({period.user_id for period in periods.values()})


def lenient(db: Database, spec: CollectionSpec) -> Collection:
    """Returns the collection, so that a value that Python cannot represent does not stop the others."""
    return db[spec.name].with_options(codec_options=LENIENT)
