"""Rooms, items and characters for tests, stored as the game stores them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world import locations
from portico.resolvers.game.world.characters import CHARACTERS, HEALTH, MANA
from portico.resolvers.game.world.locations import LOCATIONS
from portico.schema.kinds import Kind

_NOW = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def item(name: str, **fields: Any) -> Document:
    """An item that weighs a pound and costs 10 gold pieces."""
    return {
        "_id": ObjectId(),
        "name": name,
        "description": name,
        "quantity": 1,
        "bonus": None,
        "weight": 100,
        "cost": 10,
        "kind": "OTHER",
        "regions": [],
        "hands": None,
        "capacity": None,
        "inside": None,
        **fields,
    }


def keeper(name: str, *items: Document, **fields: Any) -> Document:
    """A shopkeeper that asks twice the cost, and pays half."""
    return {
        "number": 0,
        "name": name,
        "class": "shopkeeper",
        "gold": 1_000,
        "initial_gold": 1_000,
        "items": list(items),
        "buys": ["WEAPON"],
        "asks": 200,
        "pays": 50,
        **fields,
    }


def room(name: str, **fields: Any) -> Document:
    """A room without anything in it."""
    return {
        "_id": ObjectId(),
        "name": name,
        "description": f"This is the {name}.",
        "exits": [],
        "items": [],
        "characters": [],
        "keepers": [],
        "version": 1,
        "revision": 1,
        **fields,
    }


async def add_room(db: Database, name: str, **fields: Any) -> Document:
    made = room(name, **fields)
    await db[LOCATIONS.name].insert_one(made)
    return made


async def change_room(db: Database, room: Document, change: Document, *, of: Document | None = None) -> None:
    """Changes a stored room, or the entry of a character in it, so that processes that remember it read it again."""
    query = {"_id": room["_id"], **({} if of is None else {"characters._id": of["_id"]})}
    counted = {**change.get("$inc", {}), "revision": 1}
    updated = await db[LOCATIONS.name].update_one(query, {**change, "$inc": counted})
    assert updated.matched_count == 1


async def add_character(db: Database, owner: str, room: Document, **fields: Any) -> Document:
    """Stores a character of the player in the room, and puts it into the roster, which counts what it carries."""
    _id = ObjectId()
    name = fields.get("name", owner.capitalize())
    items = fields.get("items", [])
    load = sum(one.get("weight", 0) for one in items)
    entry = {"_id": _id, "name": name, "turn": 1, "limit": 15_000, "load": load, "count": len(items)}
    entry |= {"took": [], "gold": 0, "refused": None, "gifts": []}
    now: Document | None = await db[LOCATIONS.name].find_one_and_update(
        {"_id": room["_id"]},
        {"$push": {"characters": entry}, "$inc": {"version": 1, "revision": 1}},
        return_document=True,
    )
    assert now is not None
    character = {
        "_id": _id,
        "owner": owner,
        "number": await db[CHARACTERS.name].count_documents({"owner": owner}),
        "name": name,
        "class": "wizard",
        "intrinsics": {"strength": 10, "dexterity": 11, "intelligence": 12, "charisma": 13},
        "health": HEALTH,
        "mana": MANA,
        "gold": 100,
        "initial_gold": 100,
        "items": [],
        "armor": {},
        "weapons": {},
        "location": locations.copy_of(now),
        "turn": 1,
        "applied": [],
        "created_at": _NOW,
        **fields,
    }
    await db[CHARACTERS.name].insert_one(character)
    copies = {"location._id": room["_id"], "location.version": {"$lt": now["version"]}}
    await db[CHARACTERS.name].update_many(copies, {"$set": {"location": locations.copy_of(now)}})
    return character


def monks(**fields: Any) -> list[Document]:
    """Returns as many entries as fit into a roster."""
    empty: Document = {"took": [], "gold": 0, "refused": None, "gifts": [], "limit": 0, "load": 0, "count": 0, **fields}
    size = locations.MAX_CHARACTERS
    return [{"_id": ObjectId(), "name": f"Monk {number}", "turn": 1, **empty} for number in range(size)]


def character_id(character: Document) -> str:
    return Kind.encode_id("Character", character["_id"])


def keeper_id(room: Document, number: int = 0) -> str:
    return Kind.encode_id("Character", locations.keeper_key(room["_id"], number))


def room_id(room: Document) -> str:
    return Kind.encode_id("Location", room["_id"])


def item_ids(items: Sequence[Document]) -> list[str]:
    return [Kind.encode_id("Item", one["_id"]) for one in items]
