"""Pages by key: any sort order, ties sorted by `_id`, the same cost for every page."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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

    @cached_property
    def keys(self) -> tuple[tuple[str, int], ...]:
        direction = self.paths[-1][1] if self.paths else 1
        return (*self.paths, ("_id", direction))

    def key_of(self, document: Mapping[str, Any]) -> Key:
        return tuple(value_at(document, path) for path, _ in self.keys)

    def reversed(self) -> Sort:
        return Sort(tuple((path, -direction) for path, direction in self.paths))


@dataclass(frozen=True, eq=False)
class Listing:
    """A filter and a sort order. `named` binds cursors to what the caller asked for, if `filter` can change between two
    pages. A list that is read in another way is a subclass.
    """

    filter: Mapping[str, Any]
    sort: Sort
    named: Mapping[str, Any] | None = None

    @property
    def is_walked(self) -> bool:
        """Whether a page considers only some rows, and the following page continues behind them."""
        return False

    @property
    def is_found_by_filter(self) -> bool:
        """Whether the list has exactly the rows that match its filter, sorted by what they store."""
        return True

    def reversed(self) -> Self:
        """Returns the same rows in the opposite order."""
        return replace(self, sort=self.sort.reversed())

    def binding(self) -> bytes:
        """Returns the digest of filter and sort that binds a cursor."""
        wanted = self.filter if self.named is None else self.named
        described = {"f": dict(wanted), "s": [list(key) for key in self.sort.keys]}
        return hashlib.blake2b(bson.encode(described), digest_size=_DIGEST).digest()

    def ranges(self, after: Key, *, backwards: bool = False) -> list[Range]:
        """Returns the rows after the key, or at or before it if `backwards`, as consecutive ranges of the order."""
        sort = self.sort.reversed() if backwards else self.sort
        conditions = behind(sort.keys, after, inclusive=backwards)
        return [(sendable(_both(self.filter, condition)), _order_within(sort, condition)) for condition in conditions]

    def from_key(self, after: Key | None, *, backwards: bool = False) -> Document:
        """Returns the filter of the rows after the key, or at or before it if `backwards`; of all without a key."""
        if after is None:
            return {}
        sort = self.sort.reversed() if backwards else self.sort
        return {"$or": [sendable(one) for one in behind(sort.keys, after, inclusive=backwards)]}

    def projected(self, projection: Projection | None) -> Projection | None:
        """Returns what a page reads: the projection, and the paths of its cursors."""
        return sorted_projection(self.sort.paths, projection)

    def counted(self, collection: Collection, most: int) -> list[Document]:  # noqa: ARG002 - for subclasses
        """Returns the stages that find the rows to count, at most `most`."""
        # Without a sort order, the server counts index keys and reads no documents. Without a condition, only a sort
        # order leads to an index.
        order: list[Document] = [] if self.filter else [{"$sort": dict(self.sort.keys)}]
        return [{"$match": self.filter}, *order, {"$limit": most}]

    def stages(
        self,
        collection: Collection,
        *,
        limit: int,
        after: Key | None,
        projection: Projection | None,
        backwards: bool = False,
    ) -> list[Document]:
        """Returns the stages that find the rows after the key, or at or before it if `backwards`."""
        order = dict((self.sort.reversed() if backwards else self.sort).keys)
        ranges: list[Range]
        ranges = [(dict(self.filter), order)] if after is None else self.ranges(after, backwards=backwards)
        first, *others = [self.walk(query, order, limit, projection) for query, order in ranges]
        # Scan one range after the other until the page is full. Each is one index scan, which `$or` does not guarantee.
        unions: list[Document] = [{"$unionWith": {"coll": collection.name, "pipeline": walk}} for walk in others]
        return [*first, *unions, {"$limit": limit}] if unions else first

    @staticmethod
    def walk(query: Mapping[str, Any], order: Document, limit: int, projection: Projection | None) -> list[Document]:
        """Returns the stages of one walk along an index."""
        stages: list[Document] = [{"$match": query}, {"$sort": order}, {"$limit": limit}]
        return stages if projection is None else [*stages, {"$project": projection}]

    async def page_of(
        self,
        collection: AsyncCollection[D],
        found: list[D],
        *,
        first: int,
        after: Key | None,
        projection: Projection | None,  # noqa: ARG002 - for subclasses
    ) -> Page[D]:
        """Returns the page of the rows that were found, which are one more than `first` if there are more."""
        return Page(self, collection, found[:first], len(found) > first, after)


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
    whether the caller sees any row before the page. `is_counted` is set if the caller sees each row of the listing, so
    that a count shows nothing that is hidden.
    """

    listing: Listing
    collection: AsyncCollection[D]
    documents: list[D]
    has_next: bool
    after: Key | None = None
    end: Key | None = None
    sees_before: Callable[[Page[D]], Awaitable[bool]] | None = field(default=None, repr=False)
    is_counted: bool = field(default=False, repr=False)
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
        """The cursor for the next page; None for an empty page at an end of the list."""
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
            [*listing.counted(collection, most), {"$count": "rows"}, {"$set": {"part": {"$literal": number}}}]
            for number, listing in enumerate(some)
        ]
        pipeline = parts[0] + [{"$unionWith": {"coll": collection.name, "pipeline": part}} for part in parts[1:]]
        rows = {row["part"]: row["rows"] for row in await (await collection.aggregate(pipeline)).to_list()}
        counts += [rows.get(number, 0) for number in range(len(some))]
    return counts


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
    return await listing.page_of(collection, found, first=first, after=after, projection=projection)


async def find_documents(
    collection: AsyncCollection[D],
    listing: Listing,
    *,
    limit: int,
    after: Key | None,
    projection: Projection | None,
    backwards: bool = False,
) -> list[D]:
    wanted = listing.projected(projection)
    if not listing.is_found_by_filter or after is not None:
        stages = listing.stages(collection, limit=limit, after=after, projection=wanted, backwards=backwards)
        return await (await collection.aggregate(stages, batchSize=limit + 1)).to_list()
    sort = listing.sort.reversed() if backwards else listing.sort
    cursor = collection.find(listing.filter, wanted, sort=list(sort.keys), limit=limit, batch_size=limit + 1)
    return await cursor.to_list()


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
        await listing.page_of(collection, rows, first=first, after=after, projection=projection)
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
    stages = listing.stages(collection, limit=first + 1, after=after, projection=listing.projected(projection))
    return [*stages, {"$replaceWith": {"part": {"$literal": number}, "document": "$$ROOT"}}]
