"""Bounds the time of many short operations with one timer.

Almost every operation ends long before its deadline. A timer of its own would cost each of them more than an entry in
a dict, which is all that an operation pays here. One timer looks at all entries, and only runs while there are any. So
a deadline is met up to PRECISION_SECONDS late.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Protocol

PRECISION_SECONDS = 0.05


class Expiring(Protocol):
    """What has a deadline. It is compared by identity."""

    def expire(self) -> None:
        """Called once, when the deadline has passed. Must not raise."""
        ...


class Deadlines:
    """The deadlines of one process."""

    def __init__(self) -> None:
        # In the time of the loop.
        self._due: dict[Expiring, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add(self, entry: Expiring, seconds: float) -> None:
        """Calls `expire` of the entry after these seconds, unless it is removed before."""
        loop = asyncio.get_running_loop()
        self._due[entry] = loop.time() + seconds
        if self._timer is None or self._loop is not loop:
            self._loop = loop
            self._timer = loop.call_later(PRECISION_SECONDS, self._look)

    def remove(self, entry: Expiring) -> None:
        """Forgets an entry, if it has not expired."""
        self._due.pop(entry, None)

    def limit(self, seconds: float) -> Limit:
        """Returns a context manager that cancels the current task when the time is over, and raises TimeoutError."""
        return Limit(self, seconds)

    def _look(self) -> None:
        self._timer = None
        if not self._due or self._loop is None:
            return
        now = self._loop.time()
        for entry in [entry for entry, due in self._due.items() if due <= now]:
            del self._due[entry]
            entry.expire()
        if self._due:
            self._timer = self._loop.call_later(PRECISION_SECONDS, self._look)


class Limit:
    """Limits the time of a block, as `asyncio.timeout` does."""

    __slots__ = ("_cancelling", "_deadlines", "_has_expired", "_seconds", "_task")

    def __init__(self, deadlines: Deadlines, seconds: float) -> None:
        self._deadlines = deadlines
        self._seconds = seconds
        self._has_expired = False

    def __enter__(self) -> None:
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._deadlines.add(self, self._seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if not self._has_expired:
            self._deadlines.remove(self)
            return
        # Another cancellation may have come, too. It goes on.
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        self._has_expired = True
        self._task.cancel()
