"""Shopkeepers as characters. A shopkeeper is stored in the document of its room, and has no document of its own."""

from __future__ import annotations

from collections.abc import Sequence

from bson import ObjectId

from portico.resolvers.documents import Database, Document, Projection

from . import items, locations
from .characters import HEALTH, INTRINSICS, MANA

# What a shopkeeper does not have of its own. No action depends on it.
_INTRINSIC = 10
# What `locations.copy_of` reads.
_COPIED = (
    "name",
    "description",
    "exits",
    "items",
    "version",
    "characters._id",
    "characters.name",
    "characters.leaving",
    "characters.absent",
)


async def find_by_keys(db: Database, keys: Sequence[str], projection: Projection | None = None) -> dict[str, Document]:
    """Returns the shopkeepers with these keys, as documents like those of `game.characters`, by key. One command.

    Each has `keeper`, true, instead of an owner, and no `location` if the projection has none. The keys are as
    `locations.keeper_key` returns them.
    """
    rooms = {locations.parse_keeper_key(key)[0] for key in keys}
    shows_room = projection is None or any(path.partition(".")[0] == "location" for path in projection)
    paths = dict.fromkeys(("keepers", *(_COPIED if shows_room else ())), 1)
    found = await locations.find_by_ids(db, list(rooms), paths)
    there: dict[str, Document] = {}
    for room in found.values():
        for keeper in room["keepers"]:
            document = _as_character(room["_id"], keeper)
            there[document["_id"]] = {**document, "location": locations.copy_of(room)} if shows_room else document
    return {key: there[key] for key in keys if key in there}


def _as_character(room_id: ObjectId, keeper: Document) -> Document:
    return {
        "_id": locations.keeper_key(room_id, keeper["number"]),
        "keeper": True,
        "name": keeper["name"],
        "class": keeper["class"],
        "intrinsics": dict.fromkeys(INTRINSICS, _INTRINSIC),
        "health": HEALTH,
        "mana": MANA,
        "gold": keeper["gold"],
        "items": [{**item, "price": items.price_of(item["cost"], keeper["asks"])} for item in keeper["items"]],
        "armor": {},
        "weapons": {},
    }
