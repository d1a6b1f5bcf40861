"""Lets idle characters rest, so that they take no place in rooms. See `presence`."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.marks import random_operation_id
from portico.resolvers.writes.sweeps import each, sweep

from .characters import majority_reading
from .locations import LOCATIONS, present
from .room_turns import REST
from .rooms import Rooms, TurnOver
from .turn_runs import Acting
from .turns import Plan, begin, finish

_AT_ONCE = 8


async def rest_idle(db: Database, rooms: Rooms, *, idle_for: timedelta, now: datetime) -> int:
    """Lets characters rest whose latest action in their room is at least this long ago. Returns how many.

    Writes:   game.characters and game.locations; a turn for each.
    """
    before = now - idle_for

    async def empty(room: Document) -> int:
        async def rest(entry: Document) -> int:
            return await _rest(db, rooms, room["_id"], entry["_id"], before=before, now=now)

        idle = [one for one in present(room) if "since" in one and one["since"] <= before]
        return await each(idle, rest, at_once=_AT_ONCE)

    return await sweep(db, LOCATIONS, {"characters.since": {"$lte": before}}, empty, fields=("characters",))


async def _rest(
    db: Database, rooms: Rooms, room_id: ObjectId, character_id: ObjectId, *, before: datetime, now: datetime
) -> int:
    """Lets the character rest, unless it acts. The room decides whether it is idle."""
    query = {"_id": character_id, "location._id": room_id, "action": {"$exists": False}}
    character = await majority_reading(db).find_one({**query, "resting_since": None})
    if character is None:
        return 0
    acting = Acting(db, rooms, character_id, None, now, random_operation_id())
    checked = rooms.moment()
    begun = await begin(acting, character, Plan(REST, {"before": before}))
    if begun is None:
        return 0
    # Another process may finish the turn.
    with contextlib.suppress(TurnOver):
        await finish(db, rooms, begun, checked=checked)
    return 1
