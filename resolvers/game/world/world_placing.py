"""Finds a place for the objects of an imported world that have none: they are in no room, no shop and no other object.

MUD files say in which rooms objects appear by scripts that Portico does not read. So each such object lies in a room
of its zone. Its id decides which one: the rooms with exits are tried in the order of their ids, from the one that a
hash of the object's id selects, until one has fewer than 30 items on the floor. If there is none, the object has no
place, and a later import tries again.

If a room or an object is damaged, no object gets a place. A later import tries again when the document is repaired.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import DAMAGED, SweepFailed, each

from . import blueprints
from .blueprints import BLUEPRINTS
from .locations import LOCATIONS
from .world_imports import lay_down

# A tenth of what a room can hold, so that players can drop things there.
MAX_PLACED = 30

_Read = TypeVar("_Read")


async def place_objects(db: Database, *, now: datetime) -> int:
    """Lays down all objects that have no place, and those whose import was interrupted. Returns how many. Idempotent.

    Raises:   SweepFailed, before any write, if rooms or objects are damaged: they may hold what seems to have no place.
              SweepFailed or another error, after all other rooms, if some cannot be changed.
    Writes:   game.blueprints, the place of each object; game.locations, once for each room.
    """
    failed: list[Exception] = []
    found = await db[BLUEPRINTS.name].find({"zone": {"$gt": ""}}, {"zone": 1, "place": 1, "contents": 1}).to_list()
    objects = _read_each(found, _Object.of, BLUEPRINTS.name, failed)
    found = await db[LOCATIONS.name].find({"key": {"$gt": ""}}, _SEEN_OF_ROOMS).to_list()
    rooms = _read_each(found, _Room.of, LOCATIONS.name, failed)
    if failed:
        raise SweepFailed.of(failed, 0)
    elsewhere = {one for item in objects for one in item.contents} | {one for room in rooms for one in room.contents}
    stocked = {room.id: room.stocked for room in rooms}
    by_zone: dict[str, list[_Room]] = {}
    for room in sorted(rooms, key=lambda one: (len(one.key), one.key)):
        if room.has_exits and room.zone is not None:
            by_zone.setdefault(room.zone, []).append(room)
    counts = {room.id: room.items for room in rooms}
    wanted: dict[ObjectId, list[str]] = {}
    for item in sorted(objects, key=lambda one: one.key):
        place = item.place
        if place is None and item.id not in elsewhere:
            chosen = _choose(item.id, by_zone.get(item.zone, ()), counts)
            place = None if chosen is None else await blueprints.settle(db, item.key, chosen)
        if place is not None and item.id not in stocked.get(place, ()):
            wanted.setdefault(place, []).append(item.id)
            counts[place] = counts.get(place, 0) + 1

    async def lay(place: ObjectId) -> int:
        try:
            await lay_down(db, place, wanted[place], now=now)
        except Exception as error:
            error.add_note(f"In {LOCATIONS.name}: {place!r}")
            raise
        return len(wanted[place])

    return await each(wanted, lay)


_SEEN_OF_ROOMS = {"key": 1, "zone": 1, "exits": 1, "items._id": 1, "keepers.stocked": 1, "stocked": 1}


@dataclass(frozen=True)
class _Room:
    """A room with a key. `items` is how many lie on its floor, `contents` what its shopkeepers have of an import."""

    id: ObjectId
    key: str
    zone: str | None
    has_exits: bool
    items: int
    stocked: Collection[str]
    contents: Collection[str]

    @classmethod
    def of(cls, room: Document) -> _Room:
        return cls(
            id=room["_id"],
            key=str(room["key"]),
            zone=room.get("zone"),
            has_exits=bool(room["exits"]),
            items=len(room["items"]),
            stocked=set(room.get("stocked", ())),
            contents={one for keeper in room["keepers"] for one in keeper.get("stocked", ())},
        )


@dataclass(frozen=True)
class _Object:
    """An object of a zone. `key` is the `_id` of its blueprint, and `contents` what is inside."""

    id: str
    key: str
    zone: str
    place: ObjectId | None
    contents: Collection[str]

    @classmethod
    def of(cls, found: Document) -> _Object:
        return cls(blueprints.id_of(found), found["_id"], found["zone"], found.get("place"), set(found["contents"]))


def _read_each(
    documents: Iterable[Document], read: Callable[[Document], _Read], collection: str, failed: list[Exception]
) -> list[_Read]:
    """Returns what `read` makes of each document. Adds the errors of damaged documents to `failed`."""
    made: list[_Read] = []
    for document in documents:
        try:
            made.append(read(document))
        except DAMAGED as error:
            error.add_note(f"In {collection}: {document['_id']!r}")
            failed.append(error)
    return made


def _choose(object_id: str, rooms: Sequence[_Room], counts: Mapping[ObjectId, int]) -> ObjectId | None:
    if not rooms:
        return None
    start = int.from_bytes(hashlib.blake2b(object_id.encode(), digest_size=8).digest()) % len(rooms)
    tried = (rooms[(start + step) % len(rooms)].id for step in range(len(rooms)))
    return next((room for room in tried if counts[room] < MAX_PLACED), None)
