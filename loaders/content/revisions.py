"""Batched reads of revisions by id, and of pages of revisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.content import revisions
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.paging import Key, Listing, Page


def by_id(db: Database, projection: Projection | None) -> BatchRead[str, Document]:
    async def read(ids: Sequence[str]) -> Mapping[str, Document]:
        return await revisions.find_by_ids(db, ids, projection)

    return read


def pages(db: Database, *, first: int, after: Key | None, projection: Projection | None) -> BatchRead[Listing, Page]:
    async def read(listings: Sequence[Listing]) -> Mapping[Listing, Page]:
        found = await revisions.find_revision_pages(db, listings, first=first, after=after, projection=projection)
        return dict(zip(listings, found, strict=True))

    return read
