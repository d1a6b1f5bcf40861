"""What operators do with characters, and players with their own: moving them anywhere, and deleting them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bson import ObjectId

from portico.resolvers.documents import Document
from portico.resolvers.errors import NotFound

from . import presence
from .characters import CHARACTERS
from .room_actions import require_place
from .room_turns import REMOVE, STAY
from .turn_runs import MOVE, Acting
from .turns import Plan, act


@dataclass(frozen=True)
class Moved:
    """A character that an operator has moved, and the `_id`s of the rooms.

    `source` is None for a repeated call after another operator has moved the character again.
    """

    character: Document
    source: ObjectId | None
    to: ObjectId


async def move_character(acting: Acting, *, to: ObjectId) -> Moved:
    """Moves a character to any room, whether an exit leads there or not. One that rests comes back there.

    Raises:   NotFound (the character or the room), LimitReached (the room is full), Conflict.
    Writes:   game.characters and game.locations; a turn.
    """
    if await acting.rooms.glance(acting.db, to, is_fresh=True) is None:
        raise NotFound("Location", str(to))
    was_there = False

    async def plan(character: Document) -> Plan:
        nonlocal was_there
        was_there = character["location"]["_id"] == to
        if was_there:
            return Plan(STAY)
        await require_place(acting, to)
        return Plan(MOVE, {"to": to}, changes=presence.relocation(character, acting.operation_id))

    moved = await act(replace(acting, to=to), plan)
    noted = moved.get("relocated", {})
    if noted.get("by") == acting.operation_id:
        return Moved(moved, noted["room"], to)
    return Moved(moved, to if was_there else None, to)


async def delete_character(acting: Acting) -> Document:
    """Deletes a character. All that it has falls to the floor of its room; its gold leaves the world with it.

    Returns:  the deleted character, which keeps `deleted`: {by, at, room}.
    Raises:   NotFound, LimitReached (the floor has no place for its things), Conflict.
    Writes:   game.characters and game.locations; a turn.
    """

    async def plan(character: Document) -> Plan:
        return Plan(REMOVE, handed=character["items"])

    try:
        return await act(acting, plan)
    except NotFound:
        # A repeated call.
        left = await acting.db[CHARACTERS.name].find_one({"_id": acting.character})
        if left is None or left.get("deleted", {}).get("by") != acting.operation_id:
            raise
        return left
