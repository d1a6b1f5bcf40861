"""Stages whose process remembers something, which the process of the next call does not."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable

from portico.testing import Answer
from portico.testing.kits import Given
from portico.testing.stages import Stage


class Restarting(Stage):
    """A stage whose crashed, paused and restored calls are followed by calls of another process."""

    @abstractmethod
    def restart(self) -> object:
        """Forgets what the process remembers."""

    async def saved(self) -> Callable[[], Awaitable[None]]:
        restore = await super().saved()
        self.restart()

        async def restored() -> None:
            await restore()
            self.restart()

        return restored

    async def crash(self, mutation: str, given: Given, stop: int) -> bool:
        has_crashed = await super().crash(mutation, given, stop)
        self.restart()
        return has_crashed

    async def asleep(
        self, mutation: str, given: Given, command: int, *, patience: float | None = None, dies: bool = False
    ) -> tuple[asyncio.Task[Answer], Callable[[], None]]:
        """Starts a call that pauses. All later calls are of another process, which does not wait for it."""
        call, wake = await super().asleep(mutation, given, command, patience=patience, dies=dies)
        self.restart()
        return call, wake
