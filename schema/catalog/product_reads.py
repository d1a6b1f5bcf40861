"""Reads of products that take longer in a larger catalog: counts, facets, and the bounds of lists.

Everybody sees all products, so callers share the figures. A MERCHANT gets current ones.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from portico.loaders.catalog import products as loaders
from portico.resolvers.catalog import product_bounds, product_search, products
from portico.resolvers.catalog.settings import CatalogSettings
from portico.resolvers.documents import Document
from portico.resolvers.paging import Listing
from portico.schema.context import Context
from portico.schema.nodes import Kind
from portico.schema.roles import Role
from portico.schema.sharing import shared


def _most(context: Context) -> int:
    return context.resources.of(CatalogSettings).max_counted


def _products(context: Context) -> Kind:
    kind: Kind = context.served.kinds["Product"]
    return kind


async def bounded(context: Context, listing: Listing) -> Listing:
    """Returns the listing with its bounds. In a small catalog, and for most listings, that takes no command.

    The filters of one operation share what they may examine. An operation has few searches, which need not share.
    """
    most = _most(context)
    if product_bounds.is_filtered(listing):
        share = context.loader("shares of products", lambda: loaders.shares(most))
        most = await share.load(listing) or most
    probes = product_bounds.probes_of(listing, most)
    if not probes:
        return listing
    count = functools.partial(product_bounds.estimate_products, context.reading)
    if await shared(context, _products(context), "all", count) <= most:
        return product_bounds.unbounded(listing)
    read = functools.partial(product_bounds.count_probes, context.reading, probes)
    counts = await shared(context, _products(context), ("probes", repr(probes)), read)
    return product_bounds.bounded(listing, counts, most)


async def total(context: Context, listing: Listing) -> products.Total:
    """Returns the number of products in the list. Callers other than merchants share it by list."""
    most = _most(context)
    if context.has_role(Role.MERCHANT):
        batch = context.loader("product totals", lambda: loaders.totals(context.reading, most=most))
        return await batch.load(listing) or products.Total(0, is_exact=True)
    read = functools.partial(products.count_products, context.reading, [listing], most=most)
    return (await shared(context, _products(context), ("total", listing.digest()), read))[0]


async def facets(context: Context, listing: Listing, wanted: Sequence[str]) -> Document:
    """Returns the facets of the list by their names."""
    most = _most(context)
    read = functools.partial(product_search.find_facets, context.reading, listing, wanted, most=most)
    key = ("facets", listing.digest(), *wanted)
    return await shared(context, _products(context), key, read, current_for=Role.MERCHANT)
