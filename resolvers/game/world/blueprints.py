"""Blueprints: what an import has described. Items are made from them. The collection and its reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.errors import Conflict, InvalidInput
from portico.resolvers.writes.marks import derived_id

from .items import MAX_DEPTH


class BlueprintDocument(Versioned):
    """A blueprint. Its `_id` is `object:<id>` or `shop:<id>`, with the id in the file."""

    _id: str
    # The `_id` of the room where the object lies, or where the shop is. Once set, it never changes, so that no import
    # puts a thing into a second place.
    place: NotRequired[ObjectId]
    # Of an object: the part of the world that it belongs to.
    zone: NotRequired[str | None]
    # Of an object: the ids of the objects inside, and how many levels it has with them.
    contents: NotRequired[list[str]]
    height: NotRequired[int]
    # Of an object, as in `items`.
    name: NotRequired[str]
    description: NotRequired[str]
    quantity: NotRequired[int]
    bonus: NotRequired[int | None]
    weight: NotRequired[int]
    cost: NotRequired[int | None]
    kind: NotRequired[str]
    regions: NotRequired[list[str]]
    hands: NotRequired[int | None]
    capacity: NotRequired[int | None]


BLUEPRINTS = CollectionSpec(
    "game.blueprints",
    document=BlueprintDocument,
    indexes=[IndexModel([("zone", ASCENDING)], sparse=True), IndexModel([("place", ASCENDING)], sparse=True)],
    shard_key={"_id": "hashed"},
)
OBJECT, SHOP = "object", "shop"
_ITEM_FIELDS = ("name", "description", "quantity", "bonus", "weight", "cost", "kind", "regions", "hands", "capacity")


def key_of(kind: str, external_id: str) -> str:
    return f"{kind}:{external_id}"


def id_of(blueprint: Mapping[str, Any]) -> str:
    """Returns the id of the object or the shop in the file."""
    return str(blueprint["_id"]).partition(":")[2]


async def find_objects(db: Database, ids: Iterable[str]) -> dict[str, Document]:
    """Returns the blueprints of these objects by their ids in the file. Leaves out those that do not exist."""
    keys = [key_of(OBJECT, one) for one in dict.fromkeys(ids)]
    if not keys:
        return {}
    found = await db[BLUEPRINTS.name].find({"_id": {"$in": keys}}).to_list()
    return {id_of(one): one for one in found}


async def find_with_contents(db: Database, ids: Iterable[str]) -> dict[str, Document]:
    """Returns the blueprints of these objects and of all objects inside. One command for each level."""
    found: dict[str, Document] = {}
    level = list(ids)
    while level:
        found |= await find_objects(db, level)
        level = [one for outer in level if outer in found for one in found[outer]["contents"] if one not in found]
    return found


async def settle(db: Database, key: str, room: ObjectId) -> ObjectId:
    """Decides in which room a thing is, unless that is decided already. Returns the room.

    Writes:   game.blueprints; one guarded upsert.
    """
    without_place = {"_id": key, "place": {"$exists": False}}
    # A duplicate key means that it has a place.
    with contextlib.suppress(DuplicateKeyError):
        await db[BLUEPRINTS.name].update_one(without_place, {"$set": {"place": room}}, upsert=True)
    found = await db[BLUEPRINTS.name].find_one({"_id": key}, {"place": 1})
    if found is None or "place" not in found:
        raise Conflict("Another import is describing the same thing.")
    place: ObjectId = found["place"]
    return place


def items_of(blueprints: Mapping[str, Document], object_id: str, origin: str) -> list[Document]:
    """Makes an item with everything inside, as a flat list, the item first. The same origin gives the same items.

    Raises:   InvalidInput if it is nested too deeply.
    """
    made: list[Document] = []

    def make(one: str, path: str, inside: ObjectId | None, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise InvalidInput(f"The object {object_id!r} is nested more than {MAX_DEPTH} deep.", "contents")
        blueprint = blueprints[one]
        _id = _item_id(origin, path)
        made.append({"_id": _id, **{name: blueprint[name] for name in _ITEM_FIELDS}, "inside": inside})
        for number, content in enumerate(blueprint["contents"]):
            make(content, f"{path}/{number}.{content}", _id, depth + 1)

    make(object_id, object_id, None, 1)
    return made


def made_in(room: Document) -> Iterator[tuple[str, ObjectId]]:
    """Yields what imports have made in a room: the id of each object in the file, and the `_id` of its item.

    Leaves out what was inside the objects, and all but the first copy of a ware, because the room does not list them.
    """
    for one in room.get("stocked", ()):
        yield one, _item_id(str(room["_id"]), one)
    for keeper in room["keepers"]:
        for one in keeper.get("stocked", ()):
            yield one, _item_id(ware_origin(keeper["key"], 0), one)


def ware_origin(shop: str, copy: int) -> str:
    """Returns the origin of the wares of a shop; see `items_of`. All copies of a ware have different ones."""
    return f"{SHOP}.{shop}.{copy}"


def _item_id(origin: str, path: str) -> ObjectId:
    return derived_id(f"world.{origin}", path)


def height_of(contents: Sequence[Document]) -> int:
    """Returns how many levels an object with these contents has."""
    return 1 + max((one["height"] for one in contents), default=0)
