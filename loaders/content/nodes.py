"""Batched reads of content nodes by id and by path, of their slugs, and of pages of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.content import nodes as content
from portico.resolvers.documents import Database, Document, DocumentId, Projection
from portico.resolvers.paging import Key, Listing, Page


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, Document]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await content.find_by_ids(db, ids, projection)

    return read


def by_path(db: Database, projection: Projection | None) -> BatchRead[content.Path, Document]:
    async def read(paths: Sequence[content.Path]) -> Mapping[content.Path, Document]:
        return await content.find_by_paths(db, paths, projection)

    return read


def slugs(db: Database) -> BatchRead[DocumentId, str]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, str]:
        return await content.find_slugs(db, ids)

    return read


def pages(db: Database, *, first: int, after: Key | None, projection: Projection | None) -> BatchRead[Listing, Page]:
    async def read(listings: Sequence[Listing]) -> Mapping[Listing, Page]:
        found = await content.find_content_pages(db, listings, first=first, after=after, projection=projection)
        return dict(zip(listings, found, strict=True))

    return read
