"""Who waits for a room in a process, and what the process knows about the room. See `rooms`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bson import ObjectId

from portico.resolvers.documents import Database, Document

StillOurs = Callable[[], Awaitable[bool]]


@dataclass(eq=False)
class Waiting:
    """A step in the queue. `checked` is a moment before a proof that the turn was under way; see `rooms`."""

    db: Database
    step: Document
    still_ours: StillOurs
    checked: int
    done: asyncio.Future[Document]
    looks: int = 0


@dataclass(eq=False)
class Reader:
    """A caller that waits for a refresh of the copies. `version` is what they must have; None for the current one."""

    db: Database
    version: int | None
    done: asyncio.Future[Document]


@dataclass(eq=False)
class RoomQueue:
    """What a process knows about a room. `since` is the moment of the first state of the chain."""

    state: Document | None = None
    since: int = 0
    dropped: dict[ObjectId, int] = field(default_factory=dict)
    steps: list[Waiting] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    over: dict[ObjectId, int] = field(default_factory=dict)
    stepping: bool = False
    refreshing: bool = False

    def begin_chain(self, state: Document | None, moment: int) -> None:
        self.state, self.since = state, moment
        self.dropped.clear()

    @property
    def is_idle(self) -> bool:
        return not (self.stepping or self.refreshing or self.steps or self.readers)


def has_failed(waiting: Waiting) -> bool:
    """Returns whether the step has an error. The step of a cancelled caller has none."""
    return waiting.done.done() and not waiting.done.cancelled()


def answer(waiting: Waiting | Reader, found: Document) -> None:
    if not waiting.done.done():
        waiting.done.set_result(found)


def fail(waiting: list[Waiting] | list[Reader], error: BaseException) -> None:
    for one in waiting:
        if not one.done.done():
            one.done.set_exception(error)
