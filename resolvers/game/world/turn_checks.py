"""Checks of the world: items, gold, rosters and the copies of rooms.

Everything is read as of one point in time, so that a check finds no false problem while characters act. In between the
steps of a turn, the places of items and gold follow the rule in `turns`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem, mend_now
from portico.resolvers.server_time import server_time
from portico.resolvers.snapshots import read_at_one_time

from . import blueprints, turn_jobs
from .characters import CHARACTERS
from .equipment import equipped
from .items import weight_of
from .locations import LOCATIONS, keeper_key, present
from .rooms import Rooms
from .turns import help_along

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
# Jobs settle what is older than five seconds.
_LEFT_BEHIND_AFTER = timedelta(minutes=1)
# What the marks of rooms say, and which entries of the roster have a mark.
_LEFT: dict[str, tuple[str, tuple[str, ...]]] = {
    "gifts_since": ("gifts have been waiting", ("gifts",)),
    "leaving_since": ("entries of moves that are over have been left", ("leaving", "absent")),
    "took_since": ("what actions gave has been kept", ("took", "gold")),
    "stale_since": ("characters have had old copies of it", ()),
}
_ON_ITS_WAY = "on its way"
_CHARACTER_NAME, _ROOM_NAME = Problem.named("character"), Problem.named("room")
# Turns during which a character is in no roster, or in two.
_BETWEEN_ROOMS = ("MOVE", "ENTER", "WAKE", "REST", "REMOVE")


@dataclass(frozen=True)
class World:
    """All rooms and characters at one time. `entries` are those of each character, with the `_id` of the room."""

    rooms: dict[ObjectId, Document]
    characters: dict[ObjectId, Document]
    entries: dict[ObjectId, list[tuple[ObjectId, Document]]]

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
    rooms = {one["_id"]: one for one in found if "is_room" in one}
    entries: dict[ObjectId, list[tuple[ObjectId, Document]]] = {}
    for room in rooms.values():
        for entry in room["characters"]:
            entries.setdefault(entry["_id"], []).append((room["_id"], entry))
    return World(rooms, {one["_id"]: one for one in found if "is_room" not in one}, entries)


async def find_wrong_items(db: Database) -> AsyncIterator[Problem]:
    """Yields items that are in several places or in none, and references to items that are not there.

    That an item is nowhere is known only if an import has made it; see `blueprints.made_in`.
    """
    world = await read_world(db)
    places: dict[ObjectId, list[str]] = {}
    for place, items in _places(world):
        here = {item["_id"] for item in items}
        for item in items:
            places.setdefault(item["_id"], []).append(place)
            # What is on its way still says what it was inside.
            if item["inside"] is not None and item["inside"] not in here and not place.startswith(_ON_ITS_WAY):
                yield Problem(f"item {item['_id']}", f"{place}, it is inside an item that is not there")
    for item_id, found in places.items():
        if len(found) > 1:
            yield Problem(f"item {item_id}", f"it is in {len(found)} places: {'; '.join(found)}")
    for problem in _nowhere(world, places.keys()):
        yield problem
    for character in world.characters.values():
        # The things of a character that is being deleted are on their way to the floor.
        handed = character.get("action", {}).get("items", ()) if _is_leaving(character) else ()
        top = {item["_id"] for item in (*character["items"], *handed) if item["inside"] is None}
        for missing in equipped(character) - top:
            text = f"character {character['_id']} wears or wields it, but does not have it"
            yield Problem(f"item {missing}", text)


def _is_leaving(character: Document) -> bool:
    return bool(character.get("action", {}).get("kind") == "REMOVE")


def _nowhere(world: World, found: Collection[ObjectId]) -> Iterator[Problem]:
    for room in world.rooms.values():
        for object_id, item_id in blueprints.made_in(room):
            if item_id not in found:
                yield Problem(f"item {item_id}", f"it is nowhere; room {room['_id']} had it as {object_id!r}")


def _places(world: World) -> Iterator[tuple[str, list[Document]]]:
    """Yields every place that has items."""
    for room in world.rooms.values():
        yield f"in room {room['_id']}", room["items"]
        for keeper in room["keepers"]:
            yield f"with shopkeeper {room['_id']}.{keeper['number']}", keeper["items"]
        for entry in room["characters"]:
            yield f"among the gifts for character {entry['_id']}", entry["gifts"]
            if world.is_given(entry):
                yield f"{_ON_ITS_WAY} to character {entry['_id']}", entry["took"]
    for character in world.characters.values():
        yield f"with character {character['_id']}", character["items"]
        if "items" in character.get("action", {}) and world.is_handed_over(character):
            yield f"{_ON_ITS_WAY} from character {character['_id']}", character["action"]["items"]


async def find_wrong_gold(db: Database) -> AsyncIterator[Problem]:
    """Yields that gold pieces came from nowhere or are lost, and who has less than none."""
    world = await read_world(db)
    keepers = [keeper for room in world.rooms.values() for keeper in room["keepers"]]
    holders = [*world.characters.values(), *keepers]
    total = sum(holder["gold"] for holder in holders)
    for character in world.characters.values():
        if "gold" in character.get("action", {}) and world.is_handed_over(character):
            total += character["action"]["gold"]
    total += sum(
        entry["gold"] for room in world.rooms.values() for entry in room["characters"] if world.is_given(entry)
    )
    expected = sum(holder["initial_gold"] for holder in holders)
    if total != expected:
        yield Problem("the gold", f"there are {total:,} gold pieces; there should be {expected:,}")
    owners: list[tuple[str, ObjectId | str, Document]] = [
        ("character", key, one) for key, one in world.characters.items()
    ]
    owners += [
        ("shopkeeper", keeper_key(key, keeper["number"]), keeper)
        for key, room in world.rooms.items()
        for keeper in room["keepers"]
    ]
    for kind, key, owner in owners:
        if owner["gold"] < 0:
            yield Problem(f"{kind} {key}", f"it has {owner['gold']:,} gold pieces")


async def find_left_behind(db: Database) -> AsyncIterator[Problem]:
    """Yields actions that have not ended, and marks of rooms that no job has settled, after more than a minute."""
    old = {"$lte": await server_time(db) - _LEFT_BEHIND_AFTER, "$type": "date"}
    query = {"action.since": old}
    async for one in db[CHARACTERS.name].find(query, {"action.kind": 1, "action.since": 1}):
        action = one["action"]
        text = f"its action {action.get('kind')} has been under way since {_shown(action['since'])}"
        yield Problem(_CHARACTER_NAME(one), text, partial(help_along, db, Rooms(), one["_id"]))
    for mark, (problem, fields) in _LEFT.items():
        wanted = {mark: 1, **{f"characters.{name}": 1 for name in ("_id", *fields)}}
        async for room in db[LOCATIONS.name].find({mark: old}, wanted):
            marked = [str(one["_id"]) for one in room["characters"] if any(one.get(name) for name in fields)]
            whose = f", of characters {', '.join(marked)}" if marked else ""
            text = f"{problem} since {_shown(room[mark])}{whose}"
            yield Problem(_ROOM_NAME(room), text, partial(mend_now, _settle_rooms, db))


async def _settle_rooms(db: Database, *, now: datetime) -> None:
    await turn_jobs.settle_rooms(db, Rooms(), now=now)


def _shown(moment: datetime) -> str:
    return f"{moment.isoformat(timespec='seconds')}Z"


async def find_wrong_rosters(db: Database) -> AsyncIterator[Problem]:
    """Yields characters that do not agree with the rosters, and rosters with characters that do not exist."""
    world = await read_world(db)
    for character in world.characters.values():
        for text, room_id in _roster_problems(world, character):
            refresh = None if room_id is None else partial(Rooms().refresh, db, room_id)
            yield Problem(_CHARACTER_NAME(character), text, refresh)
    for character_id, found in world.entries.items():
        if character_id not in world.characters and any("absent" not in entry for _, entry in found):
            yield Problem(f"character {character_id}", f"room {found[0][0]} lists it, but it does not exist")


def _roster_problems(world: World, character: Document) -> Iterator[tuple[str, ObjectId | None]]:
    """Yields what is wrong, with the room whose refresh repairs it."""
    listed = dict(world.entries.get(character["_id"], ()))
    shown = [place for place in listed if present({"characters": [listed[place]]})]
    action: dict[str, Any] = character.get("action", {})
    if "deleted" in character:
        if shown:
            yield f"it is deleted, but room {shown[0]} lists it", None
        return
    if action.get("kind") in _BETWEEN_ROOMS:
        if len(shown) > 1:
            yield f"{len(shown)} rooms list it", None
        return
    here = character["location"]["_id"]
    if character.get("resting_since") is not None:
        if shown:
            yield f"it rests, but room {shown[0]} lists it", None
        return
    if shown != [here]:
        rooms = ", ".join(str(place) for place in shown) or "no room"
        yield f"it is in room {here}, but {rooms} lists it", None
        return
    if (wrong := _wrong_load(world, character, listed[here])) is not None:
        yield wrong, None
    room = world.rooms[here]
    # An entry that is left over is the mark of a refresh that is still to come, and the slot that of the own copy.
    is_marked = "stale_since" in room or len(listed) > 1 or world.is_given(listed[here])
    if character["location"]["version"] < room["version"] and not is_marked:
        yield f"its copy of room {here} is old", here


def _wrong_load(world: World, character: Document, entry: Document) -> str | None:
    carried = [*character["items"], *entry["gifts"]]
    if world.is_given(entry):
        carried += entry["took"]
    elif "action" in character:
        carried += character["action"].get("items", [])
    if (entry["load"], entry["count"]) == (weight_of(carried), len(carried)):
        return None
    counted = f"its room counts {entry['count']} items of {entry['load']} hundredths of a pound"
    return f"{counted}, but it carries {len(carried)} of {weight_of(carried)}"
