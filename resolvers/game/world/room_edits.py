"""Changes of rooms that are no turn of a character, by imports."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, NotFound
from portico.resolvers.writes.retries import attempts

from .locations import LOCATIONS, copy_of
from .rooms import Rooms


async def rewrite_room(
    db: Database,
    room_id: ObjectId,
    change: Callable[[Document], Document],
    *,
    known: Document | None = None,
    now: datetime,
) -> bool:
    """Changes a room, and the copies that characters have of it. Returns whether anything was different.

    Args:     change: returns the new room; called again if another process has changed the room.
              known: the room as it was a moment ago, to save a read.
    Raises:   NotFound; Conflict (others kept changing the room); what `change` raises.
    Writes:   game.locations, one update with the revision as its guard; then game.characters, one update of the copies.
              If the process stops in between, the room's `stale_since` remains, and a job makes the copies.
    """
    async for _ in attempts():
        room = known or await db[LOCATIONS.name].find_one({"_id": room_id})
        known = None
        if room is None:
            raise NotFound("Location", str(room_id))
        new = change(room)
        fields = {name: value for name, value in new.items() if name not in room or room[name] != value}
        if not fields:
            return False
        is_visible = copy_of(new) != copy_of(room)
        if is_visible:
            fields |= {"version": room["version"] + 1, "stale_since": now}
        guard = {"_id": room_id, "revision": room["revision"]}
        update = {"$set": {**fields, "revision": room["revision"] + 1}}
        if (await db[LOCATIONS.name].update_one(guard, update)).matched_count:
            if is_visible:
                await Rooms().refresh(db, room_id)
            return True
    raise Conflict("Too much happens in the room at once.")
