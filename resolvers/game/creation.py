"""How players create their characters."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from datetime import datetime

from bson import ObjectId
from pymongo import ASCENDING
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import SCHEMA_VERSION, Database, Document
from portico.resolvers.errors import Conflict, InvalidInput
from portico.resolvers.text import require_text
from portico.resolvers.writes.retries import attempts

from . import characters, items
from .characters import CHARACTERS
from .combining import Rooms, TurnOver
from .locations import LOCATIONS
from .refusals import LimitReached, error_of
from .room_turns import ENTER
from .turns import NO_PROOF, finish

MAX_NAME = 80
# Start rooms that a new character tries.
_MOST_STARTS = 20
# What every new character has.
_BARE: Document = {
    "health": characters.HEALTH,
    "mana": characters.MANA,
    "items": [],
    "armor": {},
    "weapons": {},
    "applied": [],
    SCHEMA_VERSION: CHARACTERS.version,
}


async def create_character(
    db: Database,
    rooms: Rooms,
    *,
    owner: str,
    name: str,
    character_class: str,
    intrinsics: Mapping[str, int],
    gold: int,
    now: datetime,
    operation_id: str,
) -> Document:
    """Creates a character in the first start room that is not full.

    Args:     intrinsics: strength, dexterity, intelligence and charisma, 3 to 18 each.
              gold: the gold pieces that it starts with.
    Returns:  the character.
    Raises:   InvalidInput, also if there is no start room; LimitReached (20 characters; all start rooms are full);
              Conflict.
    Writes:   game.characters; one insert, with the slot of a turn. Then the steps of a turn.
    """
    new = {
        "owner": owner,
        "created_by": operation_id,
        "name": _one_line(name, "name"),
        "class": _one_line(character_class, "character_class"),
        "intrinsics": _require_intrinsics(intrinsics),
        "gold": gold,
        "initial_gold": gold,
        "created_at": now,
    }
    last_turn = 0
    async for _ in attempts(steps=2):
        checked = NO_PROOF
        mine = await db[CHARACTERS.name].find({"owner": owner}).to_list()
        character = next((one for one in mine if one.get("created_by") == operation_id), None)
        if character is None:
            checked = rooms.moment()
            character = await _insert(db, {one["number"] for one in mine}, new, after=last_turn)
        elif "action" not in character or "location" in character:
            return character
        if character is not None:
            try:
                return await _enter(db, rooms, character, checked)
            except TurnOver:
                last_turn = character["turn"]
    raise Conflict("Other calls create characters for you. Try again.")


async def _enter(db: Database, rooms: Rooms, character: Document, checked: int) -> Document:
    """Finishes the turn by which the character enters the world. Raises TurnOver, LimitReached (all rooms are full)."""
    ended = await finish(db, rooms, character, checked=checked)
    if ended.character is not None:
        return ended.character
    assert ended.refused is not None
    raise error_of(ended.refused)


def _one_line(text: str, *path: str) -> str:
    return " ".join(require_text(text, *path, longest=MAX_NAME).split())


def _require_intrinsics(given: Mapping[str, int]) -> Document:
    least, most = characters.LOWEST_INTRINSIC, characters.HIGHEST_INTRINSIC
    for name in characters.INTRINSICS:
        if not least <= given[name] <= most:
            raise InvalidInput(f"`{name}` must be between {least} and {most}; got {given[name]}.", "intrinsics", name)
    return {name: given[name] for name in characters.INTRINSICS}


async def _insert(db: Database, taken: set[int], new: Document, *, after: int) -> Document | None:
    """Inserts the character on its way into the world, with a first turn after this one.

    Returns:  the character; None if its number was taken in the meantime.
    """
    number = next((free for free in range(characters.MAX_CHARACTERS) if free not in taken), None)
    if number is None:
        most = characters.MAX_CHARACTERS
        raise LimitReached(f"You already have {most} characters.", most)
    # The first turn follows the clock. A room may still have an entry of an earlier character with this key that was
    # not admitted, and a later turn replaces it. The clock of its process may have been ahead.
    key = character_id(new["owner"], number)
    starts = await _starts(db, key)
    turn = int(new["created_at"].timestamp() * 1_000_000) + random.randrange(1_000)  # noqa: S311 - keeps attempts apart
    turn = max(turn, after + 1, *(entry["turn"] + 1 for room in starts for entry in room.get("characters", ())))
    limit = characters.POUNDS_BY_STRENGTH * new["intrinsics"]["strength"] * items.POUND
    action = {
        "id": new["created_by"],
        "turn": turn,
        "kind": ENTER,
        "rooms": [room["_id"] for room in starts],
        "limit": limit,
        "since": new["created_at"],
    }
    character = {"_id": key, **new, **_BARE, "number": number, "turn": turn, "action": action}
    try:
        await db[CHARACTERS.name].insert_one(character)
    except DuplicateKeyError:
        return None
    return character


async def _starts(db: Database, key: ObjectId) -> list[Document]:
    """Returns the start rooms, in order, with the entry of this character. Raises InvalidInput if there is none."""
    query = {"start": {"$exists": True}}
    wanted = {"_id": 1, "characters": {"$elemMatch": {"_id": key}}}
    found = await db[LOCATIONS.name].find(query, wanted, sort=[("start", ASCENDING)]).limit(_MOST_STARTS).to_list()
    if not found:
        raise InvalidInput("There is no world yet, so a character cannot enter it. Import a world first.")
    return found


def character_id(owner: str, number: int) -> ObjectId:
    """Returns the `_id` of the player's character of this number."""
    return ObjectId(hashlib.blake2b(f"character/{number}/{owner}".encode(), digest_size=12).digest())
