"""The current time during an operation. A resolver gets the time from its caller and never reads the clock."""

from __future__ import annotations

import time
from datetime import datetime, timedelta


def seconds_since_boot() -> float:
    """Returns the seconds since boot, including the time that the machine was suspended, if the system counts it."""
    boot_time: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class Timer:
    """A clock that starts with the `now` of an operation and measures elapsed time.

    An operation stores its `now` as its own time. Deadlines must count from the current time: a lock whose deadline
    counts from before a wait may have expired when it is written.
    """

    def __init__(self, now: datetime) -> None:
        self._begun = now
        self._started = seconds_since_boot()

    @property
    def seconds(self) -> float:
        """The seconds since the operation began."""
        return seconds_since_boot() - self._started

    def now(self) -> datetime:
        """Returns the current time, in whole milliseconds."""
        return self._begun + timedelta(milliseconds=int(self.seconds * 1000))
