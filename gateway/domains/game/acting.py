"""What the game declares about turns: jobs and invariants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from portico.resolvers.documents import Database, DocumentId
from portico.resolvers.domains import Invariant, Job, Problem, Turn
from portico.resolvers.game import turn_checks, turn_jobs
from portico.resolvers.game.rooms import Rooms
from portico.resolvers.game.turns import help_along
from portico.resolvers.server_time import server_time


async def _finish_turns(turn: Turn) -> int:
    return await turn_jobs.finish_turns(turn.db, turn.resources.of(Rooms), now=turn.now)


async def _settle_rooms(turn: Turn) -> int:
    return await turn_jobs.settle_rooms(turn.db, turn.resources.of(Rooms), now=turn.now)


async def _items(db: Database) -> AsyncIterator[Problem]:
    async for wrong in turn_checks.find_wrong_items(db):
        yield Problem(f"item {wrong['_id']}", wrong["problem"])


async def _gold(db: Database) -> AsyncIterator[Problem]:
    async for wrong in turn_checks.find_wrong_gold(db):
        subject = "the gold" if wrong["kind"] == "all" else f"{wrong['kind']} {wrong['_id']}"
        yield Problem(subject, wrong["problem"])


async def _rosters(db: Database) -> AsyncIterator[Problem]:
    async for wrong in turn_checks.find_wrong_rosters(db):
        repair = partial(_refresh, db, wrong["room"]) if "room" in wrong else None
        yield Problem(f"character {wrong['_id']}", wrong["problem"], repair)


async def _left_behind(db: Database) -> AsyncIterator[Problem]:
    async for wrong in turn_checks.find_left_behind(db, now=await server_time(db)):
        yield Problem(f"{wrong['kind']} {wrong['_id']}", wrong["problem"], partial(_settle, db, wrong))


async def _settle(db: Database, wrong: dict[str, Any]) -> None:
    if wrong["kind"] == "character":
        await help_along(db, Rooms(), wrong["_id"])
    else:
        await turn_jobs.settle_rooms(db, Rooms(), now=await server_time(db))


async def _refresh(db: Database, room_id: DocumentId) -> None:
    await Rooms().refresh(db, room_id)


JOBS = (Job("finish-turns", _finish_turns), Job("settle-rooms", _settle_rooms))
INVARIANTS = (
    Invariant("Every item of the game is in exactly one place.", _items),
    Invariant("The gold of the game is neither made nor lost.", _gold),
    Invariant("Every character is in the roster of its room, with what it carries and a current copy.", _rosters),
    Invariant(
        "No action of a character, and nothing that one leaves in a room, waits for more than a minute.", _left_behind
    ),
)
