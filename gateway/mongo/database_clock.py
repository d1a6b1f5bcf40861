"""The clock of the database server, which all processes use.

Processes compare times that other processes have written: the expiry of a cart, the end of a lease, the time from which
a node is visible. Because all use one clock, the clocks of their machines need not agree.

In its answer to `hello`, the server sends its time. That time was true at some moment between the request and the
answer. If the clock of the process is outside of this range, it is corrected; otherwise it stays. Between two answers,
the process uses a monotonic clock, so a change of the machine's clock has no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta

from pymongo.errors import PyMongoError

from portico.gateway import clock
from portico.gateway.clock import Clock, to_the_millisecond
from portico.gateway.logs import logger
from portico.resolvers.documents import Database
from portico.resolvers.server_time import server_time
from portico.resolvers.tasks import end, end_if_cancelled
from portico.resolvers.writes.retries import pause
from portico.resolvers.writes.timer import seconds_since_boot

_MILLISECOND = timedelta(milliseconds=1)
# The response to the first measurement may be slow, so a later one is more exact.
_FIRST_MEASUREMENTS = 3
_MEASURED_EVERY_SECONDS = 10.0
# Larger corrections are logged.
_NOTABLE = timedelta(seconds=1)


class DatabaseClock:
    """The measured clock of the database server. Between two measurements a monotonic clock advances it.

    1. It starts as the clock of this machine.
    2. A measurement asks the server for its time. The server read its clock after the request was sent and before the
       response arrived, which bounds what the server's clock shows now.
    3. If this clock is outside these bounds, it is set to their middle. Otherwise it does not change, so the times of
       one process do not jitter.
    """

    def __init__(
        self, machine: Callable[[], datetime] | None = None, elapsed: Callable[[], float] | None = None
    ) -> None:
        self._elapsed = elapsed or seconds_since_boot
        # What the clock showed when `elapsed` was 0.
        self._zero = (machine or clock.machine_time)() - timedelta(seconds=self._elapsed())

    def now(self) -> datetime:
        return to_the_millisecond(self._zero + timedelta(seconds=self._elapsed()))

    async def measure(self, db: Database) -> None:
        """Measures the clock of the server, and corrects this one. Raises a driver's error."""
        sent = timedelta(seconds=self._elapsed())
        shown = await server_time(db)
        received = timedelta(seconds=self._elapsed())
        # The server truncates its time to milliseconds.
        earliest, latest = shown - received, shown + _MILLISECOND - sent
        if earliest <= self._zero <= latest:
            return
        middle = earliest + (latest - earliest) / 2
        difference, self._zero = middle - self._zero, middle
        if abs(difference) > _NOTABLE:
            logger().warning("clock corrected", seconds=round(difference.total_seconds(), 3))

    async def follow(self, db: Database) -> None:
        """Measures periodically, until it is cancelled."""
        while True:
            await pause(_MEASURED_EVERY_SECONDS)
            with contextlib.suppress(PyMongoError):
                await self.measure(db)
            end_if_cancelled()


@contextlib.asynccontextmanager
async def clock_of(db: Database, given: Clock | None = None) -> AsyncIterator[Clock]:
    """Yields the database's clock and keeps measuring it; if another clock is given, yields that one unchanged.

    Raises:   a driver's error if the first measurement fails.
    """
    used = given or DatabaseClock()
    if not isinstance(used, DatabaseClock):
        yield used
        return
    for _ in range(_FIRST_MEASUREMENTS):
        await used.measure(db)
    following = asyncio.create_task(used.follow(db))
    try:
        yield used
    finally:
        await end(following)
