"""How players create their characters."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, NotFound
from portico.resolvers.game.refusals import LimitReached
from portico.resolvers.texts import MAX_AUTHOR, require_line, require_text
from portico.resolvers.writes.retries import attempts

from . import characters, presence, start_rooms
from .action_refusals import error_of
from .characters import CHARACTERS
from .room_turns import ENTER
from .rooms import Rooms, TurnOver
from .turns import NO_PROOF, finish

MAX_NAME = 80
# A deleted character counts for so long. Otherwise a player could get the starting gold again and again.
COUNTED_AFTER_DELETION = timedelta(days=1)
# What every new character has.
_BARE: Document = {
    "health": characters.HEALTH,
    "mana": characters.MANA,
    "items": [],
    "armor": {},
    "weapons": {},
    "applied": [],
    "schema_version": CHARACTERS.version,
}


async def spawn_character(db: Database, rooms: Rooms, *, owner: str, room: ObjectId, **new: Any) -> Document:
    """Creates a character of any player in any room, for an operator. Otherwise like `create_character`.

    Raises:   NotFound (the room), InvalidInput (the owner).
    """
    with InvalidInput.collect() as check:
        check(_require_owner, owner)
        check(_described, new["name"], new["character_class"], new["intrinsics"])
    if await rooms.glance(db, room, is_fresh=True) is None:
        raise NotFound("Location", str(room))
    return await create_character(db, rooms, owner=owner, room=room, **new)


def _require_owner(owner: str) -> None:
    if require_line(owner, "owner", longest=MAX_AUTHOR) != owner:
        raise InvalidInput(
            "The subject of a player has no surrounding blanks.", "owner", code=InvalidInput.WRONG_FORMAT
        )


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
    room: ObjectId | None = None,
) -> Document:
    """Creates a character in the start room with the fewest characters, or in a room that an operator chooses.

    Args:     owner: the subject of the player.
              intrinsics: strength, dexterity, intelligence and charisma, 3 to 18 each.
              gold: the gold pieces that it starts with.
              room: None for a start room.
    Returns:  the character.
    Raises:   InvalidInput, also if there is no start room; LimitReached (20 characters; all start rooms are full);
              NotFound (a repeated call after the character was deleted); Conflict.
    Writes:   game.characters; one insert, with the slot of a turn. Then the steps of a turn.
    """
    described = _described(name, character_class, intrinsics)
    new = {"owner": owner, "created_by": operation_id, "created_at": now, **described}
    new |= {"gold": gold, "initial_gold": gold}
    last_turn = 0
    async for _ in attempts(steps=2):
        character, checked = await _find_or_insert(db, rooms, new, room=room, after=last_turn)
        if character is not None:
            try:
                return character if _is_in_the_world(character) else await _enter(db, rooms, character, checked)
            except TurnOver:
                last_turn = character["turn"]
    raise Conflict("Other calls create characters for you. Try again.")


async def _find_or_insert(
    db: Database, rooms: Rooms, new: Document, *, room: ObjectId | None, after: int
) -> tuple[Document | None, int]:
    """Returns the character of this call, and since when its room need not be read again.

    The character is None if its number was taken in the meantime. Raises LimitReached.
    """
    mine = await db[CHARACTERS.name].find({"owner": new["owner"]}).to_list()
    found = next((one for one in mine if one.get("created_by") == new["created_by"]), None)
    if found is not None:
        return found, NO_PROOF
    checked = rooms.moment()
    return await _insert(db, _free_number(mine, new["created_at"]), new, room=room, after=after), checked


def _described(name: str, character_class: str, intrinsics: Mapping[str, int]) -> Document:
    """Returns what a player says about a new character. Raises InvalidInput."""
    with InvalidInput.collect() as check:
        return {
            "name": check(_one_line, name, "name"),
            "class": check(_one_line, character_class, "character_class"),
            "intrinsics": check(_require_intrinsics, intrinsics),
        }


def _is_in_the_world(character: Document) -> bool:
    """Returns whether the turn of a created character is over. Raises NotFound if the character was deleted."""
    if "deleted" in character:
        raise NotFound("Character", str(character["_id"]))
    return "action" not in character or "location" in character


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
    with InvalidInput.collect() as check:
        for name in characters.INTRINSICS:
            if not least <= given[name] <= most:
                text = f"`{name}` must be between {least} and {most}; got {given[name]}."
                check.refuse(
                    InvalidInput(text, "intrinsics", name, code=InvalidInput.OUT_OF_RANGE, least=least, most=most)
                )
    return {name: given[name] for name in characters.INTRINSICS}


def _free_number(mine: list[Document], now: datetime) -> int:
    """Returns the lowest free number of a player. Raises LimitReached.

    Numbers are never used again. A number must be below 20 plus the number of characters that were deleted long ago;
    these never become fewer. So, however many calls run at once, at most 20 numbers are those of other characters.
    """
    most = characters.MAX_CHARACTERS
    deleted = [one["deleted"]["at"] for one in mine if "deleted" in one]
    long_ago = sum(at <= now - COUNTED_AFTER_DELETION for at in deleted)
    taken = {one["number"] for one in mine}
    number = next((free for free in range(most + long_ago) if free not in taken), None)
    if number is None:
        recent = len(deleted) - long_ago
        counted = f" {recent} of them were deleted less than a day ago, and still count." if recent else ""
        raise LimitReached(f"A player has at most {most} characters.{counted}", most)
    return number


async def _insert(db: Database, number: int, new: Document, *, room: ObjectId | None, after: int) -> Document | None:
    """Inserts the character on its way into the world, with a first turn after this one.

    Returns:  the character; None if its number was taken in the meantime.
    """
    # The first turn follows the clock. A room may still have an entry of an earlier character with this key that was
    # not admitted, and a later turn replaces it. The clock of its process may have been ahead.
    key = character_id(new["owner"], number)
    starts = await _starts(db, key, room)
    turn = int(new["created_at"].timestamp() * 1_000_000) + random.randrange(1_000)  # noqa: S311 - keeps attempts apart
    turn = max(turn, after + 1, *(entry["turn"] + 1 for room in starts for entry in room.get("characters", ())))
    action = {
        "id": new["created_by"],
        "turn": turn,
        "kind": ENTER,
        "rooms": [room["_id"] for room in starts],
        "limit": presence.limit_of(new["intrinsics"]),
        "since": new["created_at"],
    }
    character = {"_id": key, **new, **_BARE, "number": number, "turn": turn, "action": action}
    try:
        await db[CHARACTERS.name].insert_one(character)
    except DuplicateKeyError:
        return None
    return character


async def _starts(db: Database, key: ObjectId, room: ObjectId | None) -> list[Document]:
    """Returns the rooms that the character tries, with its entry if they have one. Raises InvalidInput for no room."""
    found = await start_rooms.find(db, key, only=room)
    if not found:
        text = "There is no world yet, so a character cannot enter it. Import a world first."
        raise InvalidInput(text, code=InvalidInput.NOT_ALLOWED)
    return found


def character_id(owner: str, number: int) -> ObjectId:
    """Returns the `_id` of the player's character of this number."""
    return ObjectId(hashlib.blake2b(f"character/{number}/{owner}".encode(), digest_size=12).digest())
