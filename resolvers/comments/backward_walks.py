"""Walks along the pages of a discussion against the thread order.

The walk reads the pages by descending `low`, and of each page what comes before the `low` of the page that it has read
before. So the copy on the page with the higher `low` counts, as in thread order.

A page may be split while the walk reads. If the walk has passed the place of the new page before that page was there,
and reads the old page when its comments have already moved, it would miss them. The `high` of the old page is below
the place where the walk is, which cannot happen otherwise. So the walk reads again from that place, and finds the new
page. A gap that stays is damage, and the walk continues behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pymongo import DESCENDING

from portico.resolvers.documents import Document

from .comments import END, to_public
from .discussions import PAGES
from .walks import EXPECTED, LISTED, Walk, comments_where

# More comments than any page has.
_ALL = 1_000


@dataclass(eq=False)
class BackwardWalk(Walk):
    """A walk that begins with the last comment of the listing.

    Everything from `read_to` on has been read, and the next page begins below it.
    """

    # The `high` of the page below a gap, after which the walk reads again.
    gap: str | None = None

    @property
    def bounds(self) -> tuple[str, str]:
        low, high = "", END
        if self.listing.below is not None:
            low, high = f"{self.listing.below}/", f"{self.listing.below}0"
        return low, high if self.after is None else min(high, self.after[0])

    def stages(self, number: int) -> list[Document]:
        self.asked = 1 + -(-(self.limit - len(self.rows)) // EXPECTED)
        low, high = self.bounds
        below = high if self.read_to is None else self.read_to
        listed = comments_where([{"$gt": ["$$this.key", low]}, {"$lt": ["$$this.key", {"$literal": high}]}, LISTED])
        # A page that is being split can begin with comments that the walk takes from the new page.
        most = {"$cond": [{"$eq": [{"$type": "$split"}, "object"]}, _ALL, self.limit]}
        rows = {"$slice": [{"$sortArray": {"input": listed, "sortBy": {"key": -1}}}, most]}
        return [
            *self.along({"$lt": below}, DESCENDING, self.asked),
            {"$project": {"discussion": 1, "low": 1, "high": 1, "split": 1, "comments": rows}},
            {"$set": {"part": {"$literal": number}}},
        ]

    def take(self, found: Sequence[Document]) -> None:
        """Adds the comments of these pages, which may come in any order, up to a gap between them."""
        low, high = self.bounds
        reached = high if self.read_to is None else self.read_to
        for bucket in sorted(found, key=lambda one: str(one["low"]), reverse=True):
            if bucket["high"] < reached and bucket["high"] != self.gap:
                self.gap, self.read_to = bucket["high"], reached
                return
            for comment in bucket["comments"]:
                if comment["key"] < reached:
                    self.rows.append(to_public(comment, PAGES, bucket["discussion"]))
            reached = bucket["low"]
        self.read_to = reached
        self.is_done = len(found) < self.asked or reached <= low or len(self.rows) >= self.limit
