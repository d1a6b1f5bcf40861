"""Pages by key: any sort, ties by `_id`, the same cost for the last page as for the first.

A cursor holds the sort values and the `_id` of its row. It is bound to the sort and the filter it was made under;
used with another, or altered, it is refused.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import bson
from bson.codec_options import CodecOptions

from .documents import Collection, Document, Projection, with_version
from .errors import InvalidInput

Key = tuple[Any, ...]
MAX_PAGE = 100
_DIGEST = 12
# So many pages go into one command.
_PAGES_A_COMMAND = 100
# More branches than this and the server gives up on merging them in order; one scan with a residual filter is left.
_MAX_BRANCHES = 200


@dataclass(frozen=True)
class Sort:
    """Paths with 1 (ascending) or -1. `_id` is added last, in the direction of the last path, so that one index
    serves both directions.
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
    """Which documents, in which order. `any_of` is (path, values): a condition that holds for any of the values,
    kept apart from `filter` so that each value can be walked in the order of the sort. `by_score` sorts by the score
    of a full-text search, which the server works out for every match.
    """

    filter: Mapping[str, Any]
    sort: Sort
    any_of: tuple[str, tuple[Any, ...]] | None = None
    by_score: bool = False

    def binding(self) -> bytes:
        """What a cursor is bound to."""
        described = {"f": dict(self.filter), "s": [list(key) for key in self.sort.keys]}
        if self.any_of is not None:
            described["a"] = [self.any_of[0], sorted(self.any_of[1], key=str)]
        return hashlib.blake2b(bson.encode(described), digest_size=_DIGEST).digest()

    def query(self, after: Key | None = None, *, backwards: bool = False) -> Document:
        """The filter document; with `after`, only what stands behind that key (or, backwards, at or before it)."""
        sort = self.sort.reversed() if backwards else self.sort
        branches = [] if after is None else _behind(sort, after, inclusive=backwards)
        if self.any_of is None:
            return _both(self.filter, {"$or": branches} if branches else {})
        path, values = self.any_of
        chosen = {path: values[0]} if len(values) == 1 else {path: {"$in": list(values)}}
        if not branches:
            return _both(self.filter, chosen)
        if len(values) * len(branches) > _MAX_BRANCHES:
            return _both(self.filter, {**chosen, "$or": branches})
        return _both(self.filter, {"$or": [{path: value, **branch} for value in values for branch in branches]})


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> Document:
    return {"$and": [dict(one), dict(other)]} if one.keys() & other.keys() else {**one, **other}


@dataclass(slots=True)
class Page:
    """One page of a listing. `documents` are as many as were asked for, or fewer at the end."""

    listing: Listing
    collection: Collection
    documents: list[Document]
    has_next: bool
    after: Key | None = None
    _binding: bytes = field(default=b"", repr=False)

    def cursor(self, document: Document) -> str:
        if not self._binding:
            self._binding = self.listing.binding()
        return encode_cursor(self._binding, self.listing.sort.key_of(document))

    async def has_previous(self) -> bool:
        """Whether a row stands before the page: one more command, for one key."""
        if self.after is None:
            return False
        before = await find_documents(
            self.collection, self.listing, limit=1, after=self.after, projection={"_id": 1}, backwards=True
        )
        return bool(before)

    async def total(self) -> int:
        return await self.collection.count_documents(self.listing.query())


def page_size(first: int | None, default: int) -> int:
    """`first` as asked for. Raises InvalidInput below 1 and above 100."""
    if first is None:
        return default
    if not 1 <= first <= MAX_PAGE:
        raise InvalidInput(f"`first` is {first}: it must be from 1 to {MAX_PAGE}.", "first")
    return first


async def find_page(
    collection: Collection, listing: Listing, *, first: int, after: Key | None, projection: Projection | None
) -> Page:
    """One page by one command."""
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
    if listing.by_score:
        stages = _stages(listing, sort, limit=limit, after=after, projection=wanted, backwards=backwards)
        return await (await collection.aggregate(stages)).to_list()
    query = listing.query(after, backwards=backwards)
    return await collection.find(query, wanted, sort=list(sort.keys), limit=limit, batch_size=limit + 1).to_list()


