"""Finishes what a crash has left of turns: slots, gifts that wait, entries that are left over, and old copies.

It also empties the entries of turns that are over. The process that ends a turn does that with the room's next update;
see `Rooms.forget_turn`. If it stops before, or if nothing more happens in the room, the job does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from bson import ObjectId

from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import each, sweep

from . import presence
from .characters import CHARACTERS, majority_reading
from .gifts import collect
from .locations import LOCATIONS
from .room_queues import no_turn
from .room_turns import FORGET, RETURN, TIDY, keeps_outcome
from .rooms import Rooms
from .turns import help_along


async def finish_turns(db: Database, rooms: Rooms, *, now: datetime) -> int:
    """Finishes turns that are older than five seconds. Returns how many."""

    async def end(character: Document) -> int:
        await help_along(db, rooms, character["_id"])
        return 1

    query = {"action.since": {"$lte": now - Job.STALE_AFTER}}
    return await sweep(db, CHARACTERS, query, end, fields=("action",), at_once=4)


async def settle_rooms(db: Database, rooms: Rooms, *, now: datetime) -> int:
    """Settles the marks of rooms that are older than five seconds. Returns how many it has settled.

    Gifts go to their characters, entries that are left over are dropped, what turns have given is forgotten after the
    characters have it, and characters get copies of their rooms. What cannot be settled does not stop the rest.
    """
    before = now - Job.STALE_AFTER

    def old(room: Document, is_marked: Callable[[Document], bool]) -> list[Document]:
        return [entry for entry in room["characters"] if is_marked(entry) and entry["since"] <= before]

    async def hand_over(room: Document) -> int:
        waiting = old(room, lambda entry: bool(entry["gifts"]))
        return await each(waiting, lambda one: collect(db, rooms, room["_id"], one["_id"], now=now))

    async def drop_entries(room: Document) -> int:
        left = old(room, lambda entry: "leaving" in entry or "absent" in entry)
        return await each(left, lambda one: tidy(db, rooms, room["_id"], one, now=now))

    async def forget(room: Document) -> int:
        return await forget_outcomes(db, rooms, room, now=now)

    async def refresh(room: Document) -> int:
        await rooms.refresh(db, room["_id"])
        return 1

    def settle(mark: str, do: Callable[[Document], Awaitable[int]], *fields: str) -> Callable[[], Awaitable[int]]:
        return lambda: sweep(db, LOCATIONS, {mark: {"$lte": before, "$type": "date"}}, do, fields=fields)

    return await Job.in_sequence(
        settle("gifts_since", hand_over, "characters"),
        settle("leaving_since", drop_entries, "characters"),
        settle("took_since", forget, "characters"),
        settle("stale_since", refresh),
    )


async def forget_outcomes(db: Database, rooms: Rooms, room: Document, *, now: datetime) -> int:
    """Empties the entries of turns that are over. Returns 1 if there were any, otherwise 0.

    Writes:   game.locations; one update.
    """
    kept = {entry["_id"]: entry["turn"] for entry in room["characters"] if keeps_outcome(entry)}
    query = {"_id": {"$in": list(kept)}, "location": {"$exists": True}}
    found = await majority_reading(db).find(query, {"turn": 1, "action.turn": 1}, batch_size=len(kept) + 1).to_list()
    over = [one["_id"] for one in found if one["turn"] - ("action" in one) >= kept[one["_id"]]]
    steps = ({"kind": FORGET, "character": one, "turn": kept[one], "at": now} for one in over)
    await asyncio.gather(*(rooms.take_step(db, room["_id"], step, no_turn, 0) for step in steps))
    return min(len(over), 1)


async def tidy(db: Database, rooms: Rooms, room_id: ObjectId, entry: Document, *, now: datetime) -> int:
    """Drops an entry that a finished move has left over, after the copies are refreshed where the character is.

    Returns:  1; 0 if the entry stays.
    Writes:   game.locations, game.characters; steps of a turn.
    """
    character = await help_along(db, rooms, entry["_id"])
    if character is not None and character["turn"] < entry["turn"]:
        # A former primary has answered the read.
        return 0
    here = None if character is None or "location" not in character else character["location"]["_id"]
    kind = RETURN if here == room_id and "leaving" in entry and not presence.rests(character or {}) else TIDY
    if here is not None:
        await rooms.refresh(db, here)
    step = {"kind": kind, "character": entry["_id"], "turn": entry["turn"], "at": now}
    await rooms.take_step(db, room_id, step, no_turn, 0)
    return 1
