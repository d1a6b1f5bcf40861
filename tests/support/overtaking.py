"""Calls of stages that others can overtake: each waits before one of its commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from portico.testing import Answer, Given, Stage


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
