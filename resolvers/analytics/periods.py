"""Periods of time in UTC: minutes, hours, days, ISO weeks, months and years. Times are naive and in UTC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal

from portico.resolvers.errors import InvalidInput

from .batches import AFTER_LAST, require_time

Granularity = Literal["MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"]
# The most periods that a caller can ask for.
MAX_POINTS = 10_000

_STEPS: Mapping[Granularity, timedelta] = {
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
    "WEEK": timedelta(weeks=1),
}


def _day(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


_STARTS: Mapping[Granularity, Callable[[datetime], datetime]] = {
    "MINUTE": lambda time: time.replace(second=0, microsecond=0),
    "HOUR": lambda time: time.replace(minute=0, second=0, microsecond=0),
    "DAY": _day,
    # ISO 8601: a week begins on Monday.
    "WEEK": lambda time: _day(time) - timedelta(days=time.weekday()),
    "MONTH": lambda time: _day(time).replace(day=1),
    "YEAR": lambda time: _day(time).replace(month=1, day=1),
}


def start_of(granularity: Granularity, time: datetime) -> datetime:
    """Returns the start of the period that contains the time."""
    return _STARTS[granularity](time)


def next_start(granularity: Granularity, start: datetime) -> datetime:
    """Returns the start of the period after the one that begins at `start`."""
    if granularity == "YEAR":
        return start.replace(year=start.year + 1)
    if granularity == "MONTH":
        return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return start + _STEPS[granularity]


def starts(granularity: Granularity, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Yields the starts of all periods that overlap the range. It includes `begin` and excludes `end`."""
    start = start_of(granularity, begin)
    while start < end:
        yield start
        start = next_start(granularity, start)


def count_periods(granularity: Granularity, begin: datetime, end: datetime) -> int:
    """Returns how many periods overlap the range.

    Raises InvalidInput for an empty range, a time outside the years 1970 to 2199, or more than 10,000 periods.
    """
    require_range(begin, end)
    count = sum(1 for _ in islice(starts(granularity, begin, end), MAX_POINTS + 1))
    if count > MAX_POINTS:
        text = f"The range has more than {MAX_POINTS:,} periods. Choose a shorter range, or longer periods."
        raise InvalidInput(text, "to", code=InvalidInput.OUT_OF_RANGE)
    return count


def require_range(begin: datetime, end: datetime) -> None:
    """Raises InvalidInput for an empty range, or for a time outside the years 1970 to 2199."""
    with InvalidInput.collect() as check:
        check(require_time, begin, "from")
        if end != AFTER_LAST:
            check(require_time, end, "to")
    if end <= begin:
        raise InvalidInput("`to` must be later than `from`.", "to", code=InvalidInput.OUT_OF_RANGE)
