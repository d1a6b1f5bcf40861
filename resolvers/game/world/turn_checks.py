"""Checks of the world: items, gold, rosters and the copies of rooms.

In between the steps of a turn, the places of items and gold follow the rule in `turns`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem, mend_now
from portico.resolvers.server_time import server_time

from . import blueprints, turn_jobs
from .characters import CHARACTERS
from .checked_world import BETWEEN_ROOMS, CHARACTER_NAME, ROOM_NAME, World, read_world
from .equipment import equipped
from .items import weight_of
from .locations import LOCATIONS, keeper_key, present
from .rooms import Rooms
from .turns import help_along

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


async def find_wrong_items(db: Database) -> AsyncIterator[Problem]:
    """Yields items that are in several places or in none, and references to items that are not there.

    That an item is nowhere is known only if an import has made it; see `blueprints.made_in`.
    """
    world = await read_world(db)
    for problem in world.damage.values():
        yield problem
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
    # A damaged document can hold what seems to be nowhere.
    for problem in () if world.damage else _nowhere(world, places.keys()):
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
    """Yields that gold pieces came from nowhere or are lost, and each owner that has less than none."""
    world = await read_world(db)
    for problem in world.damage.values():
        yield problem
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
    # What damaged documents hold is unknown.
    if total != expected and not world.damage:
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
    acting = db[CHARACTERS.name].find({"action.since": old}, {"action.kind": 1, "action.since": 1})
    async for problem in Problem.all_in(acting, partial(_acting_in, db), CHARACTER_NAME):
        yield problem
    for mark, (_, fields) in _LEFT.items():
        wanted = {mark: 1, **{f"characters.{name}": 1 for name in ("_id", *fields)}}
        marked = db[LOCATIONS.name].find({mark: old}, wanted)
        async for problem in Problem.all_in(marked, partial(_marked_in, db, mark), ROOM_NAME):
            yield problem


async def _acting_in(db: Database, characters: list[Document]) -> AsyncIterator[Problem]:
    for one in characters:
        action = one["action"]
        text = f"its action {action.get('kind')} has been under way since {_shown(action['since'])}"
        yield Problem(CHARACTER_NAME(one), text, partial(help_along, db, Rooms(), one["_id"]))


async def _marked_in(db: Database, mark: str, rooms: list[Document]) -> AsyncIterator[Problem]:
    problem, fields = _LEFT[mark]
    for room in rooms:
        marked = [str(one["_id"]) for one in room["characters"] if any(one.get(name) for name in fields)]
        whose = f", of characters {', '.join(marked)}" if marked else ""
        text = f"{problem} since {_shown(room[mark])}{whose}"
        yield Problem(ROOM_NAME(room), text, partial(mend_now, _settle_rooms, db))


async def _settle_rooms(db: Database, *, now: datetime) -> None:
    await turn_jobs.settle_rooms(db, Rooms(), now=now)


def _shown(moment: datetime) -> str:
    return f"{moment.isoformat(timespec='seconds')}Z"


async def find_wrong_rosters(db: Database) -> AsyncIterator[Problem]:
    """Yields characters that do not agree with the rosters, and rosters with characters that do not exist."""
    world = await read_world(db)
    for problem in world.damage.values():
        yield problem
    for character in world.characters.values():
        for text, room_id in _roster_problems(world, character):
            refresh = None if room_id is None else partial(Rooms().refresh, db, room_id)
            yield Problem(CHARACTER_NAME(character), text, refresh)
    for character_id, found in world.entries.items():
        is_known = character_id in world.characters or character_id in world.damage
        if not is_known and any("absent" not in entry for _, entry in found):
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
    if action.get("kind") in BETWEEN_ROOMS:
        if len(shown) > 1:
            yield f"{len(shown)} rooms list it", None
        return
    if character.get("resting_since") is not None:
        if shown:
            yield f"it rests, but room {shown[0]} lists it", None
        return
    if character["location"]["_id"] not in world.damage:
        yield from _place_problems(world, character, listed, shown)


def _place_problems(
    world: World, character: Document, listed: Mapping[ObjectId, Document], shown: Sequence[ObjectId]
) -> Iterator[tuple[str, ObjectId | None]]:
    """Yields what is wrong with a character that must be shown in its room, as `_roster_problems` does."""
    here = character["location"]["_id"]
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
