"""The current time while an operation goes on. A resolver gets the time from its caller, and never reads the clock."""

from __future__ import annotations

import time
from datetime import datetime, timedelta


def seconds_since_boot() -> float:
    """Includes the time for which the machine sleeps, where the system counts it."""
    boot_time: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class Timer:
    """Counts on from the time at which an operation began.

    What an operation stores as its own time is the `now` that it began with. Deadlines count from the current time: a
    lock that counts from a time before a wait has expired when it is written.
    """

    def __init__(self, now: datetime) -> None:
        self._begun = now
        self._started = seconds_since_boot()

    @property
    def seconds(self) -> float:
        """How long the operation has been going on."""
        return seconds_since_boot() - self._started

    def now(self) -> datetime:
        """The current time, to the millisecond."""
        return self._begun + timedelta(milliseconds=int(self.seconds * 1000))
