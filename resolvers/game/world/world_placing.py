"""Finds a place for the objects of an imported world that have none: they are in no room, no shop and no other object.

MUD files say in which rooms objects appear by scripts that Portico does not read. So each such object lies in a room
of its zone. Its id decides which one: the rooms with exits are tried in the order of their ids, from the one that a
hash of the object's id selects, until one has fewer than 30 items on the floor. If there is none, the object has no
place, and a later import tries again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from bson import ObjectId

from portico.resolvers.documents import Database, Document

from . import blueprints
from .blueprints import BLUEPRINTS
from .locations import LOCATIONS
from .world_imports import lay_down

# A tenth of what a room can hold, so that players can drop things there.
MAX_PLACED = 30


async def place_objects(db: Database, *, now: datetime) -> int:
    """Lays down all objects that have no place, and those whose import was interrupted. Returns how many. Idempotent.

    Writes:   game.blueprints, the place of each object; game.locations, once for each room.
    """
    objects = await db[BLUEPRINTS.name].find({"zone": {"$gt": ""}}, {"zone": 1, "place": 1, "contents": 1}).to_list()
    rooms = await db[LOCATIONS.name].find({"key": {"$gt": ""}}, _SEEN_OF_ROOMS).to_list()
    elsewhere = {one for item in objects for one in item["contents"]}
    elsewhere |= {one for room in rooms for keeper in room["keepers"] for one in keeper.get("stocked", ())}
    stocked = {room["_id"]: set(room.get("stocked", ())) for room in rooms}
    by_zone: dict[str, list[Document]] = {}
    for room in sorted(rooms, key=_order):
        if room["exits"] and "zone" in room:
            by_zone.setdefault(room["zone"], []).append(room)
    counts = {room["_id"]: len(room["items"]) for room in rooms}
    wanted: dict[ObjectId, list[str]] = {}
    for item in sorted(objects, key=lambda one: str(one["_id"])):
        one, place = blueprints.id_of(item), item.get("place")
        if place is None and one not in elsewhere:
            chosen = _choose(one, by_zone.get(item["zone"], ()), counts)
            place = None if chosen is None else await blueprints.settle(db, item["_id"], chosen)
        if place is not None and one not in stocked.get(place, ()):
            wanted.setdefault(place, []).append(one)
            counts[place] = counts.get(place, 0) + 1
    for place, ids in wanted.items():
        await lay_down(db, place, ids, now=now)
    return sum(map(len, wanted.values()))


_SEEN_OF_ROOMS = {"key": 1, "zone": 1, "exits": 1, "items._id": 1, "keepers.stocked": 1, "stocked": 1}


def _order(room: Document) -> tuple[int, str]:
    key = str(room.get("key", ""))
    return len(key), key


def _choose(object_id: str, rooms: Sequence[Document], counts: Mapping[ObjectId, int]) -> ObjectId | None:
    if not rooms:
        return None
    start = int.from_bytes(hashlib.blake2b(object_id.encode(), digest_size=8).digest()) % len(rooms)
    tried = (rooms[(start + step) % len(rooms)]["_id"] for step in range(len(rooms)))
    return next((room for room in tried if counts[room] < MAX_PLACED), None)
