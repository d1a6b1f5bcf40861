"""Pages by key: any sort order, ties sorted by `_id`, the same cost for every page.

A cursor holds the sort values and the `_id` of its row. It is bound to its sort and filter. A cursor that was made for
others, or was altered, is refused.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import NoneType
from typing import Any

import bson
from bson import Int64, ObjectId

from .documents import Collection, Document, Projection, with_version
from .errors import InvalidInput

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

    def key_of(self, document: Document) -> Key:
        return tuple(value_at(document, path) for path, _ in self.keys)

    def reversed(self) -> Sort:
        return Sort(tuple((path, -direction) for path, direction in self.paths))


@dataclass(frozen=True, eq=False)
class Listing:
    """A filter and a sort order. `by_score` sorts by the full-text score, which the server computes for every match.
    `named` binds cursors to what the caller asked for, if `filter` can change between two pages.
    """

    filter: Mapping[str, Any]
    sort: Sort
    by_score: bool = False
    named: Mapping[str, Any] | None = None

    def binding(self) -> bytes:
        """Returns the digest of filter and sort that binds a cursor."""
        wanted = self.filter if self.named is None else self.named
        described = {"f": dict(wanted), "s": [list(key) for key in self.sort.keys]}
        return hashlib.blake2b(bson.encode(described), digest_size=_DIGEST).digest()

    def ranges(self, after: Key, *, backwards: bool = False) -> list[Range]:
        """Returns the rows after the key, or at or before it if `backwards`, as consecutive ranges of the order."""
        sort = self.sort.reversed() if backwards else self.sort
        conditions = _behind(sort, after, inclusive=backwards)
        return [(_both(self.filter, condition), _order_within(sort, condition)) for condition in conditions]


# A filter document, and the sort order that its matches still need.
Range = tuple[Document, Document]


def _order_within(sort: Sort, condition: Document) -> Document:
    """Leaves out keys that are constant within the range. The server does not detect them by itself."""
    alike = {path for path, wanted in condition.items() if not isinstance(wanted, dict)}
    return {path: direction for path, direction in sort.keys if path not in alike}


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> Document:
    return {"$and": [dict(one), dict(other)]} if one.keys() & other.keys() else {**one, **other}


@dataclass(slots=True, eq=False)
class Page:
    """One page of a listing. `documents` has fewer rows than requested only at the end.

    A page with a next page has at least one row. Otherwise a client would have no cursor for the next page, and would
    start again from the first.
    """

    listing: Listing
    collection: Collection
    documents: list[Document]
    has_next: bool
    after: Key | None = None
    _binding: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if self.has_next and not self.documents:
            raise ValueError("A page with a next page must have a row.")

    def cursor(self, document: Document) -> str:
        if not self._binding:
            self._binding = self.listing.binding()
        return encode_cursor(self._binding, self.listing.sort.key_of(document))

    async def has_previous(self) -> bool:
        """Returns whether a row precedes the page. Sends one more command, for one key."""
        if self.after is None:
            return False
        before = await find_documents(
            self.collection, self.listing, limit=1, after=self.after, projection={"_id": 1}, backwards=True
        )
        return bool(before)


async def count_listings(collection: Collection, listings: Sequence[Listing]) -> list[int]:
    """Returns the number of rows of each listing, up to a hundred listings by one command."""
    counts: list[int] = []
    for start in range(0, len(listings), _PAGES_A_COMMAND):
        some = listings[start : start + _PAGES_A_COMMAND]
        parts: list[list[Document]] = [
            [{"$match": listing.filter}, {"$count": "rows"}, {"$set": {"part": {"$literal": number}}}]
            for number, listing in enumerate(some)
        ]
        pipeline = parts[0] + [{"$unionWith": {"coll": collection.name, "pipeline": part}} for part in parts[1:]]
        rows = {row["part"]: row["rows"] for row in await (await collection.aggregate(pipeline)).to_list()}
        counts += [rows.get(number, 0) for number in range(len(some))]
    return counts


def page_size(first: int | None, default: int) -> int:
    """Returns `first`, or the default. Raises InvalidInput below 1 and above 100."""
    if first is None:
        return default
    if not 1 <= first <= MAX_PAGE:
        raise InvalidInput(f"`first` must be between 1 and {MAX_PAGE}; got {first}.", "first")
    return first


async def find_page(
    collection: Collection, listing: Listing, *, first: int, after: Key | None, projection: Projection | None
) -> Page:
    """Returns one page, by one command."""
    found = await find_documents(collection, listing, limit=first + 1, after=after, projection=projection)
    return Page(listing, collection, found[:first], len(found) > first, after)


async def find_documents(
    collection: Collection,
    listing: Listing,
    *,
    limit: int,
    after: Key | None,
    projection: Projection | None,
    backwards: bool = False,
) -> list[Document]:
    sort = listing.sort.reversed() if backwards else listing.sort
    wanted = sorted_projection(sort, projection)
    if listing.by_score or after is not None:
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
    if listing.by_score:
        return _score_stages(listing, sort, limit=limit, after=after, projection=projection, inclusive=backwards)
    ranges = [(dict(listing.filter), dict(sort.keys))] if after is None else listing.ranges(after, backwards=backwards)
    first, *others = [_walk(query, order, limit, projection) for query, order in ranges]
    # Scan one range after the other until the page is full. Each is one index scan, which `$or` does not guarantee.
    unions: list[Document] = [{"$unionWith": {"coll": collection.name, "pipeline": walk}} for walk in others]
    return [*first, *unions, {"$limit": limit}] if unions else first


def _walk(query: Document, order: Document, limit: int, projection: Projection | None) -> list[Document]:
    stages: list[Document] = [{"$match": query}, {"$sort": order}, {"$limit": limit}]
    return stages if projection is None else [*stages, {"$project": projection}]


def _score_stages(
    listing: Listing, sort: Sort, *, limit: int, after: Key | None, projection: Projection | None, inclusive: bool
) -> list[Document]:
    scored: list[Document] = [{"$match": listing.filter}, {"$set": {sort.paths[0][0]: {"$meta": "textScore"}}}]
    behind = {} if after is None else {"$or": _behind(sort, after, inclusive=inclusive)}
    return [*scored, *_walk(behind, dict(sort.keys), limit, projection)]


async def find_pages(
    collection: Collection,
    listings: Sequence[Listing],
    *,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> list[Page]:
    """Returns a page of each listing, up to a hundred by one command. Each listing is scanned by its own index."""
    if len(listings) == 1:
        return [await find_page(collection, listings[0], first=first, after=after, projection=projection)]
    found: list[Page] = []
    for start in range(0, len(listings), _PAGES_A_COMMAND):
        some = listings[start : start + _PAGES_A_COMMAND]
        found += await _find_together(collection, some, first=first, after=after, projection=projection)
    return found


async def _find_together(
    collection: Collection, listings: Sequence[Listing], *, first: int, after: Key | None, projection: Projection | None
) -> list[Page]:
    parts = [_part(collection, listing, number, first, after, projection) for number, listing in enumerate(listings)]
    pipeline = parts[0] + [{"$unionWith": {"coll": collection.name, "pipeline": part}} for part in parts[1:]]
    cursor = await collection.aggregate(pipeline, batchSize=len(listings) * (first + 1) + 1)
    found: list[list[Document]] = [[] for _ in listings]
    for row in await cursor.to_list():
        found[row["part"]].append(row["document"])
    return [
        Page(listing, collection, rows[:first], len(rows) > first, after)
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
    wanted = sorted_projection(listing.sort, projection)
    stages = _stages(collection, listing, limit=first + 1, after=after, projection=wanted)
    return [*stages, {"$replaceWith": {"part": {"$literal": number}, "document": "$$ROOT"}}]


def sorted_projection(sort: Sort, projection: Projection | None) -> Projection | None:
    """Returns the projection with the paths that cursors and upgrades need, without nested duplicates."""
    versioned = with_version(projection)
    if versioned is None:
        return None
    needed = {path: 1 for path, _ in sort.paths if not is_covered(path, versioned)}
    return {**drop_below(versioned, needed), **needed}


def is_covered(path: str, projection: Mapping[str, int]) -> bool:
    """Returns whether the path or a parent of it is in the projection."""
    return path in projection or any(path.startswith(f"{other}.") for other in projection)


def drop_below(projection: Mapping[str, int], paths: Mapping[str, int]) -> dict[str, int]:
    """Returns the projection without paths below one of `paths`; MongoDB rejects such overlaps."""
    return {name: 1 for name in projection if not any(name.startswith(f"{path}.") for path in paths)}


def value_at(document: Document, path: str) -> Any:
    """Returns the value at a dotted path of nested documents; None if there is none."""
    value: Any = document
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _behind(sort: Sort, key: Key, *, inclusive: bool) -> list[Document]:
    """Returns conditions, nearest first. For each row after `key` exactly one of them holds.

    Null sorts below every value, but comparisons with a value never match null, so null needs separate conditions.
    """
    found: list[Document] = []
    equal: Document = {}
    for (path, direction), value in zip(sort.keys, key, strict=True):
        beyond: list[Document] = []
        if value is None:
            if direction > 0:
                beyond.append({**equal, path: {"$ne": None}})
        elif path == "_id":
            comparison = ("$gt" if direction > 0 else "$lt") + ("e" if inclusive else "")
            beyond.append({**equal, path: {comparison: value}})
        else:
            beyond.append({**equal, path: {"$gt" if direction > 0 else "$lt": value}})
            if direction < 0:
                beyond.append({**equal, path: None})
        found = beyond + found
        equal[path] = value
    return found


# The types of sort values. The server does not compare others, e.g. regular expressions.
_KEY_TYPES = {NoneType, bool, int, Int64, float, str, datetime, ObjectId}


def encode_cursor(binding: bytes, key: Key) -> str:
    body = bson.encode({str(number): value for number, value in enumerate(key)})
    digest = hashlib.blake2b(binding + body, digest_size=_DIGEST).digest()
    return urlsafe_b64encode(digest + body).rstrip(b"=").decode()


def decode_cursor(listing: Listing, cursor: str | None) -> Key | None:
    """Returns the key in the cursor. Raises InvalidInput if it was made for another list, or altered.

    The digest detects mistakes. It needs no secret, because a key reveals nothing that the list does not show.
    """
    if cursor is None:
        return None
    wrong = InvalidInput("`after` is not a cursor of this list with this filter and sort.", "after")
    binding = listing.binding()
    try:
        body = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))[_DIGEST:]
        key = tuple(bson.decode(body).values())
    except (ValueError, bson.InvalidBSON):
        raise wrong from None
    if len(key) != len(listing.sort.keys) or any(type(value) not in _KEY_TYPES for value in key):
        raise wrong
    # Only the canonical text is accepted: base64 has several texts for the same bytes.
    if encode_cursor(binding, key) != cursor:
        raise wrong
    return key
