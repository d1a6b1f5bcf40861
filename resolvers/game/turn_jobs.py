"""Finishes what a crash has left of turns: slots, gifts that wait, entries that are left over, and old copies."""

from __future__ import annotations

from datetime import datetime

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import sweep

from .characters import CHARACTERS
from .combining import Rooms, no_turn
from .locations import LOCATIONS
from .room_turns import RETURN, TIDY
from .turns import STALE_AFTER, collect, help_along


async def finish_turns(db: Database, rooms: Rooms, *, now: datetime) -> int:
    """Finishes turns that are older than five seconds. Returns how many."""

    async def end(character: Document) -> int:
        await help_along(db, rooms, character["_id"])
        return 1

    query = {"action.since": {"$lte": now - STALE_AFTER}}
    return await sweep(db, CHARACTERS, query, end, fields=("action",), at_once=4)


async def settle_rooms(db: Database, rooms: Rooms, *, now: datetime) -> int:
    """Settles the marks of rooms that are older than five seconds. Returns how many rooms it has settled.

    Gifts go to their characters, entries that are left over are dropped, and characters get copies of their rooms.
    """
    done = 0
    before = now - STALE_AFTER

    async def hand_over(room: Document) -> int:
        for entry in room["characters"]:
            if entry["gifts"] and entry["since"] <= before:
                await collect(db, rooms, room["_id"], entry["_id"], now=now)
        return 1

    async def drop_entries(room: Document) -> int:
        for entry in room["characters"]:
            if ("leaving" in entry or "absent" in entry) and entry["since"] <= before:
                await tidy(db, rooms, room["_id"], entry, now=now)
        return 1

    async def refresh(room: Document) -> int:
        await rooms.refresh(db, room["_id"])
        return 1

    done += await sweep(
        db, LOCATIONS, {"gifts_since": {"$lte": before, "$type": "date"}}, hand_over, fields=("characters",)
    )
    done += await sweep(
        db, LOCATIONS, {"leaving_since": {"$lte": before, "$type": "date"}}, drop_entries, fields=("characters",)
    )
    done += await sweep(db, LOCATIONS, {"stale_since": {"$lte": before}}, refresh, fields=())
    return done


async def tidy(db: Database, rooms: Rooms, room_id: ObjectId, entry: Document, *, now: datetime) -> None:
    """Drops an entry that a finished move has left over, after the copies are refreshed where the character is.

    Writes:   game.locations, game.characters; steps of a turn.
    """
    character = await help_along(db, rooms, entry["_id"])
    if character is not None and character["turn"] < entry["turn"]:
        # A former primary has answered the read.
        return
    here = None if character is None or "location" not in character else character["location"]["_id"]
    kind = RETURN if here == room_id and "leaving" in entry else TIDY
    if here is not None:
        await rooms.refresh(db, here)
    step = {"kind": kind, "character": entry["_id"], "turn": entry["turn"], "at": now}
    await rooms.take_step(db, room_id, step, no_turn, 0)
