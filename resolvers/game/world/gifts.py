"""Gifts, which wait in the roster of the room until a turn of the character takes them along."""

from __future__ import annotations

import contextlib
from datetime import datetime

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, NotFound
from portico.resolvers.writes.marks import random_operation_id

from . import room_turns
from .room_turns import STAY
from .rooms import Rooms
from .turn_runs import Acting
from .turns import Plan, act, help_along


async def collect(db: Database, rooms: Rooms, room_id: ObjectId, character_id: ObjectId, *, now: datetime) -> int:
    """Hands the gifts that wait for a character in the room to the character. Returns 1 if it has, otherwise 0.

    Raises:   Conflict (others keep acting for the character; a job hands the gifts over).
    Writes:   game.characters and game.locations; a turn, if gifts wait.
    """
    room = await rooms.glance(db, room_id, is_fresh=True)
    entry = None if room is None else room_turns.entry_of(room, character_id)
    done = 0
    if entry is not None and entry["gifts"]:
        acting = Acting(db, rooms, character_id, None, now, random_operation_id())

        async def stay(_character: Document) -> Plan:
            return Plan(STAY)

        # If the character is busy for too long, the job hands the gifts over.
        with contextlib.suppress(Conflict, NotFound):
            await act(acting, stay)
            done = 1
    # Another process may be about to hand them over.
    await help_along(db, rooms, character_id)
    return done
