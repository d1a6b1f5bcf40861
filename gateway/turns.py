"""Lets many tasks continue a few at a time, so that other requests do not wait for all of them."""

from __future__ import annotations

import asyncio
from collections import deque

# How many tasks continue in one turn of the event loop. Sending a message takes about 20 µs, so a turn takes less than
# a millisecond.
_A_TURN = 48


class Turns:
    """Completes futures in the order of `add`, a few in each turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    def add(self, waiter: asyncio.Future[None]) -> None:
        """Completes the future in its turn, unless it is done by then."""
        if not self._waiting:
            waiter.get_loop().call_soon(self._next)
        self._waiting.append(waiter)

    def _next(self) -> None:
        left = _A_TURN
        while self._waiting and left:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                left -= 1
        if self._waiting:
            self._waiting[0].get_loop().call_soon(self._next)
