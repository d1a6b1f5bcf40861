"""Reads of products that take longer in a larger catalog: counts, facets, and the bounds of lists.

Everybody sees all products, so callers share the figures. A MERCHANT gets current ones.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.loaders.catalog import products as loaders
from portico.resolvers.catalog import product_bounds, product_facets, products
from portico.resolvers.catalog.product_facets import Asked
from portico.resolvers.catalog.product_listings import ProductListing
from portico.resolvers.catalog.products import ProductDocument
from portico.resolvers.catalog.related_products import MAX_RELATED, Subject
from portico.resolvers.catalog.settings import CatalogSettings
from portico.resolvers.documents import Document, projection_name
from portico.resolvers.paging import page_size
from portico.schema.context import Context, Info, core
from portico.schema.kinds import Kind
from portico.schema.nodes import projection_of
from portico.schema.sharing import shared

from .merchants import MERCHANT


def _most(context: Context) -> int:
    return context.resources.of(CatalogSettings).max_counted


def _products(context: Context) -> Kind:
    kind: Kind = context.served.kinds["Product"]
    return kind


async def bounded(context: Context, listing: ProductListing) -> ProductListing:
    """Returns the listing with its bounds. In a small catalog, and for most listings, that takes no command.

    The listings of one level get their bounds together: otherwise the moments at which their counts arrive would decide
    which pages share a command.
    """
    if not product_bounds.may_be_long(listing):
        return listing
    batch = context.loader("bounds of products", lambda: _bounds(context))
    return await batch.load(listing) or listing


def _bounds(context: Context) -> BatchRead[ProductListing, ProductListing]:
    """The filters of one operation share what they may examine. It has few searches, which need not share."""
    share_out = loaders.shares(_most(context))

    async def read(listings: Sequence[ProductListing]) -> Mapping[ProductListing, ProductListing]:
        shares = share_out(listings)
        probes = {one: product_bounds.probes_of(one, shares[one]) for one in listings}
        count = functools.partial(product_bounds.estimate_products, context.reading, list(shares.values()))
        size = await shared(context, _products(context), "all", count) if any(probes.values()) else 0
        found = {one: product_bounds.unbounded(one) if probes[one] else one for one in listings}
        large = [one for one in listings if probes[one] and size > shares[one]]
        wanted = [probe for one in large for probe in probes[one]]
        if wanted:
            read = functools.partial(product_bounds.count_probes, context.reading, wanted)
            counts = iter(await shared(context, _products(context), ("probes", repr(wanted)), read))
            for one in large:
                found[one] = product_bounds.bounded(one, list(itertools.islice(counts, len(probes[one]))), shares[one])
        return found

    return read


async def total(context: Context, listing: ProductListing) -> products.Total:
    """Returns the number of products in the list. Callers other than merchants share it by list."""
    most = _most(context)
    if context.has_role(MERCHANT):
        batch = context.loader("product totals", lambda: loaders.totals(context.reading, most=most))
        return await batch.load(listing) or products.Total(0, is_exact=True)
    read = functools.partial(products.count_products, context.reading, [listing], most=most)
    return (await shared(context, _products(context), ("total", listing.digest()), read))[0]


async def typed_words(context: Context, text: str) -> list[list[str]]:
    """Returns for each word of a typed text the words that it stands for."""
    batch = context.loader("typed words", lambda: loaders.typed_words(context.reading))
    return await batch.load(text) or []


async def related(
    info: Info, kind: Kind[ProductDocument], product: ProductDocument, first: int
) -> list[ProductDocument]:
    """Returns the products that have most in common with a product. Those of all products of a level take one command.

    Raises:   InvalidInput (`first`).
    """
    page_size(first, MAX_RELATED, most=MAX_RELATED)
    context, projection = info.context, projection_of(core(info), kind)
    name = ("related products", first, projection_name(projection))
    batch = context.loader(name, lambda: loaders.related(context.reading, first=first, projection=projection))
    return await batch.load(Subject.of(product)) or []


async def facets(context: Context, asked: Asked, listing: ProductListing, wanted: Sequence[str]) -> Document:
    """Returns the facets of the list by their names. A facet with a filter of its own counts the list without it."""
    most = _most(context)
    others = {name: other for name in wanted if (other := asked.without(name)) is not None}
    lists = await asyncio.gather(*(bounded(context, other.listing()) for other in others.values()))
    apart = dict(zip(others, lists, strict=True))
    read = functools.partial(product_facets.find_facets, context.reading, listing, wanted, apart=apart, most=most)
    key = ("facets", listing.digest(), *wanted, *(other.digest() for other in lists))
    return await shared(context, _products(context), key, read, current_for=MERCHANT)
