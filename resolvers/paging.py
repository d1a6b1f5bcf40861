"""Pages by key: any sort order, ties sorted by `_id`, the same cost for every page."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self

import bson
from pymongo.asynchronous.collection import AsyncCollection

from .cursors import Cursors, behind
from .documents import Collection, D, Document, Projection
from .errors import InvalidInput
from .projections import sorted_projection, value_at
from .undecodable import sendable

Key = tuple[Any, ...]
MAX_PAGE = 100
_DIGEST = 12
# The most pages in one command.
_PAGES_A_COMMAND = 100
# Up to this many index scans are merged in order by the server; with more it sorts in memory.
MAX_WALKS = 200


@dataclass(frozen=True)
class Sort:
    """A sort order: paths with 1 (ascending) or -1. `_id` comes last, in the direction of the last path, so that one
    index serves both directions.
    """

    paths: tuple[tuple[str, int], ...]

    @property
    def keys(self) -> tuple[tuple[str, int], ...]:
        direction = self.paths[-1][1] if self.paths else 1
        return (*self.paths, ("_id", direction))

    def key_of(self, document: Mapping[str, Any]) -> Key:
        return tuple(value_at(document, path) for path, _ in self.keys)

    def reversed(self) -> Sort:
        return Sort(tuple((path, -direction) for path, direction in self.paths))


@dataclass(frozen=True, eq=False)
class Listing:
    """A filter and a sort order. `by_score` sorts by `score`, by default the full-text score, which the server computes
    for every match. `named` binds cursors to what the caller asked for, if `filter` can change between two pages.

    A list that could take long is bounded by `window`, in one of two ways:

    * `rest`: a page considers only the next `window` rows that match `filter`, and shows those that also match `rest`.
      It can have fewer rows than requested. The following page continues behind the last row considered.
    * `sources`, which are filters: the whole list consists of the first `window` rows of these, an equal share of each,
      in the order of their index. Of these, it has the rows that match `rest`.

    With `is_short`, an index finds all rows fast, but in another order.
    """

    filter: Mapping[str, Any]
    sort: Sort
    by_score: bool = False
    named: Mapping[str, Any] | None = None
    score: Any = field(default_factory=lambda: {"$meta": "textScore"})
    window: int = 0
    rest: Mapping[str, Any] = field(default_factory=dict)
    sources: Sequence[Mapping[str, Any]] = ()
    is_short: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether counts consider only some of the rows."""
        return bool(self.rest or self.sources)

    @property
    def is_walked(self) -> bool:
        """Whether a page considers only some rows, and the following page continues behind them."""
        return bool(self.rest) and not self.sources

    def reversed(self) -> Self:
        """Returns the same rows in the opposite order."""
        return replace(self, sort=self.sort.reversed())

    def considered(self, collection: Collection, projection: Projection, most: int) -> list[Document]:
        """Returns the stages that find the rows to count, at most `most`: the first in the order of the list."""
        kept: Document = {"$project": {**projection, "_id": 1}}
        if self.sources:
            rows: list[Document] = [{"$group": {"_id": "$_id", "row": {"$first": "$$ROOT"}}}, {"$replaceWith": "$row"}]
            return [*self.sourced(collection), kept, *rows]
        if self.rest:
            walk: list[Document] = [{"$match": self.filter}, {"$sort": dict(self.sort.keys)}, {"$limit": self.window}]
            return [*walk, {"$match": self.rest}, kept]
        if self.is_short:
            return [{"$match": self.filter}, kept]
        return [{"$match": self.filter}, {"$sort": dict(self.sort.keys)}, {"$limit": most}, kept]

    def sourced(self, collection: Collection) -> list[Document]:
        """Returns the stages that find the rows of the sources. Rows of several sources come several times."""
        share = max(self.window // len(self.sources), 1)
        parts: list[list[Document]] = [[{"$match": source}, {"$limit": share}] for source in self.sources]
        first, *others = parts
        unions: list[Document] = [{"$unionWith": {"coll": collection.name, "pipeline": part}} for part in others]
        return [*first, *unions, {"$match": self.rest}]

    def binding(self) -> bytes:
        """Returns the digest of filter and sort that binds a cursor."""
        wanted = self.filter if self.named is None else self.named
        described = {"f": dict(wanted), "s": [list(key) for key in self.sort.keys]}
        return hashlib.blake2b(bson.encode(described), digest_size=_DIGEST).digest()

    def digest(self) -> bytes:
        """Returns a digest of everything that the rows depend on, unlike a binding also of a filter that changes."""
        bounds = {"r": dict(self.rest), "o": [dict(source) for source in self.sources], "w": self.window}
        described = {"f": dict(self.filter), "s": [list(key) for key in self.sort.keys], **bounds}
        return hashlib.blake2b(bson.encode(described), digest_size=_DIGEST).digest()

    def ranges(self, after: Key, *, backwards: bool = False) -> list[Range]:
        """Returns the rows after the key, or at or before it if `backwards`, as consecutive ranges of the order."""
        sort = self.sort.reversed() if backwards else self.sort
        conditions = behind(sort.keys, after, inclusive=backwards)
        return [(sendable(_both(self.filter, condition)), _order_within(sort, condition)) for condition in conditions]


# A filter document, and the sort order that its matches still need.
Range = tuple[Mapping[str, Any], Document]


def _order_within(sort: Sort, condition: Document) -> Document:
    """Leaves out keys that are constant within the range. The server does not detect them by itself."""
    alike = {path for path, wanted in condition.items() if not isinstance(wanted, dict)}
    return {path: direction for path, direction in sort.keys if path not in alike}


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> Document:
    return {"$and": [dict(one), dict(other)]} if one.keys() & other.keys() else {**one, **other}


@dataclass(slots=True, eq=False)
class Page(Generic[D]):
    """One page of a listing. `documents` has fewer rows than requested only at the end.

    A page with a next page has at least one row, or an `end`: the key of the last row that a bounded list considered.
    Otherwise a client would have no cursor for the next page, and would start again from the first.

    `cursors` is set before a client gets the page. So is `sees_before`, if callers do not see all rows: it returns
    whether the caller sees any row before the page.
    """

    listing: Listing
    collection: AsyncCollection[D]
    documents: list[D]
    has_next: bool
    after: Key | None = None
    end: Key | None = None
    sees_before: Callable[[Page[D]], Awaitable[bool]] | None = field(default=None, repr=False)
    cursors: Cursors | None = field(default=None, repr=False)
    _binding: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if self.has_next and not self.documents and self.end is None:
            raise ValueError("A page with a next page must have a row or an end.")

    def cursor(self, document: Mapping[str, Any]) -> str:
        return self._cursor(self.listing.sort.key_of(document))

    @property
    def start_cursor(self) -> str | None:
        return self.cursor(self.documents[0]) if self.documents else None

    @property
    def end_cursor(self) -> str | None:
        """The cursor for the next page; None for an empty page that is the last."""
        if self.end is not None:
            return self._cursor(self.end)
        return self.cursor(self.documents[-1]) if self.documents else None

    def _cursor(self, key: Key) -> str:
        if self.cursors is None:
            raise ValueError("The page has no cursors. Return the page that `Paged.page` returns.")
        if not self._binding:
            self._binding = self.listing.binding()
        return self.cursors.encode(self._binding, key)

    async def has_previous(self) -> bool:
        """Returns whether a row that the caller sees precedes the page. Sends one more command, for one key.

        Where a page considers only some rows, also returns True if rows precede the page that it does not consider.
        """
        if self.after is None or self.listing.is_walked:
            return self.after is not None
        if self.sees_before is not None:
            return await self.sees_before(self)
        return bool(await self.rows_before(self.after, 1, {"_id": 1}))

    async def rows_before(self, key: Key, limit: int, projection: Projection) -> list[D]:
        """Returns the rows at the key and before it, the nearest first."""
        return await find_documents(
            self.collection, self.listing, limit=limit, after=key, projection=projection, backwards=True
        )


async def count_listings(collection: Collection, listings: Sequence[Listing], *, most: int) -> list[int]:
    """Returns the number of rows of each listing, at most `most`; up to a hundred listings by one command."""
    counts: list[int] = []
    for start in range(0, len(listings), _PAGES_A_COMMAND):
        some = listings[start : start + _PAGES_A_COMMAND]
        parts: list[list[Document]] = [
            [*_counted(collection, listing, most), {"$count": "rows"}, {"$set": {"part": {"$literal": number}}}]
            for number, listing in enumerate(some)
        ]
        pipeline = parts[0] + [{"$unionWith": {"coll": collection.name, "pipeline": part}} for part in parts[1:]]
        rows = {row["part"]: row["rows"] for row in await (await collection.aggregate(pipeline)).to_list()}
        counts += [rows.get(number, 0) for number in range(len(some))]
    return counts


def _counted(collection: Collection, listing: Listing, most: int) -> list[Document]:
    if listing.is_partial:
        return listing.considered(collection, {}, most)
    # Without a sort order, the server counts index keys and reads no documents.
    return [{"$match": listing.filter}, {"$limit": most}]


def page_size(first: int | None, default: int, *, name: str = "first", most: int = MAX_PAGE) -> int:
    """Returns `first`, or the default. Raises InvalidInput below 1 or above `most`, for the argument with this name."""
    if first is not None and not 1 <= first <= most:
        bounds: Any = {"code": InvalidInput.OUT_OF_RANGE, "least": 1, "most": most}
        raise InvalidInput(f"`{name}` must be between 1 and {most}; got {first}.", name, **bounds)
    return default if first is None else first


async def find_page(
    collection: AsyncCollection[D], listing: Listing, *, first: int, after: Key | None, projection: Projection | None
) -> Page[D]:
    """Returns one page, by one command."""
    found = await find_documents(collection, listing, limit=first + 1, after=after, projection=projection)
    return await _page(collection, listing, found, first=first, after=after, projection=projection)


async def _page(
    collection: AsyncCollection[D],
    listing: Listing,
    found: list[D],
    *,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> Page[D]:
    if len(found) > first or not listing.is_walked:
        return Page(listing, collection, found[:first], len(found) > first, after)
    # Considers the rows again, so that the page and its end are of the same moment.
    walk = _stages(collection, replace(listing, rest={}), limit=listing.window, after=after, projection=None)
    wanted = sorted_projection(listing.sort.paths, projection)
    shown: list[Document] = [{"$match": listing.rest}, {"$limit": first + 1}]
    keys = {"$project": {path: 1 for path, _ in listing.sort.keys}}
    parts = {
        "shown": shown if wanted is None else [*shown, {"$project": wanted}],
        "last": [{"$skip": listing.window - 1}, keys],
    }
    cursor = await collection.aggregate([*walk, {"$limit": listing.window}, {"$facet": parts}])
    again: Any = (await cursor.to_list())[0]
    end = listing.sort.key_of(again["last"][0]) if again["last"] else None
    if len(again["shown"]) > first:
        return Page(listing, collection, again["shown"][:first], has_next=True, after=after)
    return Page(listing, collection, again["shown"], end is not None, after, end)


async def find_documents(
    collection: AsyncCollection[D],
    listing: Listing,
    *,
    limit: int,
    after: Key | None,
    projection: Projection | None,
    backwards: bool = False,
) -> list[D]:
    sort = listing.sort.reversed() if backwards else listing.sort
    wanted = sorted_projection(sort.paths, projection)
    if listing.by_score or listing.is_partial or after is not None:
        stages = _stages(collection, listing, limit=limit, after=after, projection=wanted, backwards=backwards)
        return await (await collection.aggregate(stages, batchSize=limit + 1)).to_list()
    cursor = collection.find(listing.filter, wanted, sort=list(sort.keys), limit=limit, batch_size=limit + 1)
    return await cursor.to_list()


def _stages(
    collection: Collection,
    listing: Listing,
    *,
    limit: int,
    after: Key | None,
    projection: Projection | None,
    backwards: bool = False,
) -> list[Document]:
    sort = listing.sort.reversed() if backwards else listing.sort
    if listing.is_walked:
        considered = _stages(collection, replace(listing, rest={}), limit=listing.window, after=after, projection=None)
        shown: list[Document] = [*considered, {"$limit": listing.window}, {"$match": listing.rest}, {"$limit": limit}]
        return shown if projection is None else [*shown, {"$project": projection}]
    if listing.sources:
        return _sourced_stages(
            collection, listing, sort, limit=limit, after=after, projection=projection, inclusive=backwards
        )
    if listing.by_score:
        return _score_stages(listing, sort, limit=limit, after=after, projection=projection, inclusive=backwards)
    ranges: list[Range]
    ranges = [(dict(listing.filter), dict(sort.keys))] if after is None else listing.ranges(after, backwards=backwards)
    first, *others = [_walk(query, order, limit, projection) for query, order in ranges]
    # Scan one range after the other until the page is full. Each is one index scan, which `$or` does not guarantee.
    unions: list[Document] = [{"$unionWith": {"coll": collection.name, "pipeline": walk}} for walk in others]
    return [*first, *unions, {"$limit": limit}] if unions else first


def _walk(query: Mapping[str, Any], order: Document, limit: int, projection: Projection | None) -> list[Document]:
    stages: list[Document] = [{"$match": query}, {"$sort": order}, {"$limit": limit}]
    return stages if projection is None else [*stages, {"$project": projection}]


def _score_stages(
    listing: Listing, sort: Sort, *, limit: int, after: Key | None, projection: Projection | None, inclusive: bool
) -> list[Document]:
    scored: list[Document] = [{"$match": listing.filter}, {"$set": {sort.paths[0][0]: listing.score}}]
    later = {} if after is None else {"$or": [sendable(one) for one in behind(sort.keys, after, inclusive=inclusive)]}
    return [*scored, *_walk(later, dict(sort.keys), limit, projection)]


def _sourced_stages(
    collection: Collection,
    listing: Listing,
    sort: Sort,
    *,
    limit: int,
    after: Key | None,
    projection: Projection | None,
    inclusive: bool,
) -> list[Document]:
    scored = [{"$set": {sort.paths[0][0]: listing.score}}] if listing.by_score else []
    later = {} if after is None else {"$or": [sendable(one) for one in behind(sort.keys, after, inclusive=inclusive)]}
    order = dict(sort.keys)
    # A row comes at most once from each source, so these are enough for the page.
    copies = _walk(later, order, limit * len(listing.sources), None)
    rows: list[Document] = [{"$group": {"_id": "$_id", "row": {"$first": "$$ROOT"}}}, {"$replaceWith": "$row"}]
    return [*listing.sourced(collection), *scored, *copies, *rows, *_walk({}, order, limit, projection)]


async def find_pages(
    collection: AsyncCollection[D],
    listings: Sequence[Listing],
    *,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> list[Page[D]]:
    """Returns a page of each listing, up to a hundred by one command. Each listing is scanned by its own index."""
    if len(listings) == 1:
        return [await find_page(collection, listings[0], first=first, after=after, projection=projection)]
    found: list[Page[D]] = []
    for start in range(0, len(listings), _PAGES_A_COMMAND):
        some = listings[start : start + _PAGES_A_COMMAND]
        found += await _find_together(collection, some, first=first, after=after, projection=projection)
    return found


async def _find_together(
    collection: AsyncCollection[D],
    listings: Sequence[Listing],
    *,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> list[Page[D]]:
    parts = [_part(collection, listing, number, first, after, projection) for number, listing in enumerate(listings)]
    pipeline = parts[0] + [{"$unionWith": {"coll": collection.name, "pipeline": part}} for part in parts[1:]]
    cursor = await collection.aggregate(pipeline, batchSize=len(listings) * (first + 1) + 1)
    found: list[list[Any]] = [[] for _ in listings]
    rows: list[Any] = await cursor.to_list()
    for row in rows:
        found[row["part"]].append(row["document"])
    return [
        await _page(collection, listing, rows, first=first, after=after, projection=projection)
        for listing, rows in zip(listings, found, strict=True)
    ]


def _part(
    collection: Collection,
    listing: Listing,
    number: int,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> list[Document]:
    wanted = sorted_projection(listing.sort.paths, projection)
    stages = _stages(collection, listing, limit=first + 1, after=after, projection=wanted)
    return [*stages, {"$replaceWith": {"part": {"$literal": number}, "document": "$$ROOT"}}]
