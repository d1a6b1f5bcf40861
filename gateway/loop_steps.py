"""Spreads work on many tasks over iterations of the event loop, so that other requests do not wait for all of it."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

# How many steps run in one iteration of the event loop. Sending a message takes about 20 µs, so it takes less than a
# millisecond.
_AN_ITERATION = 48


class LoopSteps:
    """Runs steps in the order of `each`, a few in each iteration of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], object], Iterator[Any]]] = deque()

    def each(self, step: Callable[[T], object], items: Iterable[T]) -> None:
        """Calls the step with each item, in order. The step must not raise, and the items must not change."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting.append((step, iter(items)))

    def finish(self) -> None:
        """Runs all steps that wait, at once."""
        while self._waiting:
            self._run(None)

    def _next(self) -> None:
        left = _AN_ITERATION
        while self._waiting and left:
            left -= self._run(left)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)

    def _run(self, most: int | None) -> int:
        """Runs up to so many of the first steps. Returns how many."""
        step, items = self._waiting[0]
        number = 0
        for item in itertools.islice(items, most):
            step(item)
            number += 1
        if number != most:
            self._waiting.popleft()
        return number


def complete(waiter: asyncio.Future[None]) -> None:
    """Completes the future, unless it is done. A step."""
    if not waiter.done():
        waiter.set_result(None)
