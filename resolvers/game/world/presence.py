"""What happens to characters besides their actions: they rest, come back, are moved by an operator, and are deleted.

An idle character leaves the roster of its room, so that it takes no place there. It rests: `resting_since` is set, and
`location` stays the copy of its last room, as the room was then. So those that rest in a room cost those that act there
nothing, however many they are. Its next action first brings it back, by a turn of its own. It enters this room; if the
room is full, the start room with the fewest characters.

A deleted character leaves its things on the floor. What is left of its document only keeps its number, its turn and
its gold, so that the sums of gold stay right.
"""

from __future__ import annotations

from dataclasses import replace

from pymongo import ReturnDocument

from portico.resolvers.documents import Document
from portico.resolvers.writes.marks import random_operation_id

from . import characters, items, start_rooms
from .characters import CHARACTERS
from .room_turns import REMOVE, TIDY
from .rooms import TurnOver
from .turn_runs import Acting, TurnRun

# The turn by which a character that rests enters a room.
WAKE = "WAKE"
# What the document of a deleted character no longer has.
_FORGOTTEN = ("name", "class", "intrinsics", "health", "mana", "location", "resting_since", "relocated", "action")


def rests(character: Document) -> bool:
    """Returns whether the character has left the roster of its room because it was idle."""
    return character.get("resting_since") is not None


async def waking(acting: Acting, character: Document) -> tuple[Acting, Document, Document]:
    """Returns who takes the turn by which a character that rests enters a room, its facts, and its changes at once."""
    facts = {
        "limit": limit_of(character["intrinsics"]),
        "load": items.weight_of(character["items"]),
        "count": len(character["items"]),
        "rested_since": character["resting_since"],
    }
    awake = {"resting_since": None}
    if acting.to is not None:
        # An operator moves the character. That is the whole operation.
        return acting, {**facts, "rooms": [acting.to]}, awake | relocation(character, acting.operation_id)
    others = [room["_id"] for room in await start_rooms.find(acting.db, character["_id"])]
    rooms = list(dict.fromkeys((character["location"]["_id"], *others)))
    # The operation itself is still to come, so this turn must not mark it as applied.
    return replace(acting, operation_id=random_operation_id()), {**facts, "rooms": rooms}, awake


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


def with_older_copy(copy: Document) -> Document:
    """Returns a filter: the character has no copy of this room, or an older one."""
    return {"$or": [{"location._id": {"$ne": copy["_id"]}}, {"location.version": {"$lt": copy["version"]}}]}


async def sleep_on(run: TurnRun) -> Document:
    """Ends the turn of a character that no room admits: it still rests. Returns the character. Raises TurnOver."""
    return await _conclude(run, {"$set": {"resting_since": run.action["rested_since"]}, "$unset": {"action": ""}})


async def finish_exit(run: TurnRun) -> tuple[Document, Document | None]:
    """Finishes the turn by which a character leaves its room, to rest or for ever.

    Returns:  the character, and why the room refused it; None if it did not.
    Raises:   TurnOver.
    """
    room = await run.step(run.action["room"], run.action["kind"])
    entry = run.entry(room)
    if "leaving" in entry and room.get("stale_since") is not None:
        # Before the character rests, so that its own copy is the last one that it gets.
        await run.rooms.refresh(run.db, room["_id"], room["version"])
    after = await _conclude(run, _departure(run.action, entry))
    if "leaving" in entry:
        await run.step(room["_id"], TIDY)
    else:
        run.rooms.forget_turn(room["_id"], run.character, run.turn)
    return after, entry["refused"]


def _departure(action: Document, entry: Document) -> Document:
    """Returns the update that ends the turn: the character rests, is deleted, or stays with what it had."""
    if action["kind"] == REMOVE and "leaving" in entry:
        deleted = {"by": action["id"], "at": action["since"], "room": action["room"]}
        emptied: Document = {"deleted": deleted, "items": [], "armor": {}, "weapons": {}}
        return {"$set": emptied, "$unset": dict.fromkeys(_FORGOTTEN, "")}
    update: Document = {"$unset": {"action": ""}}
    if entry["took"]:
        update["$push"] = {"items": {"$each": entry["took"]}}
    if "leaving" in entry:
        update["$set"] = {"resting_since": action["since"]}
    return update


async def _conclude(run: TurnRun, update: Document) -> Document:
    """Frees the slot by this update. Returns the character. Raises TurnOver."""
    after: Document | None = await run.db[CHARACTERS.name].find_one_and_update(
        run.slot, update, return_document=ReturnDocument.AFTER
    )
    if after is None:
        raise TurnOver
    return after