def _stages(
    listing: Listing, sort: Sort, *, limit: int, after: Key | None, projection: Projection | None, backwards: bool
) -> list[Document]:
    stages: list[Document] = [{"$match": listing.query(None if listing.by_score else after, backwards=backwards)}]
    if listing.by_score:
        stages.append({"$set": {sort.paths[0][0]: {"$meta": "textScore"}}})
        if after is not None:
            stages.append({"$match": {"$or": _behind(sort, after, inclusive=backwards)}})
    stages += [{"$sort": dict(sort.keys)}, {"$limit": limit}]
    return stages if projection is None else [*stages, {"$project": projection}]


async def find_pages(
    collection: Collection,
    listings: Sequence[Listing],
    *,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> list[Page]:
    """A page of each listing, a hundred by one command, each walked by its own index."""
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
    parts = [_part(listing, number, first, after, projection) for number, listing in enumerate(listings)]
    pipeline = parts[0] + [{"$unionWith": {"coll": collection.name, "pipeline": part}} for part in parts[1:]]
    cursor = await collection.aggregate(pipeline)
    found: list[list[Document]] = [[] for _ in listings]
    for row in await cursor.to_list():
        found[row["part"]].append(row["document"])
    return [
        Page(listing, collection, rows[:first], len(rows) > first, after)
        for listing, rows in zip(listings, found, strict=True)
    ]


def _part(
    listing: Listing, number: int, first: int, after: Key | None, projection: Projection | None
) -> list[Document]:
    wanted = sorted_projection(listing.sort, projection)
    stages = _stages(listing, listing.sort, limit=first + 1, after=after, projection=wanted, backwards=False)
    return [*stages, {"$replaceWith": {"part": {"$literal": number}, "document": "$$ROOT"}}]


def sorted_projection(sort: Sort, projection: Projection | None) -> Projection | None:
    """The projection with all that a cursor and an upgrade need. A path below one that is there is left out."""
    versioned = with_version(projection)
    if versioned is None:
        return None
    needed = {path: 1 for path, _ in sort.paths if not is_covered(path, versioned)}
    return {**drop_below(versioned, needed), **needed}


def is_covered(path: str, projection: Mapping[str, int]) -> bool:
    """Whether the path or one above it is in the projection."""
    return path in projection or any(path.startswith(f"{other}.") for other in projection)


def drop_below(projection: Mapping[str, int], paths: Mapping[str, int]) -> dict[str, int]:
    """The projection without the paths that stand below one of `paths`; MongoDB refuses both at once."""
    return {name: 1 for name in projection if not any(name.startswith(f"{path}.") for path in paths)}


def value_at(document: Document, path: str) -> Any:
    """The value at a dotted path of nested documents; None where there is none."""
    value: Any = document
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _behind(sort: Sort, key: Key, *, inclusive: bool) -> list[Document]:
    """Conditions of which exactly one holds for each row behind `key`. Null sorts below every value, and a
    comparison with a value never matches null, so null needs branches of its own.
    """
    branches: list[Document] = []
    equal: Document = {}
    for (path, direction), value in zip(sort.keys, key, strict=True):
        if value is None:
            if direction > 0:
                branches.append({**equal, path: {"$ne": None}})
        else:
            branches.append({**equal, path: {"$gt" if direction > 0 else "$lt": value}})
            if direction < 0 and path != "_id":
                branches.append({**equal, path: None})
        equal[path] = value
    if inclusive:
        branches.append(equal)
    return branches


# Times are decoded as they are read from documents: naive, in UTC.
_CODEC: CodecOptions[Document] = CodecOptions()


def encode_cursor(binding: bytes, key: Key) -> str:
    body = bson.encode({str(number): value for number, value in enumerate(key)})
    digest = hashlib.blake2b(binding + body, digest_size=_DIGEST).digest()
    return urlsafe_b64encode(digest + body).rstrip(b"=").decode()


def decode_cursor(listing: Listing, cursor: str | None) -> Key | None:
    """The key in the cursor. Raises InvalidInput where it was made for another list, or altered.

    The digest tells mistakes from keys; it is no secret, for a key reveals nothing that the list does not show.
    """
    if cursor is None:
        return None
    wrong = InvalidInput("`after` is not a cursor of this list with this filter and sort.", "after")
    try:
        raw = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
        body = raw[_DIGEST:]
        if hashlib.blake2b(listing.binding() + body, digest_size=_DIGEST).digest() != raw[:_DIGEST]:
            raise wrong
        key = tuple(bson.decode(body, _CODEC).values())
    except (ValueError, bson.InvalidBSON):
        raise wrong from None
    if len(key) != len(listing.sort.keys) or any(isinstance(value, dict | list) for value in key):
        raise wrong
    return key
