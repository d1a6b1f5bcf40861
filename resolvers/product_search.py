"""Finding products: every filter and sort as one walk along an index, and the counts beside the results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from bson import ObjectId

from .categories import CATEGORIES
from .documents import Database, Document
from .errors import InvalidInput
from .paging import Listing, Sort
from .product_terms import ALBUM, EVERY, FILM, property_term, stock_term, term
from .products import PRODUCTS
from .text import check_length, fold, words

SortName = Literal["NEWEST", "DISCOUNT_DESC", "PRICE_ASC", "PRICE_DESC", "TITLE_ASC", "RELEVANCE"]

SORTS: dict[SortName, Sort] = {
    "NEWEST": Sort((("issue_date", -1),)),
    "DISCOUNT_DESC": Sort((("pricing.pct_savings", -1),)),
    "PRICE_ASC": Sort((("pricing.retail", 1),)),
    "PRICE_DESC": Sort((("pricing.retail", -1),)),
    "TITLE_ASC": Sort((("title", 1),)),
    "RELEVANCE": Sort((("score", -1),)),
}
# Lower bounds of the price bands, in minor units; the last is open.
PRICE_BANDS = (0, 500, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000)
MAX_FACET_VALUES = 100
_MAX_VALUES = 50
_MAX_QUERY = 1000


@dataclass(frozen=True)
class ProductQuery:
    """Conditions that all must hold; None or empty is no condition. Prices in minor units."""

    type: str | None = None
    genres: Sequence[str] | None = None
    actor: str | None = None
    artist: str | None = None
    title_prefix: str | None = None
    title_word: str | None = None
    search: str | None = None
    min_pct_savings: int | None = None
    min_price: int | None = None
    max_price: int | None = None
    properties: Sequence[tuple[str, str]] | None = None
    in_stock: bool | None = None


def listing_of(query: ProductQuery, sort: SortName, category_ids: Sequence[ObjectId] | None = None) -> Listing:
    """The listing of the products that the query lets through, in any of the categories where some are given.

    Raises:   InvalidInput (a condition that cannot be met or is too long, RELEVANCE without a search).
    """
    if sort == "RELEVANCE" and not query.search:
        raise InvalidInput("RELEVANCE sorts the matches of a search; `filter.search` is missing.", "sort")
    terms = _terms(query)
    any_of: list[tuple[Any, ...]] = []
    if category_ids is not None:
        any_of.append(tuple(term("category", category_id) for category_id in category_ids))
    if query.genres is not None:
        any_of.append(tuple(dict.fromkeys(term("genre", fold(genre)) for genre in _few(query.genres, "genres"))))
    conditions: list[Document] = [{"terms": {"$in": list(values)}} for values in any_of[1:]]
    if terms:
        conditions.append({"terms": {"$all": terms}} if len(terms) > 1 else {"terms": terms[0]})
    elif not any_of and not query.search:
        conditions.append({"terms": EVERY})
    found: Document = dict(conditions[0]) if len(conditions) == 1 else {"$and": conditions} if conditions else {}
    found |= _ranges(query)
    if query.search:
        found["$text"] = {"$search": check_length(query.search, "filter", "search", longest=_MAX_QUERY)}
    chosen = ("terms", any_of[0]) if any_of else None
    return Listing(found, SORTS[sort], chosen, by_score=sort == "RELEVANCE")


def _few(values: Sequence[Any], name: str) -> Sequence[Any]:
    if not values or len(values) > _MAX_VALUES:
        raise InvalidInput(f"`filter.{name}` takes 1 to {_MAX_VALUES} values.", "filter", name)
    return values


def _terms(query: ProductQuery) -> list[str]:
    found: list[str] = []
    if query.type is not None:
        found.append(term("type", query.type))
    for kind, value in (("actor", query.actor), ("artist", query.artist)):
        if value is not None:
            found.append(term(kind, fold(check_length(value, "filter", kind, longest=_MAX_QUERY))))
    if query.title_word is not None:
        wanted = words(check_length(query.title_word, "filter", "title_word", longest=_MAX_QUERY))
        if not wanted:
            raise InvalidInput("`filter.titleWord` holds no word.", "filter", "title_word")
        found += [term("word", word) for word in wanted]
    if query.properties is not None:
        found += [property_term(name, value) for name, value in _few(query.properties, "properties")]
    if query.in_stock is not None:
        found.append(stock_term(in_stock=query.in_stock))
    return found


def _ranges(query: ProductQuery) -> Document:
    ranges: Document = {}
    if query.title_prefix:
        ranges["title"] = prefix_range(check_length(query.title_prefix, "filter", "title_prefix", longest=_MAX_QUERY))
    if query.min_pct_savings is not None:
        ranges["pricing.pct_savings"] = {"$gt": query.min_pct_savings}
    prices = {"$gte": query.min_price, "$lte": query.max_price}
    if given := {operator: price for operator, price in prices.items() if price is not None}:
        ranges["pricing.retail"] = given
    return ranges


def prefix_range(prefix: str) -> Document:
    """Strings that begin with the prefix, as a range: exact bounds in an index, and nothing to escape."""
    upper = prefix
    while upper:
        last = ord(upper[-1])
        if last < sys.maxunicode:
            # The code points of surrogates belong to no text.
            following = chr(0xE000 if last + 1 == 0xD800 else last + 1)  # noqa: PLR2004
            return {"$gte": prefix, "$lt": upper[:-1] + following}
        upper = upper[:-1]
    return {"$gte": prefix}


async def find_facets(db: Database, listing: Listing, wanted: Sequence[str]) -> Document:
    """Counts over everything in the listing, by one command.

    Args:     wanted: which of `types`, `genres`, `categories`, `prices` to count.
    Returns:  for each a list of {value, count}, most first, at most 100; prices as {min, max, count}, lowest first.
    """
    stages = {
        "types": _count_by("$type"),
        "genres": [
            {"$match": {"type": {"$in": [ALBUM, FILM]}}},
            {"$unwind": "$details.genres"},
            *_count_by("$details.genres"),
        ],
        "categories": [
            {"$unwind": "$category_ids"},
            *_count_by("$category_ids"),
            {"$lookup": {"from": CATEGORIES.name, "localField": "_id", "foreignField": "_id", "as": "category"}},
            {"$match": {"category": {"$ne": []}}},
            {"$set": {"_id": {"$first": "$category.slug"}}},
        ],
        "prices": [
            {"$match": {"pricing.retail": {"$gte": 0}}},
            {"$bucket": {"groupBy": "$pricing.retail", "boundaries": [*PRICE_BANDS, 2**53]}},
        ],
    }
    chosen = {name: stages[name] for name in wanted}
    needed = {"type": 1, "details.genres": 1, "category_ids": 1, "pricing.retail": 1}
    pipeline = [{"$match": listing.query()}, {"$project": needed}, {"$facet": chosen}]
    counts: Document = (await (await db[PRODUCTS.name].aggregate(pipeline)).to_list())[0]
    return {name: [_facet(name, row) for row in rows] for name, rows in counts.items()}


def _count_by(path: str) -> list[Document]:
    return [
        {"$group": {"_id": path, "count": {"$sum": 1}}},
        {"$sort": {"count": -1, "_id": 1}},
        {"$limit": MAX_FACET_VALUES},
    ]


def _facet(name: str, row: Document) -> Document:
    if name != "prices":
        return {"value": row["_id"], "count": row["count"]}
    upper = dict(pairwise(PRICE_BANDS))
    return {"min": row["_id"], "max": upper.get(row["_id"]), "count": row["count"]}
