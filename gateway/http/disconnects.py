"""Watches clients while their operations run: a query whose client disconnects is cancelled."""

from __future__ import annotations

import asyncio

from starlette.types import Receive

from portico.gateway.deadlines import Deadlines
from portico.gateway.operations.execution import Progress

_WATCH_AFTER_SECONDS = 0.1


class Watch:
    """Cancels a query if its client disconnects. A mutation continues: its client may retry it to get the answer."""

    def __init__(self, receive: Receive, progress: Progress, deadlines: Deadlines) -> None:
        self.is_gone = False
        self._receive = receive
        self._progress = progress
        self._watched = asyncio.current_task()
        self._task: asyncio.Task[None] | None = None
        self._deadlines = deadlines
        # Most responses are sent before a client can disconnect.
        deadlines.add(self, _WATCH_AFTER_SECONDS)

    def expire(self) -> None:
        """Begins to watch."""
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._watched is not None and not self._progress.is_write:
            self.is_gone = True
            self._watched.cancel()

    def end(self) -> None:
        self._deadlines.remove(self)
        if self._task is not None:
            self._task.cancel()
            # A cancelled task keeps its frames, and one of them references this object and everything that the request
            # has read. Dropping the task avoids this cycle, so the memory is free at once.
            self._task = None
