"""Waits for what reads the database until changes are lost.

A primary that stalls closes no connection, so the driver waits for its answer until the command times out. When another
primary is elected, the change stream loses its changes. What was read before must then be read again in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from portico.resolvers.changes import ChangesLost

T = TypeVar("T")
_AGAIN_SECONDS = 0.25


class Losses:
    """The losses of one change stream, and the reads that nobody waits for any more since then."""

    def __init__(self) -> None:
        self._loss: asyncio.Future[None] | None = None
        # The driver may not end them at once.
        self._left: set[asyncio.Task[Any]] = set()

    def add(self) -> None:
        """Notes a loss."""
        if self._loss is not None:
            self._loss.set_result(None)
            self._loss = None

    async def until(self, read: Coroutine[Any, Any, T]) -> T:
        """Returns what is read. Raises ChangesLost as soon as changes are lost."""
        loss = self._loss = self._loss or asyncio.get_running_loop().create_future()
        task = asyncio.create_task(read)
        try:
            await asyncio.wait({task, loss}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ChangesLost
        finally:
            if not task.done():
                task.cancel()
                self._left.add(task)
                task.add_done_callback(self._forget)

    async def aclose(self) -> None:
        """Ends the reads that nobody waits for. Cancels repeatedly: the driver may swallow a cancellation."""
        while left := list(self._left):
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=_AGAIN_SECONDS)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            # Retrieves an error that nobody waits for, so that asyncio does not log it.
            task.exception()
