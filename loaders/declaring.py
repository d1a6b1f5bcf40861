"""Batched reads of documents by key, and of pages, for any collection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from portico.resolvers import keyed
from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.paging import Key, Listing, Page

from .batching import BatchRead


def by_key(
    spec: CollectionSpec, path: str = "_id"
) -> Callable[[Database, Projection | None], BatchRead[Any, Document]]:
    """Makes the batched read of documents by the value at `path`."""

    def reader(db: Database, projection: Projection | None) -> BatchRead[Any, Document]:
        async def read(keys: Sequence[Any]) -> Mapping[Any, Document]:
            return await keyed.find_by_keys(db, spec, keys, path=path, projection=projection)

        return read

    return reader


def pages(spec: CollectionSpec) -> Callable[..., BatchRead[Listing, Page]]:
    """Makes the batched read of pages."""

    def reader(
        db: Database, *, first: int, after: Key | None, projection: Projection | None
    ) -> BatchRead[Listing, Page]:
        async def read(listings: Sequence[Listing]) -> Mapping[Listing, Page]:
            found = await keyed.find_pages(db, spec, listings, first=first, after=after, projection=projection)
            return dict(zip(listings, found, strict=True))

        return read

    return reader


def have_previous() -> BatchRead[Page, bool]:
    """Makes the read of whether rows precede each page: one command for each page."""

    async def read(found: Sequence[Page]) -> Mapping[Page, bool]:
        return dict(zip(found, await asyncio.gather(*(page.has_previous() for page in found)), strict=True))

    return read
