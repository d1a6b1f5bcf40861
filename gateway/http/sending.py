"""Exchanges messages with a client in a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


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
    async with asyncio.timeout(seconds):
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
