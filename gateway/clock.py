"""The one clock. Times are UTC, to the millisecond as MongoDB keeps them, without a zone as the driver gives them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime: ...


class SystemClock:
    def now(self) -> datetime:
        instant = datetime.now(UTC)
        return instant.replace(microsecond=instant.microsecond // 1000 * 1000, tzinfo=None)
