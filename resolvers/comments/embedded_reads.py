"""Reads of embedded comments: the server selects the page within the document, and sends only the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Collection, Database, Document, Projection
from portico.resolvers.paging import Key, Page

from .comments import END, CommentListing, stored_projection, to_public
from .discussions import EMBEDDED
from .posted import EMBEDDED_COLLECTION

_LISTED: Document = {"$eq": [{"$ifNull": ["$$this.gone", None]}, None]}


class EmbeddedPage(Page):
    """A page of an embedded discussion. It knows without another command whether it has a previous page."""

    __slots__ = ("has_some_before",)

    def __init__(
        self,
        listing: CommentListing,
        collection: Collection,
        documents: list[Document],
        has_next: bool,
        after: Key | None,
        has_some_before: bool,
    ) -> None:
        super().__init__(listing, collection, documents, has_next, after)
        self.has_some_before = has_some_before

    async def has_previous(self) -> bool:
        return self.has_some_before


async def find_comments(
    db: Database, conditions: Mapping[ObjectId, Document], projection: Projection | None
) -> list[Document]:
    """Finds the comments of each discussion that match its condition, in the order of the array."""
    rows = [{"$cond": [{"$eq": ["$_id", key]}, _filter([condition]), []]} for key, condition in conditions.items()]
    stages: list[Document] = [
        {"$match": {"_id": {"$in": list(conditions)}}},
        {"$project": {"rows": {"$concatArrays": rows}}},
        {"$unwind": "$rows"},
        {"$replaceWith": {"document": "$rows", "discussion": "$_id"}},
        *_projection_stages(projection),
    ]
    found = await (await db[EMBEDDED_COLLECTION].aggregate(stages)).to_list()
    comments = [to_public(row["document"], EMBEDDED, row["discussion"]) for row in found]
    await _count_replies(db, comments, projection)
    return comments


async def find_chain(db: Database, discussion: ObjectId, key: str) -> list[Document]:
    """Finds the comment with this key and its ancestors, from the top, each with its reply count."""
    parts = key.split("/")
    keys = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    found = await find_comments(db, {discussion: {"$in": ["$$this.key", keys]}}, None)
    return sorted(found, key=lambda comment: str(comment["key"]))


def _filter(conditions: Sequence[Document], source: str = "$comments") -> Document:
    return {"$filter": {"input": source, "cond": {"$and": [*conditions, _LISTED]}}}


def _projection_stages(projection: Projection | None) -> list[Document]:
    wanted = stored_projection(projection)
    if wanted is None:
        return []
    paths = {f"document.{path}": 1 for path in wanted if path not in {"discussion", "replies"}}
    return [{"$project": {"_id": 0, "discussion": 1, "part": 1, "before": 1, **paths}}]


async def _count_replies(db: Database, comments: Sequence[Document], projection: Projection | None) -> None:
    """Adds the reply counts to the comments, by one more command, if the projection asks for them."""
    if not comments or (projection is not None and "replies" not in projection):
        return
    here = {"_id": {"$in": list({comment["discussion"] for comment in comments})}}
    paths = {f"replies.{comment['_id']}": 1 for comment in comments}
    found = await db[EMBEDDED_COLLECTION].find(here, paths).to_list()
    counts = {document["_id"]: document.get("replies", {}) for document in found}
    for comment in comments:
        comment["replies"] = counts.get(comment["discussion"], {}).get(str(comment["_id"]), 0)


async def find_embedded_pages(
    db: Database,
    listings: Sequence[CommentListing],
    *,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> list[Page]:
    """Finds a page of each listing, by one command. Each document is read once, even for several pages."""
    collection = db[EMBEDDED_COLLECTION]
    numbers: dict[Any, list[int]] = {}
    for number, listing in enumerate(listings):
        numbers.setdefault(listing.discussion, []).append(number)
    parts = [_part([(number, listings[number]) for number in some], first + 1, after) for some in numbers.values()]
    unions = [{"$unionWith": {"coll": EMBEDDED_COLLECTION, "pipeline": part}} for part in parts[1:]]
    stages = [*parts[0], *unions, *_projection_stages(projection)]
    rows: list[list[Document]] = [[] for _ in listings]
    before = [False] * len(listings)
    for row in await (await collection.aggregate(stages)).to_list():
        if "document" in row:
            rows[row["part"]].append(to_public(row["document"], EMBEDDED, row["discussion"]))
        else:
            before[row["part"]] = True
    await _count_replies(db, [comment for some in rows for comment in some[:first]], projection)
    return [
        EmbeddedPage(listing, collection, some[:first], len(some) > first, after, is_before)
        for listing, some, is_before in zip(listings, rows, before, strict=True)
    ]


def _part(listings: Sequence[tuple[int, CommentListing]], limit: int, after: Key | None) -> list[Document]:
    """Returns the pipeline for listings of one discussion. Each row has the number of its listing."""
    stages: list[Document] = [{"$match": {"_id": listings[0][1].discussion}}]
    source = "$comments"
    parents = [listing.parent for _, listing in listings]
    if None not in parents:
        # Scans the whole array once. The lists then scan only the replies to these parents.
        stages.append({"$project": {"below": _filter([{"$in": ["$$this.parent", parents]}])}})
        source = "$below"
    pages = [_rows(number, listing, limit, after, source) for number, listing in listings]
    return [
        *stages,
        {"$project": {"rows": {"$concatArrays": pages}}},
        {"$unwind": "$rows"},
        {"$replaceWith": {"$mergeObjects": ["$rows", {"discussion": "$_id"}]}},
    ]


def _rows(number: int, listing: CommentListing, limit: int, after: Key | None, source: str) -> Document:
    conditions = _conditions(listing)
    behind = conditions if after is None else [*conditions, _behind(listing, after)]
    some, row = _filter(behind, source), "$$this"
    if not listing.is_threaded:
        beside = {"posted": "$$this.posted", "slug": "$$this.slug", "comment": "$$this"}
        some, row = {"$map": {"input": some, "in": beside}}, "$$this.comment"
    # MongoDB compares documents field by field, and the sort fields come first in these. Selecting the smallest and
    # sorting only those takes a third of the time of sorting all.
    nearest = {"$maxN" if listing.is_backwards else "$minN": {"n": limit, "input": some}}
    rows = {"$sortArray": {"input": nearest, "sortBy": dict(listing.sort.paths)}}
    page = {"$map": {"input": rows, "in": {"part": {"$literal": number}, "document": row}}}
    if after is None:
        return page
    at_or_before = _filter([*conditions, {"$not": [_behind(listing, after)]}], source)
    note = [{"part": {"$literal": number}, "before": True}]
    return {"$concatArrays": [page, {"$cond": [{"$eq": [at_or_before, []]}, [], note]}]}


def _conditions(listing: CommentListing) -> list[Document]:
    found: list[Document] = []
    if listing.parent is not None:
        found.append({"$eq": ["$$this.parent", listing.parent]})
    if listing.max_depth is not None:
        found.append({"$lte": ["$$this.depth", listing.max_depth]})
    if listing.below is not None:
        found.append({"$gt": ["$$this.key", f"{listing.below}/"]})
        found.append({"$lt": ["$$this.key", f"{listing.below}0"]})
    return found or [{"$lt": ["$$this.key", END]}]


def _behind(listing: CommentListing, after: Key) -> Document:
    # Values from callers are literals, because MongoDB would read a string that begins with `$` as a path.
    comparison = "$lt" if listing.is_backwards else "$gt"
    if listing.is_threaded:
        return {comparison: ["$$this.key", {"$literal": after[0]}]}
    posted, slug = after[0], {"$literal": after[1]}
    beside = {"$and": [{"$eq": ["$$this.posted", posted]}, {comparison: ["$$this.slug", slug]}]}
    return {"$or": [{comparison: ["$$this.posted", posted]}, beside]}
