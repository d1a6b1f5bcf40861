"""Reads that requests of one process share: one read for all that ask for the same at the same time, kept for a while.

For figures that take long and that many callers ask for, such as the counts of a list. A figure can be as old as the
setting `PORTICO_COUNT_SECONDS` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from portico.resolvers.answer_bounds import unmetered
from portico.resolvers.kept import Kept

from .context import Context
from .nodes import Kind
from .roles import Role

V = TypeVar("V")

# The most values in memory. The largest, the facets of a list, take about 80 kB each.
MAX_KEPT = 250


@dataclass(slots=True, eq=False)
class _Flight:
    """A read in flight, and how many requests wait for it."""

    task: asyncio.Task[Any]
    waiting: int = 0


class SharedReads:
    """The shared reads of one process. Values are kept for `seconds` after their read began."""

    def __init__(self, seconds: float) -> None:
        self._lifetime = timedelta(seconds=seconds)
        self._kept: Kept[Hashable, tuple[datetime, Any]] = Kept(MAX_KEPT)
        self._in_flight: dict[Hashable, _Flight] = {}

    async def get(self, key: Hashable, read: Callable[[], Awaitable[V]], *, now: datetime) -> V:
        """Returns the value of a key: the kept one, or that of the read in flight, or of a new read.

        Raises the error of the read, which is not kept. If all requests that wait for a read are cancelled, the read is
        cancelled, too.
        """
        kept = self._kept.get(key)
        if kept is not None and now - kept[0] < self._lifetime:
            value: V = kept[1]
            return value
        flight = self._in_flight.get(key)
        if flight is None:
            flight = self._in_flight[key] = _Flight(asyncio.create_task(self._keep(key, read, now)))
        flight.waiting += 1
        try:
            # A request that is cancelled must not cancel the read of the others.
            found: V = await asyncio.shield(flight.task)
            return found
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                flight.task.cancel()
            if self._in_flight.get(key) is flight and (flight.task.done() or not flight.waiting):
                del self._in_flight[key]

    async def _keep(self, key: Hashable, read: Callable[[], Awaitable[V]], now: datetime) -> V:
        # The operation that begins the read must not refuse it to the others.
        with unmetered():
            value = await read()
        self._kept.put(key, (now, value))
        return value


async def shared(
    context: Context,
    kind: Kind,
    key: Hashable,
    read: Callable[[], Awaitable[V]],
    *,
    current_for: Role | None = None,
) -> V:
    """Returns a figure about objects of a kind, which callers with equal rights share for some seconds.

    Args:     key: everything that the figure depends on besides the caller.
              read: reads the figure.
              current_for: a role whose callers share nothing, because they can change the objects.
    """
    if current_for is not None and context.has_role(current_for):
        return await read()
    # If every caller sees all objects, rights do not matter. Reads of anonymous callers can go to secondaries.
    rights = None if kind.is_open else context.caller
    place = (kind.name, key, rights, context.caller is None)
    return await context.resources.of(SharedReads).get(place, read, now=context.clock())
