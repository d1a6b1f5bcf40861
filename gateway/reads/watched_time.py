"""The time of a query, of which a read set notes the use."""

from __future__ import annotations

from datetime import datetime

from portico.schema.context import Operation

from .read_sets import ReadSet


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
