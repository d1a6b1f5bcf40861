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

# What `_as_character` reads of a shopkeeper besides its wares.
_WITHOUT_ITEMS = tuple(f"keepers.{name}" for name in ("number", "name", "class", "gold", "asks"))


async def find_by_keys(db: Database, keys: Sequence[str], projection: Projection | None = None) -> dict[str, Document]:
    """Returns the shopkeepers with these keys, as documents like those of `game.characters`, by key. One command.

    Each has `keeper`, true, instead of an owner, no `location` if the projection has none, and no items if it has none
    of these. The keys are as `locations.keeper_key` returns them.
    """
    rooms = {locations.parse_keeper_key(key)[0] for key in keys}
    wanted = None if projection is None else {path.partition(".")[0] for path in projection}
    shows_room = wanted is None or "location" in wanted
    # Most of a room are the wares of its shopkeepers.
    shown = ("keepers",) if wanted is None or "items" in wanted else _WITHOUT_ITEMS
    paths = dict.fromkeys((*shown, *(_COPIED if shows_room else ())), 1)
    found = await locations.find_by_ids(db, list(rooms), paths)
    there: dict[str, Document] = {}
    for room in found.values():
        for keeper in room["keepers"]:
            document = _as_character(room["_id"], keeper)
            there[document["_id"]] = {**document, "location": locations.copy_of(room)} if shows_room else document
    return {key: there[key] for key in keys if key in there}


def _as_character(room_id: ObjectId, keeper: Document) -> Document:
    wares = keeper.get("items", ())
    return {
        "_id": locations.keeper_key(room_id, keeper["number"]),
        "keeper": True,
        "name": keeper["name"],
        "class": keeper["class"],
        "intrinsics": dict.fromkeys(INTRINSICS, _INTRINSIC),
        "health": HEALTH,
        "mana": MANA,
        "gold": keeper["gold"],
        "items": [{**item, "price": items.price_of(item["cost"], keeper["asks"])} for item in wares],
        "armor": {},
        "weapons": {},
    }
