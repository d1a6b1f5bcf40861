"""The one clock of all processes: that of the database server.

Times that one process writes are compared by others: when a cart expires, until when a lease lasts, from when on a node
is visible. So all processes go by the clock of the database server, and no two machines need to agree.
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
from portico.gateway.tasks import end, end_if_cancelled
from portico.resolvers.documents import Database
from portico.resolvers.server_time import server_time
from portico.resolvers.writes.retries import pause
from portico.resolvers.writes.timer import seconds_since_boot

_MILLISECOND = timedelta(milliseconds=1)
# The first measurement may meet a slow answer; a later one is more exact.
_FIRST_MEASUREMENTS = 3
_MEASURED_EVERY_SECONDS = 10.0
# The log names a larger difference.
_NOTABLE = timedelta(seconds=1)


class DatabaseClock:
    """The clock of the database server, as measured. Between two measurements it goes on by a clock that nobody sets.

    It begins as the clock of this machine. An answer of the server narrows down what its clock can show: it showed the
    time of the answer after the question was sent, and before the answer came. Where this clock is outside of that, it
    is corrected; otherwise it stays as it is, so that times of one process do not jitter.
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
        """Asks the server. Raises a driver's error."""
        asked = timedelta(seconds=self._elapsed())
        told = await server_time(db)
        answered = timedelta(seconds=self._elapsed())
        # The server leaves out what is below a millisecond.
        earliest, latest = told - answered, told + _MILLISECOND - asked
        if earliest <= self._zero <= latest:
            return
        right = earliest + (latest - earliest) / 2
        difference, self._zero = right - self._zero, right
        if abs(difference) > _NOTABLE:
            logger().warning("clock corrected", seconds=round(difference.total_seconds(), 3))

    async def follow(self, db: Database) -> None:
        """Measures again and again, until it is cancelled."""
        while True:
            await pause(_MEASURED_EVERY_SECONDS)
            with contextlib.suppress(PyMongoError):
                await self.measure(db)
            end_if_cancelled()


@contextlib.asynccontextmanager
async def clock_of(db: Database, given: Clock | None = None) -> AsyncIterator[Clock]:
    """The database's clock, which is measured until this is left; or another clock, as it is.

    Raises:   a driver's error, where the server does not answer at first.
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
