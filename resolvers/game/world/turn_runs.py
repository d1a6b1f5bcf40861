"""A caller that takes a turn, and an attempt of a process to carry out the steps of a turn. See `turns`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.waiting_once import Notes

from . import room_turns
from .characters import CHARACTERS
from .locations import copy_of
from .room_turns import ENTER, STAY, TIDY
from .rooms import Rooms, TurnOver
from .turn_ends import Ending

# A turn of two rooms. All other kinds are those of `room_turns`.
MOVE = "MOVE"
# What a slot has besides the facts of the step.
_SLOT = ("id", "turn", "kind", "room", "since", "looks", "gift")


@dataclass(frozen=True)
class Acting:
    """A character that acts, and the operation. `owner` is None for what happens to any character, such as a gift."""

    db: Database
    rooms: Rooms
    character: ObjectId
    owner: str | None
    now: datetime
    operation_id: str
    to: ObjectId | None = None  # the room that it enters if it rests; None for its own or a start room


@dataclass(frozen=True)
class TurnRun:
    """One attempt to finish a turn."""

    db: Database
    rooms: Rooms
    character: ObjectId
    action: Document
    checked: int
    # Of the character's copy of its room. It may have a later one by now.
    version: int
    # Of the slot, if it waits for the primary alone.
    notes: Notes | None = None

    @property
    def turn(self) -> int:
        turn: int = self.action["turn"]
        return turn

    @property
    def slot(self) -> Document:
        """The guard of everything that needs the slot."""
        return {"_id": self.character, "action.id": self.action["id"], "action.turn": self.turn}

    async def step(self, room_id: ObjectId, kind: str, **facts: Any) -> Document:
        """Lets the room decide. Returns the room."""
        given = {name: value for name, value in self.action.items() if name not in _SLOT}
        step = {**given, **facts, **self._fence(kind)}
        return await self.rooms.take_step(self.db, room_id, step, self._still_ours, self.checked, self.notes)

    async def tidy(self, room_id: ObjectId, *, is_awaited: bool) -> None:
        """Lets the room drop the entry that the turn has left over. If it is not awaited, a moment later."""
        if is_awaited:
            await self.step(room_id, TIDY)
        else:
            await self.rooms.follow_up(self.db, room_id, self._fence(TIDY))

    def _fence(self, kind: str) -> Document:
        return {"kind": kind, "character": self.character, "turn": self.turn, "at": self.action["since"]}

    def entry(self, room: Document) -> Document:
        """Returns the character's entry with the outcome of the turn.

        Raises:   TurnOver (it has that of a later one, or has forgotten what this one has given, which the character
                  has by then).
        """
        entry = room_turns.entry_of(room, self.character)
        if entry is None or entry["turn"] != self.turn or entry.get("over") == self.turn:
            raise TurnOver
        return entry

    async def end(self, entry: Document, refused: Document | None, room: Document) -> Document:
        """Gives the character what the entry says, and frees the slot. Returns the character. Raises TurnOver.

        Args:     room: where the character is now. It gets a copy of it, unless it has that one or a later one.
        """
        after = await end_now(self.ending(entry, refused, room))
        if after is None:
            raise TurnOver
        return after

    def ending(self, entry: Document, refused: Document | None, room: Document) -> Ending:
        """Returns the last step of the turn. See `end`."""
        changes: Document = {}
        if entry["gold"]:
            changes["gold"] = {"$add": [{"$ifNull": ["$gold", 0]}, entry["gold"]]}
        if entry["took"]:
            changes["items"] = _appended("items", entry["took"])
        if refused is None and self.action["kind"] not in (ENTER, STAY):
            changes["applied"] = _appended("applied", [self.action["id"]])
        if self.action["kind"] == MOVE or self.version < room["version"]:
            copy = {"$literal": copy_of(room)}
            is_newer = {"$gte": ["$location.version", room["version"]]}
            has_it = {"$and": [{"$eq": ["$location._id", room["_id"]]}, is_newer]}
            changes["location"] = {"$cond": [has_it, "$location", copy]}
        return Ending(
            db=self.db,
            character=self.character,
            turn=self.turn,
            slot=self.slot,
            changes=changes,
            forget=lambda: self.rooms.forget_turn(room["_id"], self.character, self.turn),
        )

    def ended(self, character: Document, entry: Document, room: Document) -> Document:
        """Returns the character, with its slot before, as the last step of the turn leaves it in its room."""
        after = {**character}
        del after["action"]
        after["items"] = [*character.get("items", ()), *entry["took"]]
        after["gold"] = character.get("gold", 0) + entry["gold"]
        after["location"] = copy_of(room)
        if entry["refused"] is None:
            after["applied"] = [*character.get("applied", ()), self.action["id"]]
        return after

    async def refreshed(self, room: Document) -> Document:
        """Refreshes the copies of the room if they are older. Returns the room, maybe as it is now."""
        is_stale = room.get("stale_since") is not None
        return await self.rooms.refresh(self.db, room["_id"], room["version"]) if is_stale else room

    def with_copy(self, after: Document, room: Document) -> Document:
        """Returns the character with a copy of the room as it is now; as it was if it has acted again since."""
        entry = room_turns.entry_of(room, self.character)
        is_same = after["location"]["_id"] == room["_id"] and entry is not None and entry["turn"] == self.turn
        if not is_same or after["location"]["version"] >= room["version"]:
            return after
        return {**after, "location": copy_of(room)}

    async def _still_ours(self) -> bool:
        """Returns whether the turn is under way. It writes, because a former primary could answer a read."""
        looked = await self.db[CHARACTERS.name].update_one(self.slot, {"$inc": {"action.looks": 1}})
        return bool(looked.matched_count)


def _appended(path: str, added: Sequence[Any]) -> Document:
    """Returns the list at the path with these values, as an expression."""
    return {"$concatArrays": [{"$ifNull": [f"${path}", []]}, {"$literal": list(added)}]}


async def end_now(ending: Ending) -> Document | None:
    """Sends the last step of a turn. Returns the character after it; None if the turn is over."""
    return await change_character(ending.db, ending.slot, ending.update)


async def change_character(db: Database, guard: Document, update: Document | list[Document]) -> Document | None:
    """Returns the character after a guarded update; None if the guard does not match."""
    return await db[CHARACTERS.name].find_one_and_update(guard, update, return_document=ReturnDocument.AFTER)
