"""What happens to characters besides their actions: they rest, come back, are moved by an operator, and are deleted.

An idle character leaves the roster of its room, so that it takes no place there. It rests: `resting_since` is set, and
`location` stays the copy of its last room. Its next action first brings it back. It enters this room; if the room is
full, the start room with the fewest characters.

A deleted character leaves its things on the floor. What is left of its document only keeps its number, its turn and
its gold, so that the sums of gold stay right.
"""

from __future__ import annotations

from bson import ObjectId

from portico.resolvers.documents import Database, Document

from . import characters, items, start_rooms
from .room_turns import REMOVE

# What an update removes when a character begins to come back from its rest.
AWAKE = {"resting_since": ""}
# What the document of a deleted character no longer has.
_FORGOTTEN = ("name", "class", "intrinsics", "health", "mana", "location", "resting_since", "relocated", "action")


def rests(character: Document) -> bool:
    """Returns whether the character has left the roster of its room because it was idle."""
    return "resting_since" in character


async def waking(
    db: Database, character: Document, to: ObjectId | None, operation_id: str
) -> tuple[Document, Document]:
    """Returns the facts of the turn by which a character that rests enters a room, and what it changes at once.

    Args:     to: the room, if an operator moves the character.
    """
    load = items.weight_of(character["items"])
    own = {"limit": limit_of(character["intrinsics"]), "load": load, "count": len(character["items"])}
    own["rested_since"] = character["resting_since"]
    if to is not None:
        return {**own, "rooms": [to]}, relocation(character, operation_id)
    here = character["location"]["_id"]
    others = [room["_id"] for room in await start_rooms.find(db, character["_id"])]
    return {**own, "rooms": list(dict.fromkeys((here, *others)))}, {}


def relocation(character: Document, operation_id: str) -> Document:
    """Returns the change that notes from where an operator moves the character."""
    return {"relocated": {"by": operation_id, "room": character["location"]["_id"]}}


def limit_of(intrinsics: Document) -> int:
    """Returns the hundredths of a pound that a character can carry."""
    limit: int = characters.POUNDS_BY_STRENGTH * intrinsics["strength"] * items.POUND
    return limit


def carried(action: Document) -> Document:
    """Returns what the entry of a character that enters says about what it carries."""
    return {name: action[name] for name in ("limit", "load", "count") if name in action}


def asleep(action: Document) -> Document:
    """Returns the update that ends the turn of a character that no room admits: it still rests."""
    return {"$set": {"resting_since": action["rested_since"]}, "$unset": {"action": ""}}


def departure(action: Document, entry: Document) -> Document:
    """Returns the update that ends the turn of a character that has left its room, to rest or for ever."""
    if action["kind"] == REMOVE:
        deleted = {"by": action["id"], "at": action["since"], "room": action["room"]}
        emptied: Document = {"deleted": deleted, "items": [], "armor": {}, "weapons": {}}
        return {"$set": emptied, "$unset": dict.fromkeys(_FORGOTTEN, "")}
    update: Document = {"$set": {"resting_since": action["since"]}, "$unset": {"action": ""}}
    return {**update, "$push": {"items": {"$each": entry["took"]}}} if entry["took"] else update
