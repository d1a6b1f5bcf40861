"""Batched reads of categories by id and by slug, of their descendants, and of pages for many parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.catalog import categories
from portico.resolvers.documents import Database, Document, DocumentId, Projection
from portico.resolvers.paging import Key, Listing, Page


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, Document]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await categories.find_by_ids(db, ids, projection)

    return read


def by_slug(db: Database, projection: Projection | None) -> BatchRead[str, Document]:
    async def read(slugs: Sequence[str]) -> Mapping[str, Document]:
        return await categories.find_by_slugs(db, slugs, projection)

    return read


def descendant_ids(db: Database) -> BatchRead[DocumentId, list[DocumentId]]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, list[DocumentId]]:
        return await categories.find_descendant_ids(db, ids)

    return read


def pages(db: Database, *, first: int, after: Key | None, projection: Projection | None) -> BatchRead[Listing, Page]:
    async def read(listings: Sequence[Listing]) -> Mapping[Listing, Page]:
        found = await categories.find_category_pages(db, listings, first=first, after=after, projection=projection)
        return dict(zip(listings, found, strict=True))

    return read
