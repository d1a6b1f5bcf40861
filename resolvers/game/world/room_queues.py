"""Who waits for a room in a process, and what the process knows about the room. See `rooms`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bson import ObjectId

from portico.resolvers.documents import Document
from portico.resolvers.writes.combining import Waiting
from portico.resolvers.writes.waiting_once import Notes

StillOurs = Callable[[], Awaitable[bool]]


async def no_turn() -> bool:
    """What a step answers that belongs to no turn under way."""
    return False


@dataclass(eq=False, kw_only=True)
class WaitingStep(Waiting[Document]):
    """A step in the queue.

    Args:     checked: a moment before a proof that the turn was under way; see `rooms`.
              notes: of the slot, if it waits for the primary alone.
    """

    step: Document
    still_ours: StillOurs
    checked: int
    notes: Notes = field(default_factory=Notes)
    looks: int = 0

    @property
    def has_failed(self) -> bool:
        """Whether the step has an error. The step of a cancelled caller has none."""
        return self.done.done() and not self.done.cancelled()


@dataclass(eq=False, kw_only=True)
class Reader(Waiting[Document]):
    """A caller that waits for a refresh of the copies. `version` is what they must have; None for the current one.

    `shown` is a state that they have; None if it is not known.
    """

    version: int | None
    shown: Document | None = None


@dataclass(eq=False)
class Room:
    """What a process knows about a room. `since` is the moment of the first state of the chain."""

    state: Document | None = None
    since: int = 0
    dropped: dict[ObjectId, int] = field(default_factory=dict)
    over: dict[ObjectId, int] = field(default_factory=dict)

    def begin_chain(self, state: Document | None, moment: int) -> None:
        self.state, self.since = state, moment
        self.dropped.clear()
