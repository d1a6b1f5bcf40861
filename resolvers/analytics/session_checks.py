"""Checks sessions and their roll-ups, level by level, and repairs roll-ups by computing them again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from functools import partial
from typing import Any

from bson import Int64
from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.problems import Problem, Repair, problems_with
from portico.resolvers.roll_ups import REVISION
from portico.resolvers.writes.sweeps import DAMAGED, describe_damage

from .session_roll_ups import fields_of, is_same, lenient, recompute, sums_of
from .sessions import (
    LEVELS,
    MAX_LENGTH,
    MAX_USER_ID,
    MICROSECONDS,
    PENDING,
    ROLL_UPS,
    SESSIONS,
    Level,
    Period,
    period_of,
)

_LONGEST = int(MAX_LENGTH.total_seconds()) * MICROSECONDS
_SESSION, _ROLL_UP = Problem.named("session"), Problem.named("roll-up")
_DIFFERS = "it does not match what it is computed from"


async def find_wrong_sessions(db: Database) -> AsyncIterator[Problem]:
    """Yields damaged sessions."""

    async def find(batch: list[Document]) -> AsyncIterator[Problem]:
        for session in batch:
            for problem in problems_with(session, _wrong_with_session, _SESSION):
                yield problem

    async for problem in Problem.all_in(db[SESSIONS.name].find({}, sort=[("_id", ASCENDING)]), find, _SESSION):
        yield problem


def _wrong_with_session(session: Document) -> Iterator[Problem]:
    for text in _problems_of(session):
        yield Problem(_SESSION(session), text)


def _problems_of(session: Document) -> Iterator[str]:
    if not 1 <= len(session["user_id"]) <= MAX_USER_ID:
        yield f"its user has {len(session['user_id'])} characters"
    if session["hour"] != Period.at(session["user_id"], "HOUR", session["at"]).key:
        yield "its hour is not that of its user and time"
    length = session["length"]
    if not isinstance(length, Int64) or not 0 <= length <= _LONGEST:
        yield f"its length is {length!r} µs"
    if PENDING in session and not isinstance(session[PENDING], datetime):
        yield "the time since which it is pending is not a time"


async def find_wrong_roll_ups(db: Database) -> AsyncIterator[Problem]:
    """Yields roll-ups that are wrong, superfluous or missing.

    It checks each level after the levels below, so that a repair of a level is part of the check of the next.
    A problem is open if a session of the user was recorded or rolled up during the check.
    """

    async def find_wrong(batch: list[Document]) -> AsyncIterator[Problem]:
        for problem in await _wrong_in(db, batch):
            yield problem

    async def find_missing(batch: list[Document]) -> AsyncIterator[Problem]:
        for row in await _missing_in(db, batch):
            is_open = await _is_pending(db, row["user_id"]) or not await _missing_in(db, [row])
            yield _problem(db, row, "it is missing", is_open=is_open)

    def mended(roll_up: Document) -> Repair:
        return partial(repair, db, roll_up["_id"])

    for level in LEVELS:
        stored = db[ROLL_UPS.name].find({"level": level}, sort=[("_id", ASCENDING)])
        async for problem in Problem.all_in(stored, find_wrong, _ROLL_UP, repair=mended):
            yield problem
        async for problem in Problem.all_in(await _computed_from_sources(db, level), find_missing, _ROLL_UP):
            yield problem
    strays = db[ROLL_UPS.name].find({"level": {"$nin": list(LEVELS)}}, {"_id": 1})
    async for roll_up in strays:
        yield _problem(db, roll_up, "it has no level")


def _problem(db: Database, roll_up: Document, text: str, *, is_open: bool = False) -> Problem:
    return Problem(_ROLL_UP(roll_up), text, partial(repair, db, roll_up["_id"]), is_open)


async def _computed_from_sources(db: Database, level: Level) -> Any:
    """Returns the `_id` of each roll-up of this level that should exist, with a user."""
    if level == "HOUR":
        stages: list[Document] = [{"$group": {"_id": "$hour", "user_id": {"$first": "$user_id"}}}]
        return await db[SESSIONS.name].aggregate(stages, allowDiskUse=True)
    below: Level = "MONTH" if level == "YEAR" else "HOUR" if level == "DAY" else "DAY"
    # The parents of a day are its week and its month, in this order.
    parent = {"$arrayElemAt": ["$parents", 1 if level == "MONTH" else 0]}
    named = {"level": below, "parents": {"$type": "array"}}
    stages = [{"$match": named}, {"$group": {"_id": parent, "user_id": {"$first": "$user_id"}}}]
    return await db[ROLL_UPS.name].aggregate(stages, allowDiskUse=True)


async def _wrong_in(db: Database, batch: list[Document]) -> list[Problem]:
    """Returns which of the roll-ups of one level differ from what they are computed from."""
    sums = await sums_of(db, {roll_up["_id"]: period_of(roll_up) for roll_up in batch})
    wrong = []
    for roll_up in batch:
        try:
            text = _wrong_with_roll_up(roll_up, sums.get(roll_up["_id"]))
        except DAMAGED as error:
            text = describe_damage(error)
        if text is not None:
            wrong.append(_problem(db, roll_up, text, is_open=await _has_moved(db, roll_up)))
    return wrong


def _wrong_with_roll_up(roll_up: Document, summed: Document | None) -> str | None:
    if summed is None:
        return "there is nothing that it is computed from"
    period = period_of(roll_up)
    if period.key != roll_up["_id"]:
        return "its `_id` is not that of its period"
    return None if is_same(roll_up, fields_of(period, summed)) else _DIFFERS


async def _has_moved(db: Database, roll_up: Document) -> bool:
    """Returns whether sessions that arrived during the check can explain the difference.

    They are still pending; or, if they are not, they have given the roll-up another revision.
    """
    if await _is_pending(db, roll_up["user_id"]):
        return True
    now = await db[ROLL_UPS.name].find_one({"_id": roll_up["_id"], "user_id": roll_up["user_id"]}, {REVISION: 1})
    return (now or {}).get(REVISION) != roll_up.get(REVISION)


async def _is_pending(db: Database, user_id: str) -> bool:
    pending = {"user_id": user_id, PENDING: {"$exists": True}}
    return await db[SESSIONS.name].find_one(pending, {"_id": 1}) is not None


async def _missing_in(db: Database, batch: list[Document]) -> list[Document]:
    """Returns which of the roll-ups, {_id, user_id}, do not exist."""
    keys = [row["_id"] for row in batch]
    stored = db[ROLL_UPS.name].find({"_id": {"$in": keys}}, {"_id": 1}, batch_size=len(keys) + 1)
    present = {roll_up["_id"] for roll_up in await stored.to_list()}
    return [row for row in batch if row["_id"] not in present]


async def repair(db: Database, key: Any) -> None:
    """Computes a roll-up again. Deletes it if there is nothing to compute it from, or if it is unreadable.

    Raises Conflict if concurrent writers keep replacing it, and errors of damaged sources.
    """
    stored = await lenient(db, ROLL_UPS).find({"_id": key}, {"user_id": 1, REVISION: 1}).to_list()
    period = await _period_by_sources(db, key)
    for roll_up in stored:
        # A roll-up of another user, e.g. because its text is damaged, would never be replaced.
        if period is None or roll_up.get("user_id") != period.user_id:
            # A run of the job may have stored a new one since, from sessions that came later.
            await db[ROLL_UPS.name].delete_one({"_id": key, REVISION: roll_up.get(REVISION)})
    if period is None:
        return
    if period.key != key:
        raise Conflict("What the roll-up is computed from is damaged.")
    failed = (await recompute(db, {key: period})).failed
    if failed:
        raise failed[key]


async def _period_by_sources(db: Database, key: Any) -> Period | None:
    """Returns the period of a roll-up as its sources name it; None if it has none."""
    session = await db[SESSIONS.name].find_one({"hour": key})
    if session is not None:
        return Period.at(session["user_id"], "HOUR", session["at"])
    below = await db[ROLL_UPS.name].find_one({"parents": key})
    if below is None:
        return None
    child = period_of(below)
    level: Level = {"HOUR": "DAY", "DAY": "WEEK", "MONTH": "YEAR"}[child.level]  # type: ignore[assignment]
    if child.level == "DAY" and child.parents.index(key):
        level = "MONTH"
    return Period.at(child.user_id, level, child.start)
