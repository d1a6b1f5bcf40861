"""Walks along the pages of a discussion, in thread order. See `page_reads` for what counts while a page is split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pymongo import ASCENDING, DESCENDING

from portico.resolvers.documents import Document
from portico.resolvers.paging import Key

from .buckets import BUCKETS
from .comments import END, CommentListing, to_public
from .discussions import PAGES

# Comments expected on a page: on average, pages are at least a quarter full.
EXPECTED = 25
LISTED: Document = {"$eq": [{"$ifNull": ["$$this.gone", None]}, None]}


def comments_where(conditions: Sequence[Document]) -> Document:
    """Returns the expression for the comments of a page that fulfil all conditions."""
    return {"$filter": {"input": "$comments", "cond": {"$and": list(conditions)}}}


@dataclass(eq=False)
class Walk:
    """A scan of one listing in thread order. It fills `rows` until there are `limit`, or no more comments."""

    listing: CommentListing
    limit: int
    after: Key | None
    rows: list[Document] = field(default_factory=list)
    is_done: bool = False
    # Everything before this key has been read, and the next page begins at it or after it. None: nothing has been read.
    read_to: str | None = None
    # The number of pages that the command in flight asks for.
    asked: int = 0

    @property
    def bounds(self) -> tuple[str, str]:
        """Returns the keys between which the rows are, both exclusive."""
        low, high = "", END
        if self.listing.below is not None:
            low, high = f"{self.listing.below}/", f"{self.listing.below}0"
        return (low if self.after is None else max(low, self.after[0])), high

    def stages(self, number: int) -> list[Document]:
        """Returns the stages that read the next pages, each page only up to the limit."""
        self.asked = 1 + -(-(self.limit - len(self.rows)) // EXPECTED)
        low, high = self.bounds
        listed = comments_where(
            [{"$gt": ["$$this.key", {"$literal": low}]}, {"$lt": ["$$this.key", high]}, LISTED],
        )
        rows = {"$slice": [{"$sortArray": {"input": listed, "sortBy": {"key": 1}}}, self.limit]}
        return [
            *self._pages(low, high),
            {"$project": {"discussion": 1, "low": 1, "high": 1, "split": 1, "comments": rows}},
            {"$set": {"part": {"$literal": number}}},
        ]

    def _pages(self, low: str, high: str) -> list[Document]:
        """Returns the stages that find the next pages. The first command begins at the page of the key `low`."""
        if self.read_to is not None or not low:
            return self.along({"$gte": self.read_to or "", "$lt": high}, ASCENDING, self.asked)
        behind = self.along({"$gt": low, "$lt": high}, ASCENDING, self.asked - 1)
        return [
            *self.along({"$lte": low}, DESCENDING, 1),
            {"$unionWith": {"coll": BUCKETS.name, "pipeline": behind}},
        ]

    def along(self, low: Document, order: int, limit: int) -> list[Document]:
        query = {"discussion": self.listing.discussion, "low": low}
        return [{"$match": query}, {"$sort": {"low": order}}, {"$limit": limit}]

    def take(self, found: Sequence[Document]) -> None:
        """Adds the comments of these pages. They may come in any order: `$unionWith` guarantees none."""
        found = sorted(found, key=lambda bucket: bucket["low"])
        has_more = len(found) == self.asked
        # The comments after the split may be on a page that the command did not ask for.
        is_cut = has_more and "split" in found[-1]
        ends = [bucket["low"] for bucket in found[1:]] + ([] if is_cut else [END])
        for bucket, end in zip(found, ends, strict=False):
            for comment in bucket["comments"]:
                if comment["key"] < end:
                    self.rows.append(to_public(comment, PAGES, bucket["discussion"]))
        self.is_done = not has_more or len(self.rows) >= self.limit
        if found:
            self.read_to = found[-1]["low" if is_cut else "high"]
