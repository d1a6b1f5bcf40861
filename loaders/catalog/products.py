"""Batched reads of products by SKU, and of pages and counts of products for many categories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from portico.loaders.declaring import batched, in_order
from portico.resolvers.catalog import product_bounds, products, related_products, vocabulary
from portico.resolvers.catalog.product_listings import ProductListing

by_sku = batched(products.find_by_skus)
pages = in_order(products.find_product_pages)
typed_words = batched(vocabulary.find_words)
related = batched(related_products.find_related)
totals = in_order(products.count_products)

# A listing may examine as many products as this, however many listings an operation reads.
LEAST_SHARE = 20


def shares(most: int) -> Callable[[Sequence[ProductListing]], Mapping[ProductListing, int]]:
    """Returns a function of the listings that an operation reads together. It gives each filter the number of products
    that its read may examine, if all filters together examine about `most`. A search may examine `most` by itself.

    Listings that the operation reads later get less.
    """
    known = 0

    def share_out(listings: Sequence[ProductListing]) -> Mapping[ProductListing, int]:
        nonlocal known
        filters = {listing for listing in listings if product_bounds.is_filtered(listing)}
        known += len(filters)
        return {one: max(most // known, LEAST_SHARE) if one in filters else most for one in listings}

    return share_out
