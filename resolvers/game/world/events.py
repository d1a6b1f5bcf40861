"""The changes of rooms that subscriptions deliver."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from bson import ObjectId

from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Document

from .locations import LOCATIONS

_VERSION = "updateDescription.updatedFields.version"


class RoomVersion(NamedTuple):
    """The key of an event: the room has this version, or a later one."""

    room: ObjectId
    version: int


def changes_of(room: ObjectId) -> Hashable:
    """Returns the topic of a room's changes. The key of an event is a `RoomVersion`."""
    return "room", room


def _changed(change: Document) -> Iterator[Event]:
    room = change["documentKey"]["_id"]
    version = change["updateDescription"]["updatedFields"]["version"]
    if isinstance(version, int):
        yield Event(changes_of(room), RoomVersion(room, version))


# Every write that players can see sets `version`. Other writes of rooms do not.
SOURCES: Sequence[ChangeSource] = (
    ChangeSource(
        frozenset({LOCATIONS.name}),
        {"operationType": "update", _VERSION: {"$exists": True}},
        ("documentKey", _VERSION),
        _changed,
    ),
)
