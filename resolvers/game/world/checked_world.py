"""Reads the whole world for checks: all rooms and characters as of one point in time.

So a check finds no false problem while characters act. A damaged document is left out, and is a problem of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem
from portico.resolvers.snapshots import read_at_one_time
from portico.resolvers.writes.sweeps import DAMAGED, describe_damage, require

from . import blueprints
from .characters import CHARACTERS
from .equipment import equipped
from .locations import LOCATIONS

CHARACTER_NAME, ROOM_NAME = Problem.named("character"), Problem.named("room")
# Turns during which a character is in no roster, or in two.
BETWEEN_ROOMS = ("MOVE", "ENTER", "WAKE", "REST", "REMOVE")
_ITEM = ("_id", "weight", "inside")
_ROOM = (
    *(f"items.{name}" for name in _ITEM),
    *(f"characters.{name}" for name in ("_id", "turn", "load", "count", "gold", "leaving", "absent")),
    *(f"characters.{place}.{name}" for place in ("took", "gifts") for name in _ITEM),
    *(f"keepers.{name}" for name in ("number", "gold", "initial_gold")),
    *(f"keepers.items.{name}" for name in _ITEM),
    *("name", "version", "stale_since", "stocked", "keepers.stocked", "keepers.key"),
)
_CHARACTER = (
    *(f"items.{name}" for name in _ITEM),
    *(f"action.items.{name}" for name in _ITEM),
    *("action.turn", "action.gold", "action.room", "action.kind", "armor", "weapons"),
    *("name", "gold", "initial_gold", "location._id", "location.version", "deleted.room", "resting_since"),
)
_BATCH = 1_000


@dataclass(frozen=True)
class World:
    """All rooms and characters at one time, except damaged ones.

    `entries` are those of each character, with the `_id` of the room. `damage` has a problem for each damaged document.
    """

    rooms: dict[ObjectId, Document]
    characters: dict[ObjectId, Document]
    entries: dict[ObjectId, list[tuple[ObjectId, Document]]]
    damage: dict[ObjectId, Problem]

    def deciding(self, character: Document) -> Document | None:
        """Returns the entry of the room that decides the character's turn under way."""
        room_id = character.get("action", {}).get("room")
        return next((entry for place, entry in self.entries.get(character["_id"], ()) if place == room_id), None)

    def is_handed_over(self, character: Document) -> bool:
        """Returns whether the slot holds what the character hands over: the room has not decided."""
        entry = self.deciding(character)
        return entry is None or entry["turn"] < character["action"]["turn"]

    def is_given(self, entry: Document) -> bool:
        """Returns whether the entry holds what its turn gives: the character has not got it yet."""
        action = self.characters.get(entry["_id"], {}).get("action")
        return action is not None and action["turn"] == entry["turn"]


async def read_world(db: Database) -> World:
    union = {"coll": CHARACTERS.name, "pipeline": [{"$project": dict.fromkeys(_CHARACTER, 1)}]}
    stages: list[Document] = [
        {"$project": dict.fromkeys(_ROOM, 1)},
        {"$set": {"is_room": True}},
        {"$unionWith": union},
    ]
    found = await read_at_one_time(db, LOCATIONS, stages, batch_size=_BATCH)
    rooms: dict[ObjectId, Document] = {}
    characters: dict[ObjectId, Document] = {}
    damage: dict[ObjectId, Problem] = {}
    for one in found:
        is_room = "is_room" in one
        try:
            (_require_room if is_room else _require_character)(one)
        except DAMAGED as error:
            damage[one["_id"]] = Problem((ROOM_NAME if is_room else CHARACTER_NAME)(one), describe_damage(error))
        else:
            (rooms if is_room else characters)[one["_id"]] = one
    entries: dict[ObjectId, list[tuple[ObjectId, Document]]] = {}
    for room in rooms.values():
        for entry in room["characters"]:
            entries.setdefault(entry["_id"], []).append((room["_id"], entry))
    return World(rooms, characters, entries, damage)


def _require_room(room: Document) -> None:
    """Raises one of DAMAGED if a field that the checks read is missing or invalid."""
    _require_items(room["items"])
    _require_numbers(room, "version")
    for keeper in room["keepers"]:
        _require_numbers(keeper, "number", "gold", "initial_gold")
        _require_items(keeper["items"])
    for entry in room["characters"]:
        require(entry, ("_id",))
        _require_numbers(entry, "turn", "load", "count", "gold")
        _require_items(entry["gifts"])
        _require_items(entry["took"])
    for _ in blueprints.made_in(room):
        pass


def _require_character(character: Document) -> None:
    """Raises one of DAMAGED if a field that the checks read is missing or invalid."""
    _require_items(character["items"])
    _require_numbers(character, "gold", "initial_gold")
    equipped(character)
    action: Document | None = character.get("action")
    if action is not None:
        _require_numbers({"gold": 0, **action}, "turn", "gold")
        _require_items(action.get("items", []))
    is_between = action is not None and action.get("kind") in BETWEEN_ROOMS
    if "deleted" not in character and not is_between and character.get("resting_since") is None:
        require(character["location"], ("_id",))
        _require_numbers(character["location"], "version")


def _require_items(items: list[Document]) -> None:
    for item in items:
        require(item, ("_id", "inside"))
        _require_numbers(item, "weight")


def _require_numbers(document: Document, *names: str) -> None:
    for name in names:
        if not isinstance(document[name], int | float):
            raise TypeError(f"{name!r} is no number")
