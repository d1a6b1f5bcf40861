"""Rooms. A room's document decides everything that happens in the room. The collection and its reads.

As a character, a shopkeeper has the text `<hex _id of the room>.<number>` as its key.

`gifts_since`, `took_since` and `leaving_since` are the earliest `since` of their entries of the
roster.

Writers of a room raise `revision`, and `version` with `stale_since` if players can see the change. Otherwise a process
overwrites them with the state that it remembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection, Versioned
from portico.resolvers.typed import TypedDict

from .items import Item


class Exit(TypedDict):
    """N, S, E, W, UP or DOWN, and the `_id` of a room."""

    direction: str
    to: ObjectId


class Refusal(TypedDict):
    """Why an action was refused."""

    type: str
    facts: dict[str, Any]


class Entry(TypedDict):
    """An entry of the roster: a character in the room."""

    _id: ObjectId
    name: str
    # The number of its latest action that the room has decided.
    turn: int
    # Hundredths of a pound that it can carry.
    limit: int
    # Hundredths of a pound and number of items that it carries; its gifts and `took` count.
    load: int
    count: int
    # Items and gold pieces that the latest action gives to the character; some time after it has them, empty and 0, and
    # `over`.
    took: list[Item]
    gold: int
    # Of the latest action; None if it was not refused.
    refused: Refusal | None
    # Items that others have given, for the next action.
    gifts: list[Item]
    # When its latest action began, or the action that gave it its latest gift; missing before the first one.
    since: NotRequired[datetime]
    # The latest turn of which the room has forgotten what it has given, because the character has it; missing if there
    # is none. A later turn keeps it.
    over: NotRequired[int]
    # True while the character goes to another room; missing otherwise.
    leaving: NotRequired[bool]
    # True if the character was refused entry: the entry only records that; missing otherwise.
    absent: NotRequired[bool]


_WithClass = TypedDict("_WithClass", {"class": str})


class Keeper(_WithClass):
    """A shopkeeper."""

    number: int
    name: str
    # What it can pay with, and what it came with.
    gold: int
    initial_gold: int
    items: list[Item]
    # The kinds of items that it buys.
    buys: list[str]
    # Percentages of an item's cost.
    asks: int
    pays: int
    # If it was imported: the id of its shop, and those of its wares.
    key: NotRequired[str]
    stocked: NotRequired[list[str]]


class LocationDocument(Versioned):
    """A room."""

    _id: ObjectId
    # The id in imported files, from which `_id` is derived; missing for other rooms.
    key: NotRequired[str]
    name: str
    description: str
    exits: list[Exit]
    # What lies on the floor, as a flat list; see `items`.
    items: list[Item]
    # The roster, one entry a character.
    characters: list[Entry]
    keepers: list[Keeper]
    # Grows with each change that players can see: name, description, exits, who is here, and the floor.
    version: int
    # Grows with every write of the room, except of `stale_since`. It guards optimistic updates.
    revision: int
    # Since when characters may have a copy of the room that is older than `version`; missing if none has.
    stale_since: NotRequired[datetime]
    # Since when a gift waits in the roster.
    gifts_since: NotRequired[datetime | None]
    # Since when the roster has an entry with `took` or `gold`.
    took_since: NotRequired[datetime | None]
    # Since when the roster has an entry with `leaving` or `absent`.
    leaving_since: NotRequired[datetime | None]
    # The place among the rooms where new characters start, from 0; missing if they cannot start here.
    start: NotRequired[int]
    # The part of the world, in imported files; missing for none.
    zone: NotRequired[str]
    # The ids, in imported files, of the objects that an import has put on the floor; see `world_imports`.
    stocked: NotRequired[list[str]]


LOCATIONS = CollectionSpec(
    "game.locations",
    document=LocationDocument,
    indexes=[
        IndexModel([("key", ASCENDING)], sparse=True),
        # The rooms where characters may be idle.
        IndexModel([("characters.since", ASCENDING)], sparse=True),
        IndexModel([("start", ASCENDING)], sparse=True),
        IndexModel([("stale_since", ASCENDING)], sparse=True),
        IndexModel([("gifts_since", ASCENDING)], partialFilterExpression={"gifts_since": {"$type": "date"}}),
        IndexModel([("took_since", ASCENDING)], partialFilterExpression={"took_since": {"$type": "date"}}),
        IndexModel([("leaving_since", ASCENDING)], partialFilterExpression={"leaving_since": {"$type": "date"}}),
    ],
    shard_key={"_id": "hashed"},
)

DIRECTIONS = ("N", "S", "E", "W", "UP", "DOWN")
# A room is written as a whole, and each character in it has a copy of what it shows.
MAX_CHARACTERS = 200
# Items on the floor, those inside others included.
MAX_ITEMS = 300
MAX_KEEPERS = 8
# Characters of the text that a room shows.
MAX_DESCRIPTION = 2_000
MAX_KEEPER_ITEMS = 150
# Gifts that wait for one character.
MAX_GIFTS = 20


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, Document]:
    query = {"_id": {"$in": list(ids)}}
    found = await db[LOCATIONS.name].find(query, projection, batch_size=len(ids) + 1).to_list()
    return {room["_id"]: room for room in found}


def keeper_key(room_id: ObjectId, number: int) -> str:
    """Returns the key of a shopkeeper, by which it is a character of the API."""
    return f"{room_id}.{number}"


def parse_keeper_key(text: str) -> tuple[ObjectId, int]:
    """Returns the room and the number of a shopkeeper. Raises ValueError for any other text."""
    room, separator, number = text.partition(".")
    if not (separator and ObjectId.is_valid(room) and number.isascii() and number.isdecimal()):
        raise ValueError(text)
    return ObjectId(room), int(number)


def present(room: Document) -> list[Document]:
    """Returns the entries of the characters that are shown in the room, in the order in which they came."""
    return [entry for entry in room["characters"] if not (entry.get("leaving") or entry.get("absent"))]


def copy_of(room: Document) -> Document:
    """Returns what a character in the room keeps of it: everything that players see."""
    keepers = [{"_id": keeper_key(room["_id"], one["number"]), "name": one["name"]} for one in room["keepers"]]
    return {
        "_id": room["_id"],
        "name": room["name"],
        "description": room["description"],
        "exits": room["exits"],
        "characters": [*keepers, *({"_id": entry["_id"], "name": entry["name"]} for entry in present(room))],
        "items": room["items"],
        "version": room["version"],
    }
