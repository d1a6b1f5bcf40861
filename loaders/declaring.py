"""Declares loaders: batched reads of documents by key, of pages, and of anything else that takes many keys.

A loader is a function of the database, and of what all its keys share, such as a projection. It returns the read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from portico.resolvers import keyed
from portico.resolvers.documents import Collection, CollectionSpec, D, Database, Projection
from portico.resolvers.paging import Listing, Page, count_listings

from .batching import BatchRead

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")

# The loader of pages of listings, which can be of a class of their own.
PageLoader = Callable[..., BatchRead[Any, Page[D]]]


def batched(
    find: Callable[Concatenate[Database, Sequence[K], P], Awaitable[Mapping[K, V]]],
) -> Callable[Concatenate[Database, P], BatchRead[K, V]]:
    """Makes the loader of a function that returns what it finds by key."""

    def loader(db: Database, /, *args: P.args, **given: P.kwargs) -> BatchRead[K, V]:
        return lambda keys: find(db, keys, *args, **given)

    return loader


def each(
    find: Callable[Concatenate[Database, K, P], Awaitable[V]],
) -> Callable[Concatenate[Database, P], BatchRead[K, V]]:
    """Makes the loader of a function that returns what it finds for one key. An operation has few keys, often only one.

    Without a loader, each alias of a field would read the same again.
    """

    def loader(db: Database, /, *args: P.args, **given: P.kwargs) -> BatchRead[K, V]:
        async def read(keys: Sequence[K]) -> Mapping[K, V]:
            found = await asyncio.gather(*(find(db, key, *args, **given) for key in keys))
            return dict(zip(keys, found, strict=True))

        return read

    return loader


def in_order(
    find: Callable[Concatenate[Database, Sequence[K], P], Awaitable[Sequence[V]]],
) -> Callable[Concatenate[Database, P], BatchRead[K, V]]:
    """Makes the loader of a function that returns something for each key, in their order."""

    def loader(db: Database, /, *args: P.args, **given: P.kwargs) -> BatchRead[K, V]:
        async def read(keys: Sequence[K]) -> Mapping[K, V]:
            return dict(zip(keys, await find(db, keys, *args, **given), strict=True))

        return read

    return loader


def by_key(spec: CollectionSpec[D], path: str = "_id") -> Callable[[Database, Projection | None], BatchRead[Any, D]]:
    """Makes the loader of documents by the value at `path`."""

    def loader(db: Database, projection: Projection | None) -> BatchRead[Any, D]:
        return lambda keys: spec.find_by_keys(db, keys, path=path, projection=projection)

    return loader


def pages(spec: CollectionSpec[D]) -> PageLoader[D]:
    """Makes the loader of pages."""

    async def find(db: Database, listings: Sequence[Listing], **given: Any) -> Sequence[Page[D]]:
        return await keyed.find_pages(db, spec, listings, **given)

    return in_order(find)


def counts(collection: Collection, *, most: int) -> BatchRead[Listing, int]:
    """Makes the read of the number of rows of each listing, at most `most`: one command for a hundred listings."""

    async def read(listings: Sequence[Listing]) -> Mapping[Listing, int]:
        return dict(zip(listings, await count_listings(collection, listings, most=most), strict=True))

    return read


def have_previous() -> BatchRead[Page, bool]:
    """Makes the read of whether rows precede each page: one command for each page."""

    async def read(found: Sequence[Page]) -> Mapping[Page, bool]:
        return dict(zip(found, await asyncio.gather(*(page.has_previous() for page in found)), strict=True))

    return read
