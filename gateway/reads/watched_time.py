"""The time of a query, of which a read set notes the use."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from portico.schema.context import Operation

if TYPE_CHECKING:
    from .recorded import ReadSet


class WatchedTime(Operation):
    """The time of a query, which notes in a read set that it was read."""

    __slots__ = ("_reads",)

    def __init__(self, now: datetime, reads: ReadSet) -> None:
        super().__init__(now)
        self._reads = reads

    @property
    def now(self) -> datetime:
        self._reads.reads_clock = True
        return super().now

    @property
    def compared(self) -> datetime:
        self._reads.compare(self._now)
        return self._now

    def change_at(self, instant: datetime) -> None:
        self._reads.change_at(instant)

    def vary(self) -> None:
        self._reads.is_repeatable = False


def dates_in(value: Any) -> Iterator[datetime]:
    """Yields the dates of documents, as they are stored."""
    if isinstance(value, datetime):
        yield value
    elif isinstance(value, dict | list):
        for below in value.values() if isinstance(value, dict) else value:
            yield from dates_in(below)
