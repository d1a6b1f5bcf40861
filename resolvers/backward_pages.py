"""Pages that were read from the end of a list."""

from __future__ import annotations

from .documents import D
from .paging import Key, Listing, Page


class BackwardPage(Page[D]):
    """A page that was read backwards: its rows are in the order of the list, and what precedes them is known.

    `start` is the place of the last row that was considered, if that is none of the rows.

    The row at `before` follows the page, also an empty one. If nothing precedes an empty page, it has no end: its next
    page is the first one of the list, which needs no cursor. Otherwise its end is `start`.
    """

    __slots__ = ("precedes", "start")

    def __init__(self, read: Page[D], listing: Listing, *, before: Key | None) -> None:
        """`read` is the page of `listing.reversed()`."""
        super().__init__(listing, read.collection, read.documents[::-1], has_next=False)
        self.has_next = before is not None
        self.precedes, self.start = read.has_next, read.end

    @property
    def start_cursor(self) -> str | None:
        return super().start_cursor if self.start is None else self._cursor(self.start)

    @property
    def end_cursor(self) -> str | None:
        return super().end_cursor if self.documents or self.start is None else self._cursor(self.start)

    async def has_previous(self) -> bool:
        return self.precedes
