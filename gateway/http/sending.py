"""Sends messages to a client in a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any


async def within(seconds: float, sending: Awaitable[None]) -> None:
    """Awaits the sending of a message. Raises TimeoutError if it takes longer.

    Almost every message is sent without waiting. A timer would take a fifth of the time for a delivery, so only a
    message that waits gets one.
    """
    steps = sending.__await__()
    try:
        first = next(steps)
    except StopIteration:
        return
    async with asyncio.timeout(seconds):
        await _Rest(steps, first)


class _Rest:
    """The rest of the steps of an awaitable that has run up to its first wait, where it yielded `waits_for`."""

    def __init__(self, steps: Generator[Any, Any, None], waits_for: Any) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    received = yield waits_for
                except BaseException as error:  # noqa: BLE001 - the awaitable handles it, or raises it again
                    waits_for = self._steps.throw(error)
                else:
                    waits_for = self._steps.send(received)
        except StopIteration:
            return
