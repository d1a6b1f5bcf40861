"""Maps of a part of the world: the rooms within some steps of a room, with a shortest way to each.

Rooms are read one step at a time, by one command a step for all maps of an operation, until the maps are full. A room
that several exits lead to is read once. Only exits are read: they have no more entries than there are directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bson import ObjectId

from portico.resolvers.documents import Database, Document

from .locations import DIRECTIONS, find_by_ids

# How far a map reaches, and how many rooms it has: up to six commands, and 100 documents.
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


class _Walk:
    """The way from the first room of an area outward."""

    def __init__(self, area: Area) -> None:
        self.found: list[MappedRoom] = []
        # The rooms of the next step, with the ways to them.
        self.ways: dict[ObjectId, tuple[str, ...]] = {area.start: ()}
        self._area = area
        self._seen = {area.start}

    def step(self, rooms: Mapping[ObjectId, Document]) -> None:
        """Takes the rooms of this step, and finds those of the next one."""
        reached = [MappedRoom(room_id, path) for room_id, path in self.ways.items() if room_id in rooms]
        self.found += reached
        self.ways = {}
        for room in reached:
            if room.steps < self._area.steps:
                self._follow(room, _in_order(rooms[room.to]))

    def _follow(self, room: MappedRoom, exits: Sequence[Document]) -> None:
        for way in exits:
            if way["to"] not in self._seen and len(self.found) + len(self.ways) < self._area.rooms:
                self._seen.add(way["to"])
                self.ways[way["to"]] = (*room.path, way["direction"])


async def find_maps(db: Database, areas: Sequence[Area]) -> dict[Area, Sequence[MappedRoom]]:
    """Returns the rooms of each area, nearest first, beginning with its first room; nothing if that does not exist.

    Rooms at the same distance are in the order of the rooms before them, and of the directions. An exit that leads
    nowhere is left out. One command for each step of all areas, and one for the first rooms.
    """
    walks = {area: _Walk(area) for area in areas}
    while going := [walk for walk in walks.values() if walk.ways]:
        wanted = dict.fromkeys(room_id for walk in going for room_id in walk.ways)
        rooms = await find_by_ids(db, list(wanted), _EXITS)
        for walk in going:
            walk.step(rooms)
    return {area: walk.found for area, walk in walks.items() if walk.found}


def _in_order(room: Document) -> list[Document]:
    return sorted(room["exits"], key=lambda way: DIRECTIONS.index(way["direction"]))
