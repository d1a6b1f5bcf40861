"""Batched reads of products by SKU, and of pages and counts of products for many categories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.catalog import product_bounds, products
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


def shares(most: int) -> Callable[[Sequence[Listing]], Mapping[Listing, int]]:
    """Returns a function of the listings that an operation reads together. It gives each filter the number of products
    that its read may examine, if all filters together examine about `most`. A search may examine `most` by itself.

    Listings that the operation reads later get less.
    """
    known = 0

    def share_out(listings: Sequence[Listing]) -> Mapping[Listing, int]:
        nonlocal known
        filters = {listing for listing in listings if product_bounds.is_filtered(listing)}
        known += len(filters)
        return {one: max(most // known, LEAST_SHARE) if one in filters else most for one in listings}

    return share_out
