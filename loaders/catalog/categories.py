"""Batched reads of categories by id and by slug, of their descendants, and of pages for many parents."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.catalog import categories
from portico.resolvers.documents import Database, Document, DocumentId, Projection
from portico.resolvers.errors import InvalidInput
from portico.resolvers.paging import Key, Listing, Page

# Returns the ids of a category and its descendants. Each call counts them. Raises InvalidInput if there are too many.
Claim = Callable[[], Sequence[DocumentId]]


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, Document]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await categories.find_by_ids(db, ids, projection)

    return read


def by_slug(db: Database, projection: Projection | None) -> BatchRead[str, Document]:
    async def read(slugs: Sequence[str]) -> Mapping[str, Document]:
        return await categories.find_by_slugs(db, slugs, projection)

    return read


def subtrees(db: Database, *, most: int) -> BatchRead[DocumentId, Claim]:
    """Reads categories with their descendants. All claims of an operation together get at most `most` ids."""
    left = most
    refusal = (
        f"The lists of products in this operation cover more than {most:,} categories. Set `includeDescendants` to "
        "false, or ask for the products of fewer or smaller categories."
    )

    def claim(ids: Sequence[DocumentId]) -> Sequence[DocumentId]:
        nonlocal left
        left -= len(ids)
        if left < 0:
            raise InvalidInput(refusal, "include_descendants")
        return ids

    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Claim]:
        # With one more than is left, no list silently lacks categories.
        most_read = max(left, 0) + 1
        found = await categories.find_descendant_ids(db, ids, most=most_read)
        if sum(map(len, found.values())) >= most_read:
            raise InvalidInput(refusal, "include_descendants")
        return {key: functools.partial(claim, [key, *below]) for key, below in found.items()}

    return read


def pages(db: Database, *, first: int, after: Key | None, projection: Projection | None) -> BatchRead[Listing, Page]:
    async def read(listings: Sequence[Listing]) -> Mapping[Listing, Page]:
        found = await categories.find_category_pages(db, listings, first=first, after=after, projection=projection)
        return dict(zip(listings, found, strict=True))

    return read
