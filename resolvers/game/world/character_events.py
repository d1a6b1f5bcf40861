"""The changes of characters that subscriptions deliver.

A turn takes the slot `action` of its character, and frees it at its end. What the player sees changes at the end, or at
once if no room decides; and with the copy of the room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from bson import ObjectId

from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Document

from .characters import CHARACTERS

_UPDATED = "updateDescription.updatedFields"
_REMOVED = "updateDescription.removedFields"
# The places of the version of the room and of the turn in the order of states.
_VERSIONS, _TURNS = 1, 41


def is_players(key: Any) -> TypeGuard[ObjectId]:
    """Returns whether the key of a character is that of a player's. Shopkeepers have numbers."""
    return isinstance(key, ObjectId)


def changes_of(character: ObjectId) -> tuple[str, ObjectId]:
    """Returns the topic of a character. The key of an event is its `_id`."""
    return "character", character


def order_of(character: Mapping[str, Any]) -> int | None:
    """Returns the place of a state: by the turn, then by the version of the room, and the end of a turn last."""
    turn, version = character.get("turn"), (character.get("location") or {}).get("version")
    if not isinstance(turn, int) or not isinstance(version, int):
        return None
    return (turn << _TURNS) + (version << _VERSIONS) + ("action" not in character)


def _changed(change: Document) -> Iterator[Event]:
    key = change["documentKey"]["_id"]
    yield Event(changes_of(key), key)


CHANGED = ChangeSource(
    frozenset({CHARACTERS.name}),
    {
        "operationType": "update",
        "$or": [
            {_REMOVED: "action"},
            {f"{_UPDATED}.turn": {"$exists": True}, f"{_UPDATED}.action": {"$exists": False}},
            {f"{_UPDATED}.location": {"$exists": True}},
        ],
    },
    ("documentKey",),
    _changed,
)
