"""Months, by which clients start in the middle of a list of posts."""

from __future__ import annotations

import re
from datetime import MAXYEAR, datetime

from portico.resolvers.errors import InvalidInput

_MONTH = re.compile(r"([0-9]{4})(0[1-9]|1[0-2])")


def month_of(time: datetime) -> str:
    """Returns the month of a time in UTC, e.g. `201204`. On some systems, `%Y` has fewer than four digits."""
    return f"{time.year:04}{time.month:02}"


def end_of_month(month: str) -> datetime | None:
    """Returns when the month has ended, in UTC; None for the last month that a time can have.

    Raises:   InvalidInput, unless the text is a year of four digits, from 0001, and a month of two digits.
    """
    found = _MONTH.fullmatch(month)
    if found is None or found[1] == "0000":
        raise InvalidInput(
            "`month` must be a year and a month, e.g. `201204`.", "month", code=InvalidInput.WRONG_FORMAT
        )
    year, number = divmod(int(found[1]) * 12 + int(found[2]), 12)
    return None if year > MAXYEAR else datetime(year, number + 1, 1)  # noqa: DTZ001 - as the driver gives it
