"""Batched reads of comments by reference and by slug, and of pages of comments for many parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from portico.loaders.batching import BatchRead
from portico.resolvers.comments import storages as comment_storages
from portico.resolvers.comments.comments import CommentListing, CommentRef
from portico.resolvers.comments.storages import Link
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.paging import Key, Listing, Page


def by_ref(db: Database, projection: Projection | None) -> BatchRead[CommentRef, Document]:
    async def read(refs: Sequence[CommentRef]) -> Mapping[CommentRef, Document]:
        return await comment_storages.find_comments(db, refs, projection)

    return read


def by_link(db: Database, projection: Projection | None) -> BatchRead[Link, Document]:
    async def read(links: Sequence[Link]) -> Mapping[Link, Document]:
        return await comment_storages.find_by_links(db, links, projection)

    return read


def pages(db: Database, *, first: int, after: Key | None, projection: Projection | None) -> BatchRead[Listing, Page]:
    async def read(listings: Sequence[Listing]) -> Mapping[Listing, Page]:
        wanted = cast("Sequence[CommentListing]", listings)
        found = await comment_storages.find_comment_pages(db, wanted, first=first, after=after, projection=projection)
        return dict(zip(listings, found, strict=True))

    return read
