"""Reads that requests of one process share: one read for all that ask for the same at the same time, kept for a while.

For figures that take long and that many callers ask for, such as the counts of a list. A figure can be as old as the
setting `PORTICO_COUNT_SECONDS` says. Its key has everything that it depends on, also the caller if the kind has a rule
of visibility. Callers who can change the objects share nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from portico.resolvers.answer_bounds import METER, counted_apart
from portico.resolvers.flights import Flight, Flights
from portico.resolvers.lru import Lru
from portico.schema.kinds import Kind

from .context import Context
from .roles import Role

V = TypeVar("V")

# The most values in memory. The largest, the facets of a list, take about 80 kB each.
MAX_KEPT = 250


class _Read(NamedTuple):
    """What a read has returned, and whether that has text that is not valid UTF-8."""

    value: Any
    has_undecodable: bool


class SharedReads:
    """The shared reads of one process. Values are kept for `seconds` after their read began."""

    def __init__(self, seconds: float) -> None:
        self._lifetime = timedelta(seconds=seconds)
        self._kept: Lru[Hashable, tuple[datetime, _Read]] = Lru(MAX_KEPT)
        self._flights: Flights[Hashable, Flight[Hashable, tuple[datetime, _Read]]] = Flights()

    async def get(self, key: Hashable, read: Callable[[], Awaitable[V]], *, now: datetime) -> V:
        """Returns the value of a key: the kept one, or that of the read in flight, or of a new read.

        Raises as `get_until`.
        """
        return (await self.get_until(key, read, now=now))[0]

    async def get_until(self, key: Hashable, read: Callable[[], Awaitable[V]], *, now: datetime) -> tuple[V, datetime]:
        """Returns the value of a key as `get` does, and until when it is shared.

        Raises the error of the read, which is not kept. If all requests that wait for a read are cancelled, the read is
        cancelled, too.
        """
        kept = self._kept.get(key)
        if kept is None or now - kept[0] >= self._lifetime:
            flight = self._flights.of(key) or Flight(self._flights, key, self._keep(key, read, now))
            kept = await flight.lands()
        began, found = kept
        meter = METER.get()
        if found.has_undecodable and meter is not None:
            meter.has_undecodable = True
        value: V = found.value
        return value, began + self._lifetime

    async def _keep(self, key: Hashable, read: Callable[[], Awaitable[V]], now: datetime) -> tuple[datetime, _Read]:
        # The operation that begins the read must not refuse it to the others.
        with counted_apart() as meter:
            found = _Read(await read(), meter.has_undecodable)
        self._kept.put(key, (now, found))
        return now, found


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
              current_for: a role whose callers share nothing, because they can change the objects. Live queries
              share nothing either: they show the newest figure.
    """
    if context.is_live or (current_for is not None and context.has_role(current_for)):
        return await read()
    # If every caller sees all objects, rights do not matter. Reads of anonymous callers can go to secondaries.
    rights = None if kind.is_open else context.caller
    place = (kind.name, key, rights, context.caller is None)
    value, until = await context.resources.of(SharedReads).get_until(place, read, now=context.clock())
    # An answer must not outlive what it shares.
    context.change_at(until)
    return value
