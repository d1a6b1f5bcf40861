"""Maps of a part of the world: the rooms within some steps of a room, with a shortest way to each.

Rooms are read one step at a time, by one command a step, until the map is full. A room that several exits lead to is
read once. Only exits are read: they have no more entries than there are directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bson import ObjectId

from portico.resolvers.documents import Database, Document

from .locations import DIRECTIONS, find_by_ids

# How far a map reaches, and how many rooms it has: up to seven commands, and 100 documents.
MAX_STEPS = 5
MAX_ROOMS = 100
_EXITS = {"exits": 1}


class Area(NamedTuple):
    """The part of the world that a map shows: the nearest rooms within `steps` of `start`, at most `rooms`."""

    start: ObjectId
    steps: int
    rooms: int


class MappedRoom(NamedTuple):
    """A room of a map, with the directions of a shortest way from the first room to it."""

    to: ObjectId
    path: tuple[str, ...]

    @property
    def steps(self) -> int:
        return len(self.path)


async def find_map(db: Database, area: Area) -> Sequence[MappedRoom] | None:
    """Returns the rooms of the area, nearest first, beginning with its first room; None if that does not exist.

    Rooms at the same distance are in the order of the rooms before them, and of the directions. An exit that leads
    nowhere is left out. One command a step, and one for the first room.
    """
    found: list[MappedRoom] = []
    ways: dict[ObjectId, tuple[str, ...]] = {area.start: ()}
    seen = {area.start}
    for _ in range(area.steps + 1):
        rooms = await find_by_ids(db, list(ways), _EXITS)
        reached = [MappedRoom(room_id, path) for room_id, path in ways.items() if room_id in rooms]
        found += reached
        ways = {}
        for room in reached:
            for way in _in_order(rooms[room.to]):
                if way["to"] not in seen and len(found) + len(ways) < area.rooms:
                    seen.add(way["to"])
                    ways[way["to"]] = (*room.path, way["direction"])
        if not ways:
            break
    return found or None


def _in_order(room: Document) -> list[Document]:
    return sorted(room["exits"], key=lambda way: DIRECTIONS.index(way["direction"]))
