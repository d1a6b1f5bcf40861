"""Facets: how many products of a list have each type, genre, category and price.

The counts of a facet ignore the facet's own filter, so that a caller sees the values that can be chosen besides. Such a
facet counts another list, by a command of its own. All lists share the number of products that they examine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.texts import fold, prefix_range

from .categories import CATEGORIES
from .product_listings import ProductListing
from .product_search import ProductQuery, Within, listing_of
from .product_terms import term
from .products import PRODUCTS

# Lower bounds of the price bands, in minor units; the last is open.
PRICE_BANDS = (0, 500, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000)
MAX_FACET_VALUES = 100
_NEEDED = {"type": 1, "terms": 1, "details.genres": 1, "category_ids": 1, "pricing.retail": 1}
# The conditions by which the values of a facet are chosen.
_OWN: Mapping[str, tuple[str, ...]] = {
    "types": ("type_names",),
    "genres": ("genres",),
    "categories": ("category_ids",),
    "prices": ("min_price", "max_price"),
}


@dataclass(frozen=True)
class Asked:
    """A list of products as a caller asked for it."""

    query: ProductQuery
    sort: str
    within: Within | None = None

    def listing(self) -> ProductListing:
        """Returns the listing. Raises InvalidInput."""
        return listing_of(self.query, self.sort, self.within)

    def without(self, facet: str) -> Asked | None:
        """Returns the list without the facet's own filter; None if it has none."""
        own = _OWN.get(facet, ())
        if all(getattr(self.query, name) is None for name in own):
            return None
        nothing: Any = dict.fromkeys(own)
        return replace(self, query=replace(self.query, **nothing))


async def find_facets(
    db: Database, listing: ProductListing, wanted: Sequence[str], *, apart: Mapping[str, ProductListing], most: int
) -> Document:
    """Counts the products of a listing by facet. Counts the first `most` products in the list's order.

    Args:     wanted: which of `types`, `genres`, `categories`, `prices` to count, and `counted`.
              apart: the lists of facets that count another list. The lists share `most` equally.
    Returns:  for each facet a list of rows with `value` and `count`, highest count first, at most 100; those of
              categories with `id`, `slug` and `name` in place of `value`; those of prices with `min` and `max`, both
              inclusive, lowest first. `counted` is the number of products that were counted.
    """
    share = max(most // (len(apart) + 1), 1)
    lists: list[tuple[ProductListing, list[str]]] = [(listing, [name for name in wanted if name not in apart])]
    lists += [(other, [name]) for name, other in apart.items()]
    counts: Document = {}
    # Not as a union: a server of version 6.0.5 crashes when it explains a union of such pipelines.
    for part in await asyncio.gather(*(_count(db, one, names, share) for one, names in lists if names)):
        counts |= part
    counted = counts.pop("counted", None)
    facets: Document = {name: [_facet(name, row) for row in rows] for name, rows in counts.items()}
    return facets if counted is None else {**facets, "counted": counted[0]["count"] if counted else 0}


async def _count(db: Database, listing: ProductListing, wanted: Sequence[str], most: int) -> Document:
    stages = _stages()
    products = db[PRODUCTS.name]
    pipeline = [*listing.considered(products, _NEEDED, most), {"$facet": {name: stages[name] for name in wanted}}]
    counts: Document = (await (await products.aggregate(pipeline)).to_list())[0]
    return counts


def _stages() -> dict[str, list[Document]]:
    return {
        "types": _count_by("$type"),
        # Counted by terms, like the filter: each product once, however the genre is spelled.
        "genres": [
            {"$set": {"terms": {"$filter": {"input": "$terms", "cond": _is_term("$$this", "genre")}}}},
            {"$unwind": "$terms"},
            *_count_by("$terms", written={"$first": "$details.genres"}),
        ],
        "categories": [
            {"$unwind": "$category_ids"},
            *_count_by("$category_ids"),
            {"$lookup": {"from": CATEGORIES.name, "localField": "_id", "foreignField": "_id", "as": "category"}},
            {"$unwind": "$category"},
            {"$sort": {"count": -1, "category.slug": 1}},
        ],
        "prices": [
            {"$match": {"pricing.retail": {"$gte": 0}}},
            {"$bucket": {"groupBy": "$pricing.retail", "boundaries": [*PRICE_BANDS, 2**53]}},
        ],
        "counted": [{"$count": "count"}],
    }


def _count_by(path: str, **kept: Document) -> list[Document]:
    return [
        {"$group": {"_id": path, "count": {"$sum": 1}, **kept}},
        {"$sort": {"count": -1, "_id": 1}},
        {"$limit": MAX_FACET_VALUES},
    ]


def _is_term(value: str, kind: str) -> Document:
    lowest = term(kind, "")
    return {"$and": [{"$gte": [value, lowest]}, {"$lt": [value, prefix_range(lowest)["$lt"]]}]}


def _facet(name: str, row: Document) -> Document:
    if name == "genres":
        written: Any = next(genre for genre in row["written"] if term("genre", fold(genre)) == row["_id"])
        return {"value": written, "count": row["count"]}
    if name == "categories":
        category = row["category"]
        return {"id": row["_id"], "slug": category["slug"], "name": category["name"], "count": row["count"]}
    if name == "types":
        return {"value": row["_id"], "count": row["count"]}
    bound = dict(pairwise(PRICE_BANDS)).get(row["_id"])
    return {"min": row["_id"], "max": None if bound is None else bound - 1, "count": row["count"]}
