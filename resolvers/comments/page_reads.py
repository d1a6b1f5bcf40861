"""Reads of the `PAGES` storage: in thread order from page to page, in other orders by the index of keys.

`backward_walks` reads from page to page in the opposite order.

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
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.hints import with_hint
from portico.resolvers.paging import Key, Page, find_page, find_pages
from portico.resolvers.parts import as_part

from .backward_walks import BackwardWalk
from .buckets import BUCKETS, HOLDING, latest_copies
from .comments import CommentListing, stored_projection, to_public
from .discussions import PAGES
from .walks import Walk, comments_where


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
        {"$project": {"discussion": 1, "low": 1, "comments": comments_where([{"$in": ["$$this._id", wanted]}])}},
        *_projection_stages(projection),
    ]

    async def read(**options: Any) -> list[Document]:
        rows: list[Document] = await (await db[BUCKETS.name].aggregate(stages, **options)).to_list()
        return rows

    found = latest_copies(await with_hint(HOLDING, read))
    return {key: comment for key, comment in found.items() if is_gone_wanted or "gone" not in comment}


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
    walks = [_walk_of(listing, first + 1, after) for listing in listings if _is_along_threads(listing)]
    others = [listing for listing in listings if not _is_along_threads(listing)]
    await _walk_all(db, walks, projection)
    pages = {
        walk.listing: Page(walk.listing, db[keys], walk.rows[:first], len(walk.rows) > first, after) for walk in walks
    }
    if others:

        async def read(db: Database) -> list[tuple[list[Document], bool, list[Document]]]:
            found = await find_pages(db[keys], others, first=first, after=after, projection={"discussion": 1})
            return [(one.documents, one.has_next, rows) for one, rows in await _load_comments(db, found, projection)]

        for listing, (documents, has_next, rows) in zip(others, await as_part(db, read), strict=True):
            page = Page(listing, db[keys], documents, has_next, after)
            pages[listing] = await _fill_page(db, page, rows, first, projection)
    return [pages[listing] for listing in listings]


def _is_along_threads(listing: CommentListing) -> bool:
    return listing.is_threaded and listing.max_depth is None and listing.parent is None


def _walk_of(listing: CommentListing, limit: int, after: Key | None) -> Walk:
    return BackwardWalk(listing, limit, after) if listing.is_backwards else Walk(listing, limit, after)


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


async def _walk_all(db: Database, walks: Sequence[Walk], projection: Projection | None) -> None:
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
