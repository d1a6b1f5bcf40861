"""Reads of the `PAGES` storage: in thread order from page to page, in other orders by the index of keys.

While a page is being split, a comment can be on two pages, and splits of adjacent pages can be in flight together. For
each key, the page with the highest `low` that is not above the key counts:

* In thread order, pages are read in the order of `low`, and each page counts up to the `low` of the next. If the last
  page of a command is marked `split`, it is read again, together with the page after it. `high` gives no order: until a
  split is finished, the old page keeps its old `high`.
* A comment that is read by its `_id` is taken from the page with the highest `low`. It is omitted as removed only after
  that, because the copy on the other page may not show the removal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING

from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.hints import with_hint
from portico.resolvers.paging import Key, Page, find_page, find_pages

from .buckets import BUCKETS, HOLDING, latest_copies
from .comments import END, CommentListing, stored_projection, to_public
from .discussions import PAGES

# Comments expected on a page: on average, pages are at least a quarter full.
_EXPECTED = 25
_LISTED: Document = {"$eq": [{"$ifNull": ["$$this.gone", None]}, None]}


async def find_in_buckets(
    db: Database,
    ids: Mapping[ObjectId, Sequence[ObjectId]],
    projection: Projection | None,
    *,
    is_gone_wanted: bool = False,
) -> dict[ObjectId, Document]:
    """Finds comments by discussion and id, by one command."""
    wanted = [comment for some in ids.values() for comment in some]
    stages: list[Document] = [
        {"$match": {"discussion": {"$in": list(ids)}, "comments._id": {"$in": wanted}}},
        {"$project": {"discussion": 1, "low": 1, "comments": _filter([{"$in": ["$$this._id", wanted]}])}},
        *_projection_stages(projection),
    ]

    async def read(**options: Any) -> list[Document]:
        rows: list[Document] = await (await db[BUCKETS.name].aggregate(stages, **options)).to_list()
        return rows

    found = latest_copies(await with_hint(HOLDING, read))
    return {key: comment for key, comment in found.items() if is_gone_wanted or "gone" not in comment}


def _filter(conditions: list[Document]) -> Document:
    return {"$filter": {"input": "$comments", "cond": {"$and": conditions}}}


def _projection_stages(projection: Projection | None) -> list[Document]:
    """Returns the stage that reduces each comment to the projection."""
    wanted = stored_projection(projection)
    if wanted is None:
        return []
    paths = {f"comments.{path}": 1 for path in (*wanted, "gone") if path != "discussion"}
    return [{"$project": {"discussion": 1, "low": 1, "high": 1, "split": 1, **paths}}]


async def find_by_keys(
    db: Database,
    keys: str,
    listings: Sequence[CommentListing],
    *,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> list[Page]:
    """Finds a page of each listing: in thread order from the pages, in other orders by keys and then from the pages."""
    walks = [_Walk(listing, first + 1, after) for listing in listings if _is_along_threads(listing)]
    others = [listing for listing in listings if not _is_along_threads(listing)]
    await _walk_all(db, walks, projection)
    pages = {
        walk.listing: Page(walk.listing, db[keys], walk.rows[:first], len(walk.rows) > first, after) for walk in walks
    }
    if others:
        found = await find_pages(db[keys], others, first=first, after=after, projection={"discussion": 1})
        filled = await _load_comments(db, found, projection)
        for listing, (page, rows) in zip(others, filled, strict=True):
            pages[listing] = await _fill_page(db, page, rows, first, projection)
    return [pages[listing] for listing in listings]


def _is_along_threads(listing: CommentListing) -> bool:
    return listing.is_threaded and listing.max_depth is None and listing.parent is None


async def _load_comments(
    db: Database, pages: Sequence[Page], projection: Projection | None
) -> list[tuple[Page, list[Document]]]:
    """Returns each page of keys with its comments."""
    ids: dict[ObjectId, list[ObjectId]] = {}
    for page in pages:
        for row in page.documents:
            ids.setdefault(row["discussion"], []).append(row["_id"])
    found = await find_in_buckets(db, ids, projection) if ids else {}
    # A key is inserted before its comment, and removed after it.
    there = [[found[row["_id"]] for row in page.documents if row["_id"] in found] for page in pages]
    return [
        (page, [to_public(dict(row), PAGES, row["discussion"]) for row in rows])
        for page, rows in zip(pages, there, strict=True)
    ]


async def _fill_page(db: Database, keys: Page, rows: list[Document], first: int, projection: Projection | None) -> Page:
    """Returns the page of these comments, filled up if some of its keys have no comment (yet)."""
    listing, collection, after = keys.listing, keys.collection, keys.after
    while len(rows) < first and keys.has_next:
        last = listing.sort.key_of(keys.documents[-1])
        keys = await find_page(collection, listing, first=first, after=last, projection={"discussion": 1})
        ((_, more),) = await _load_comments(db, [keys], projection)
        rows = [*rows, *more]
    return Page(listing, collection, rows[:first], keys.has_next or len(rows) > first, after)


@dataclass(eq=False)
class _Walk:
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
        self.asked = 1 + -(-(self.limit - len(self.rows)) // _EXPECTED)
        low, high = self.bounds
        listed = _filter(
            [{"$gt": ["$$this.key", {"$literal": low}]}, {"$lt": ["$$this.key", high]}, _LISTED],
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
            return self._along({"$gte": self.read_to or "", "$lt": high}, ASCENDING, self.asked)
        behind = self._along({"$gt": low, "$lt": high}, ASCENDING, self.asked - 1)
        return [
            *self._along({"$lte": low}, DESCENDING, 1),
            {"$unionWith": {"coll": BUCKETS.name, "pipeline": behind}},
        ]

    def _along(self, low: Document, order: int, limit: int) -> list[Document]:
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


async def _walk_all(db: Database, walks: Sequence[_Walk], projection: Projection | None) -> None:
    """Runs all walks with one command, and further commands while some walk is not done."""
    while left := [walk for walk in walks if not walk.is_done]:
        parts: list[list[Document]] = []
        for number, walk in enumerate(left):
            parts.append([*walk.stages(number), *_part_projection(projection)])
        unions = [{"$unionWith": {"coll": BUCKETS.name, "pipeline": part}} for part in parts[1:]]
        found: list[list[Document]] = [[] for _ in left]
        for bucket in await (await db[BUCKETS.name].aggregate([*parts[0], *unions])).to_list():
            found[bucket["part"]].append(bucket)
        for walk, buckets in zip(left, found, strict=True):
            walk.take(buckets)


def _part_projection(projection: Projection | None) -> list[Document]:
    stages = _projection_stages(projection)
    return [{"$project": {**stage["$project"], "part": 1}} for stage in stages]
