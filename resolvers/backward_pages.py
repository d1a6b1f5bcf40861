"""Pages that were read from the end of a list."""

from __future__ import annotations

from .documents import D
from .paging import Key, Listing, Page


class BackwardPage(Page[D]):
    """A page that was read backwards: its rows are in the order of the list, and what precedes them is known.

    `start` is the place of the last row that was considered, if that is none of the rows.
    """

    __slots__ = ("precedes", "start")

    def __init__(self, read: Page[D], listing: Listing, *, before: Key | None) -> None:
        """`read` is the page of `listing.reversed()`. The row at `before` follows the page."""
        rows = read.documents[::-1]
        super().__init__(listing, read.collection, rows, before is not None and bool(rows))
        self.precedes, self.start = read.has_next, read.end

    @property
    def start_cursor(self) -> str | None:
        return super().start_cursor if self.start is None else self._cursor(self.start)

    async def has_previous(self) -> bool:
        return self.precedes
