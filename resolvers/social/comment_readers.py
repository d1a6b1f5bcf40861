"""What has been read of one post's comments: from the oldest on, or from the latest back.

A post moves its oldest comments to pages while readers page through them. A cursor has the first page in which its
comment can be, its time and its id. If the comment was deleted, the list continues at its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.paging import Key, Listing, Page

from .comment_rows import Part, row_of
from .posts import MOST_HELD, PAGE, POSTS

_FIRST = (datetime.min, ObjectId(bytes(12)))  # noqa: DTZ901 - as the driver gives it
_LAST = (datetime.max, ObjectId(b"\xff" * 12))  # noqa: DTZ901


class CommentPage(Page):
    """A page of comments. A page after a cursor has a previous page."""

    __slots__ = ()

    async def has_previous(self) -> bool:
        return self.after is not None


class Reader:
    """Reads the comments after a cursor: the pages of the post, and then the comments that it holds."""

    def __init__(self, post: Document, after: Key | None) -> None:
        self.post = post
        self.spilled: int = post.get("spilled") or 0
        self.after = _checked(after)
        self.next_page = 0 if self.after is None else min(self.after[0] // PAGE * PAGE, self.spilled)
        self.is_finished = False
        self.shown: list[Document] = []
        # The time and the id of the last comment that was considered.
        self.last: tuple[datetime, ObjectId] = _FIRST if self.after is None else (self.after[1], self.after[2])

    def next_part(self, width: int) -> Part:
        """Returns the next pages, at most this many."""
        return Part(self.next_page, min(self.next_page + width * PAGE, self.spilled))

    def has_more(self, considered: Part) -> bool:
        """Returns whether there is more to read of these pages, and of the comments that the post holds behind them."""
        return not self.is_finished and (self.next_page < considered.end or considered.end == self.spilled)

    def nearest(self, pages: Sequence[int], most: int) -> tuple[Sequence[int], Sequence[int]]:
        """Returns the pages to read next, and the others."""
        return pages[:most], pages[most:]

    def part_before(self, left: Sequence[int], considered: Part) -> Part:
        """Returns what is read if these pages are left."""
        return Part(self.next_page, left[0] if left else considered.end)

    def take(self, part: Part, paged: Sequence[Document]) -> list[Document]:
        """Takes the comments of these pages, and after the last page the others. Returns those behind the cursor."""
        rows = list(paged)
        if part.end >= self.spilled:
            rows += [row_of(comment, self.spilled) for comment in self.post["comments"]]
            self.is_finished = True
        self.next_page = part.end
        if rows:
            self.last = rows[-1]["posted"], rows[-1]["id"]
        return self._behind_cursor(rows)

    def show(self, rows: list[Document]) -> None:
        self.shown += rows

    def page(self, db: Database, listing: Listing, size: int, key: Key | None) -> Page:
        """Returns the page. If too few comments were found before the last round ended, it ends early."""
        has_more = len(self.shown) > size
        end = None if has_more or self.is_finished else (self.next_page, *self.last)
        return CommentPage(listing, db[POSTS.name], self.shown[:size], has_more or end is not None, key, end)

    def _behind_cursor(self, rows: list[Document]) -> list[Document]:
        if self.after is None:
            return rows
        _, posted, key = self.after
        place = _place_of(key, rows)
        if place is not None:
            self.after = None
            return rows[place + 1 :]
        return [row for row in rows if (row["posted"], row["id"]) > (posted, key)]


class BackwardReader(Reader):
    """Reads the comments before a cursor: those that the post holds, and then its pages, from the last.

    A comment that the post held when its cursor was made has moved by fewer than `MOST_HELD` places, so the first read
    begins so many behind its page.
    """

    def __init__(self, post: Document, before: Key | None) -> None:
        super().__init__(post, before)
        self.next_page = self.spilled if self.after is None else self.next_page
        # The end of the pages to read next, and whether the comments that the post holds come with them.
        self._end = self.spilled if self.after is None else min(self.next_page + MOST_HELD, self.spilled)
        self._holds = self._end == self.spilled
        # The time and the id of the first comment that was considered.
        self.last = _LAST if self.after is None else (self.after[1], self.after[2])

    def next_part(self, width: int) -> Part:
        if self._holds and self.after is None:
            # The comments that the post holds come before those of pages, and can suffice.
            width = max(0, width - 1 - len(self.post["comments"]) // PAGE)
        return Part(max(0, self.next_page - width * PAGE), self._end)

    def has_more(self, considered: Part) -> bool:
        return not self.is_finished and (self._end > considered.start or considered.start == 0)

    def nearest(self, pages: Sequence[int], most: int) -> tuple[Sequence[int], Sequence[int]]:
        return pages[-most:], pages[:-most]

    def part_before(self, left: Sequence[int], considered: Part) -> Part:
        return Part(left[-1] + PAGE if left else considered.start, self._end)

    def take(self, part: Part, paged: Sequence[Document]) -> list[Document]:
        rows = list(paged)
        if self._holds:
            rows += [row_of(comment, self.spilled) for comment in self.post["comments"]]
            self._holds = False
        rows = self._before_cursor(rows)
        self.next_page = self._end = part.start
        self.is_finished = part.start == 0
        if rows:
            self.last = rows[0]["posted"], rows[0]["id"]
        return rows

    def show(self, rows: list[Document]) -> None:
        self.shown = rows + self.shown

    def page(self, db: Database, listing: Listing, size: int, key: Key | None) -> Page:
        has_more = len(self.shown) > size
        end = None if has_more or self.is_finished else (self.next_page, *self.last)
        rows = self.shown[-size:][::-1]
        return CommentPage(listing.reversed(), db[POSTS.name], rows, has_more or end is not None, key, end)

    def _before_cursor(self, rows: list[Document]) -> list[Document]:
        if self.after is None:
            return rows
        _, posted, key = self.after
        place = _place_of(key, rows)
        if place is not None:
            self.after = None
            return rows[:place]
        return [row for row in rows if (row["posted"], row["id"]) < (posted, key)]


def _place_of(key: ObjectId, rows: Sequence[Mapping[str, Any]]) -> int | None:
    return next((number for number, row in enumerate(rows) if row["id"] == key), None)


def _checked(key: Key | None) -> Key | None:
    """Returns a key whose parts can be compared. Others, which only a forged cursor has, start from the beginning."""
    if key is None or not all(map(isinstance, key, (int, datetime, ObjectId))):
        return None
    return (max(key[0], 0), key[1], key[2])
