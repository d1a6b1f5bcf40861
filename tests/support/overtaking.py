"""Calls that are overtaken: others act while a call waits before one of its commands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from portico.testing import Answer, Gateway, Given, Stage
from tests.support.interruptions import database_of, interrupted

T = TypeVar("T")


@contextlib.contextmanager
def overtaken(
    gateway: Gateway,
    action: Callable[[], Awaitable[T]],
    *,
    before: tuple[str | None, str | None] = (None, None),
    skip: int = 0,
) -> Iterator[list[T]]:
    """Runs an action before a command of what the block does, as `interrupted` does. Nothing interrupts the action.

    Yields a list that gets what the action returns. It stays empty if the block sends no such command.

    Args:     before: the collection and the method of the command; None for any.
    """
    own = gateway.state.database
    outcome: list[T] = []

    async def act() -> None:
        with database_of(gateway, own):
            outcome.append(await action())

    with database_of(gateway, interrupted(own, *before, act, skip=skip)):
        yield outcome


@dataclass
class PausedCall:
    """A call of a stage that waits before this command, and sends no other one until it resumes."""

    stage: Stage
    mutation: str
    given: Given
    command: int
    _call: asyncio.Task[Answer]
    _wake: Callable[[], None]

    async def resume(self) -> Answer:
        self._wake()
        return await self._call

    async def retry(self) -> None:
        """Carries the call out with its key, as if its first process had crashed."""
        self.stage.clock.advance(seconds=31)
        await self.stage.result(self.mutation, self.given)


async def paused_calls(
    stage: Stage, name: str, commands: Iterable[int], *, least: int, **given: object
) -> AsyncIterator[PausedCall]:
    """Yields the call of a case, each time on restored data, paused before each of these commands that it sends.

    Args:     least: the call sends more commands than this.
              given: fields of its input that replace those of the case.
    """
    mutation = stage.cases[name].mutation
    for command in commands:
        changed = {**await stage.set(name), **given}
        call, wake = await stage.asleep(mutation, changed, command)
        if call.done():
            break
        yield PausedCall(stage, mutation, changed, command, call, wake)
    assert command > least
