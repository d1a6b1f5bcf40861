"""Bounded retries: a write that meets other writers tries again, each time after a longer, random pause."""

from __future__ import annotations

import asyncio
import random

# Together with their pauses these take about three seconds.
ATTEMPTS = 20
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.005, 0.3, 1.6


async def pause(seconds: float) -> None:
    """Sleeps for about so long. The random part keeps writers that met once from meeting again."""
    await asyncio.sleep(seconds * random.uniform(0.5, 1.5))  # noqa: S311 - spreads writers, guards nothing


class attempts:  # noqa: N801 - reads as a function: `async for _ in attempts():`
    """Counts attempts from 0, with a growing pause between them. The caller raises behind the loop.

    Args:     most: how many there are.
              steps: how many of them follow each other without a pause, because they are steps that a write takes
              even where nobody is in its way.
    """

    def __init__(self, most: int = ATTEMPTS, *, steps: int = 1) -> None:
        self._most = most
        self._steps = steps
        self._made = 0
        self._pause = _FIRST_PAUSE

    def __aiter__(self) -> attempts:
        return self

    async def __anext__(self) -> int:
        if self._made == self._most:
            raise StopAsyncIteration
        if self._made >= self._steps:
            await pause(self._pause)
            self._pause = min(self._pause * _GROWTH, _LONGEST_PAUSE)
        self._made += 1
        return self._made - 1
