"""Clocks. Times are UTC, to the millisecond as MongoDB keeps them, without a zone as the driver gives them.

All processes go by the clock of the database server (`database_clock`); this module imports nothing of weight.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime: ...


class SystemClock:
    """The clock of this machine, for what only this machine compares, e.g. tokens."""

    def now(self) -> datetime:
        return to_the_millisecond(machine_time())


def machine_time() -> datetime:
    """What the clock of this machine shows, whoever has set it."""
    return datetime.now(UTC).replace(tzinfo=None)


def to_the_millisecond(instant: datetime) -> datetime:
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)
