"""One attempt to carry out steps 2 and 3 of a turn; see `turns`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument

from portico.resolvers.documents import Database, Document

from . import presence, room_turns
from .characters import CHARACTERS
from .combining import Rooms, TurnOver
from .room_turns import ENTER, REST, STAY

# A turn of two rooms, and the turn of a character that rests, which enters a room. All other kinds are those of
# `room_turns`.
MOVE, WAKE = "MOVE", "WAKE"
# A repeated call takes these turns again, because they change nothing that its operation is about.
_UNMARKED = (ENTER, STAY, REST, WAKE)
# What a slot has besides the facts of the step.
_SLOT = ("id", "turn", "kind", "room", "since", "looks")


@dataclass(frozen=True)
class Run:
    """One attempt to finish a turn."""

    db: Database
    rooms: Rooms
    character: ObjectId
    action: Document
    checked: int

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
        step = {
            **given,
            **facts,
            "kind": kind,
            "character": self.character,
            "turn": self.turn,
            "at": self.action["since"],
        }
        return await self.rooms.take_step(self.db, room_id, step, self._still_ours, self.checked)

    def entry(self, room: Document) -> Document:
        """Returns the character's entry with the outcome of the turn. Raises TurnOver if it has a later one."""
        entry = room_turns.entry_of(room, self.character)
        if entry is None or entry["turn"] != self.turn:
            raise TurnOver
        return entry

    async def end(self, entry: Document, refused: Document | None, **changes: Any) -> Document:
        """Gives the character what the entry says, and frees the slot. Returns the character. Raises TurnOver."""
        update: Document = {"$unset": {"action": ""}}
        if changes:
            update["$set"] = changes
        if entry["gold"]:
            update["$inc"] = {"gold": entry["gold"]}
        pushed: Document = {"items": {"$each": entry["took"]}} if entry["took"] else {}
        if refused is None and (self.action["kind"] not in _UNMARKED or presence.relocation(self.action)):
            pushed["applied"] = self.action["id"]
        if refused is None and self.action["kind"] == WAKE:
            update["$unset"] |= presence.AWAKE
        if pushed:
            update["$push"] = pushed
        after = await changed(self.db, self.slot, update)
        if after is None:
            raise TurnOver
        return after

    async def bury(self) -> Document:
        """Empties the document of a deleted character, and frees the slot. Returns it. Raises TurnOver."""
        after = await changed(self.db, self.slot, presence.burial(self.action))
        if after is None:
            raise TurnOver
        return after

    async def refreshed(self, after: Document, room: Document) -> Document:
        """Refreshes the copies of the room if they are older. Returns the character with its copy."""
        if room.get("stale_since") is None:
            return after
        copy = await self.rooms.refresh(self.db, room["_id"], room["version"])
        is_newer = after["location"]["_id"] == copy["_id"] and after["location"]["version"] < copy["version"]
        return {**after, "location": copy} if is_newer else after

    async def _still_ours(self) -> bool:
        """Returns whether the turn is under way. It writes, because a former primary could answer a read."""
        looked = await self.db[CHARACTERS.name].update_one(self.slot, {"$inc": {"action.looks": 1}})
        return bool(looked.matched_count)


async def changed(db: Database, guard: Document, update: Document) -> Document | None:
    after: Document | None = await db[CHARACTERS.name].find_one_and_update(
        guard, update, return_document=ReturnDocument.AFTER
    )
    return after
