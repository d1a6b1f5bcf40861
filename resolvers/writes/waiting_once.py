"""Lets a write of two steps wait for a majority once, although its second step relies on the first.

A *note* says that a write is under way; a later write *decides*. If the decision survives a failover, the note must
have survived it, too. So a note usually waits for a majority, and the decision waits for one again. Mostly, one wait is
enough: a server that has a later write of a primary has all earlier ones. So a note may wait for the primary alone, if

1. the decision goes to the same server, on a connection that was open before the note was sent, and
2. the decision waits for a majority.

A server that rolls back a write closes all connections of its clients first, and a server that stops loses them. So if
it accepts the decision on such a connection, it still has the note, even if it has lost its role meanwhile and got it
back.

Otherwise the note is *confirmed* before the decision is sent: it is sent again with the same number, and waits for a
majority. MongoDB applies it once. If the note now matches another number of documents, or returns another document,
nothing is decided.

A note changes something. MongoDB does not remember a write that has changed nothing, and carries it out if it is sent
again. So a write that has matched nothing is no note, and nothing may rely on it.

A process that stops between both leaves what it has left before: a note without a decision, or nothing.

Only direct writes do this, see `gateway/mongo/direct_writes`. All other writes wait for a majority each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from contextvars import ContextVar
from typing import NamedTuple, Protocol, Self, TypeVar

R = TypeVar("R")


class Note(Protocol):
    """A write that its primary has acknowledged alone."""

    async def confirm(self) -> None:
        """Returns when the write is on a majority. Raises an error of the driver, also if it has another answer now."""

    def release(self) -> None:
        """Ends the possibility to confirm it."""


class Notes:
    """The notes on which a decision relies. The end of the block forgets them."""

    def __init__(self, of: Iterable[Notes] = ()) -> None:
        """Begins without notes, or with those of others, for a decision about all of them."""
        self.waiting: list[Note] = [note for notes in of for note in notes.waiting]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            # Another task may decide for the caller, and may have to confirm them first.
            self.waiting.clear()
        else:
            self.forget()

    def forget(self) -> None:
        """Lets nothing rely on the notes any more. Every attempt ends with that, whether it decides or not."""
        for note in self.waiting:
            note.release()
        self.waiting.clear()

    async def noting(self, write: Awaitable[R]) -> R:
        """Awaits a write on which the decision relies."""
        return await _awaited(write, Waiting(self, is_decision=False))

    async def deciding(self, write: Awaitable[R]) -> R:
        """Awaits the write that decides. Afterwards, it and all notes are on a majority."""
        return await _awaited(write, Waiting(self, is_decision=True))

    async def confirm(self) -> None:
        """Returns when all notes are on a majority. Raises an error of the driver if one of them is lost."""
        for note in self.waiting:
            await note.confirm()


class Waiting(NamedTuple):
    """What a write is for."""

    notes: Notes
    is_decision: bool


# Of the write that the current task sends; None if it is no part of a decision.
WAITING: ContextVar[Waiting | None] = ContextVar("waiting", default=None)


async def _awaited(write: Awaitable[R], waiting: Waiting) -> R:
    token = WAITING.set(waiting)
    try:
        return await write
    finally:
        WAITING.reset(token)


async def noted_in(notes: Notes | None, write: Awaitable[R]) -> R:
    """Awaits a write on which the decision relies, unless it changes nothing. Without notes, waits for a majority."""
    if notes is None:
        return await write
    if (found := await notes.noting(write)) is None:
        notes.forget()
    return found
