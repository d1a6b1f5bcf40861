"""Exchanges messages with a client in a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")
# How long after the first timer the second one is due. In between, the event loop reads.
ONE_MORE_TIMER_SECONDS = 0.01


class ClientTimeout:
    """Raises TimeoutError like `asyncio.timeout`, but never because the event loop was busy when the client answered.

    After a pause, the loop calls timers before it reads what has arrived. So a second timer follows: before it, the
    loop reads.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._limit = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end_after_reading)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._limit.__aexit__(kind, error, traceback)

    def _end_after_reading(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time() + ONE_MORE_TIMER_SECONDS)


async def within(seconds: float, exchanged: Awaitable[T]) -> T:
    """Awaits the sending of a message, or its arrival. Raises TimeoutError if it takes longer.

    Almost every message is sent without waiting, and has arrived when it is asked for. A timer would take a fifth of
    the time for a delivery, so only a message that waits gets one.
    """
    steps = exchanged.__await__()
    try:
        first = next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    async with ClientTimeout(seconds):
        return await _Rest(steps, first)


class _Rest(Generic[T]):
    """The rest of the steps of an awaitable that has run up to its first wait, where it yielded `waits_for`."""

    def __init__(self, steps: Generator[Any, Any, T], waits_for: Any) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    received = yield waits_for
                except BaseException as error:  # noqa: BLE001 - the awaitable handles it, or raises it again
                    waits_for = self._steps.throw(error)
                else:
                    waits_for = self._steps.send(received)
        except StopIteration as end:
            result: T = end.value
            return result
