"""Batched reads of products by SKU, and of pages and counts of products for many categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.catalog import products
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.paging import Key, Listing, Page

# A listing may examine as many products as this, however many listings an operation reads.
LEAST_SHARE = 20


def by_sku(db: Database, projection: Projection | None) -> BatchRead[str, Document]:
    async def read(skus: Sequence[str]) -> Mapping[str, Document]:
        return await products.find_by_skus(db, skus, projection)

    return read


def pages(db: Database, *, first: int, after: Key | None, projection: Projection | None) -> BatchRead[Listing, Page]:
    async def read(listings: Sequence[Listing]) -> Mapping[Listing, Page]:
        found = await products.find_product_pages(db, listings, first=first, after=after, projection=projection)
        return dict(zip(listings, found, strict=True))

    return read


def totals(db: Database, *, most: int) -> BatchRead[Listing, products.Total]:
    async def read(listings: Sequence[Listing]) -> Mapping[Listing, products.Total]:
        return dict(zip(listings, await products.count_products(db, listings, most=most), strict=True))

    return read


def shares(most: int) -> BatchRead[Listing, int]:
    """Returns how many products the read of each listing may examine, if all listings together examine about `most`.

    Listings that an operation reads later get less.
    """
    known = 0

    async def read(listings: Sequence[Listing]) -> Mapping[Listing, int]:
        nonlocal known
        known += len(listings)
        return dict.fromkeys(listings, max(most // known, LEAST_SHARE))

    return read
