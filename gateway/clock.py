"""Clocks. Times are UTC with milliseconds, as MongoDB stores them, and naive, as the driver returns them.

All processes use the clock of the database server (`database_clock`). This module imports nothing large.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime: ...


class SystemClock:
    """The clock of this machine, for times that only this machine compares, for example of tokens."""

    def now(self) -> datetime:
        return to_the_millisecond(machine_time())


def machine_time() -> datetime:
    """Returns the time of this machine's clock, in UTC."""
    return datetime.now(UTC).replace(tzinfo=None)


def to_the_millisecond(instant: datetime) -> datetime:
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)
