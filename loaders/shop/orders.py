"""Batched reads of orders by id, and of pages of orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.paging import Key, Listing, Page
from portico.resolvers.shop import orders


def by_id(db: Database, projection: Projection | None) -> BatchRead[str, Document]:
    async def read(ids: Sequence[str]) -> Mapping[str, Document]:
        return await orders.find_by_ids(db, ids, projection)

    return read


def pages(db: Database, *, first: int, after: Key | None, projection: Projection | None) -> BatchRead[Listing, Page]:
    async def read(listings: Sequence[Listing]) -> Mapping[Listing, Page]:
        found = await orders.find_order_pages(db, listings, first=first, after=after, projection=projection)
        return dict(zip(listings, found, strict=True))

    return read
