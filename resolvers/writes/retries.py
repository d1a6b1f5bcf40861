"""Bounded retries with exponential backoff and jitter, for writes that collide with other writers.

A writer whose guard does not match reads again and retries, in a loop over `attempts`: 20 times by default. A move of a
category retries 8 times, an edit of a product 5 times. A change of a cart retries up to 200 times, with short pauses,
because its collisions come from one buyer. After the last attempt the caller gets a `Conflict`, which is not kept for
its key, so the call can be repeated. Every loop of a write ends. A test finds `while` loops without a condition. It
does not see loops over `itertools.count()`: `LedgerStorage.post` counts its attempts itself, and `find_posted_ids` ends
at the first ids that are not fenced.
"""

from __future__ import annotations

import asyncio
import random

from portico.resolvers.waiting import waiting

# Including the pauses, these take about three seconds.
ATTEMPTS = 20
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.005, 0.3, 1.6


async def pause(seconds: float) -> None:
    """Sleeps for about this long. The jitter keeps writers that collided once from colliding again."""
    async with waiting():
        await asyncio.sleep(seconds * random.uniform(0.5, 1.5))  # noqa: S311 - spreads writers, guards nothing


class attempts:  # noqa: N801 - reads as a function: `async for _ in attempts():`
    """Yields the number of each attempt, from 0, with a growing pause between attempts. Raise an error after the loop.

    Args:     most: the number of attempts.
              steps: how many attempts run without a pause, because a write needs them even without a collision.
              longest: the pause, in seconds, beyond which pauses do not grow.
    """

    def __init__(self, most: int = ATTEMPTS, *, steps: int = 1, longest: float | None = None) -> None:
        self._most = most
        self._steps = steps
        self._made = 0
        self._pause = _FIRST_PAUSE
        self._longest = _LONGEST_PAUSE if longest is None else longest

    def __aiter__(self) -> attempts:
        return self

    async def __anext__(self) -> int:
        if self._made == self._most:
            raise StopAsyncIteration
        if self._made >= self._steps:
            await pause(self._pause)
            self._pause = min(self._pause * _GROWTH, self._longest)
        self._made += 1
        return self._made - 1


def settling() -> attempts:
    """Returns the attempts of a call that waits for another call's mark: for about two seconds.

    That call settles its mark within milliseconds, or has crashed; then a job does.
    """
    return attempts(100, longest=0.02)
