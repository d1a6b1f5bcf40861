"""Product search: every filter and sort order as one index scan, and the facet counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.paging import MAX_WALKS, Listing, Sort
from portico.resolvers.text import check_length, fold, prefix_range, words

from .categories import CATEGORIES
from .product_bounds import together
from .product_terms import EVERY, property_term, stock_term, term
from .products import PRODUCTS

SORTS = {
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
    """Conditions that must all hold; None or empty is no condition. Prices are in minor units."""

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


@dataclass(frozen=True)
class Within:
    """A restriction to a category and, if `is_deep`, its descendants. `ids` are the current ids of all of these."""

    category_id: ObjectId
    is_deep: bool
    ids: Sequence[ObjectId]


def listing_of(query: ProductQuery, sort: str, within: Within | None = None) -> Listing:
    """Returns the listing of the products that match the query.

    Args:     sort: one of `SORTS`.
    Raises:   InvalidInput (a condition is impossible or too long, RELEVANCE without a search).
    """
    if sort == "RELEVANCE" and not query.search:
        raise InvalidInput("The sort RELEVANCE needs `filter.search`.", "sort", code=InvalidInput.NOT_ALLOWED)
    conditions = _conditions(query)
    named: Document | None = None
    if within is not None:
        named = {"query": together(conditions), "category": within.category_id, "is_deep": within.is_deep}
        conditions.append({"terms": _any([term("category", category_id) for category_id in within.ids])})
    is_walked = any("terms" in condition for condition in conditions)
    if not query.search and (not is_walked or (within is not None and len(within.ids) > MAX_WALKS)):
        conditions.append({"terms": EVERY})
    return Listing(together(conditions), SORTS[sort], by_score=sort == "RELEVANCE", named=named)


def _conditions(query: ProductQuery) -> list[Document]:
    conditions: list[Document] = [{"terms": wanted} for wanted in _terms(query)]
    if query.genres is not None:
        genres = dict.fromkeys(term("genre", fold(genre)) for genre in _few(query.genres, "genres"))
        conditions.append({"terms": _any(list(genres))})
    conditions += [{"keywords": wanted} for wanted in _keywords(query)]
    conditions += [{path: wanted} for path, wanted in _ranges(query).items()]
    if query.search:
        conditions.append({"$text": {"$search": check_length(query.search, "filter", "search", longest=_MAX_QUERY)}})
    return conditions


def _few(values: Sequence[Any], name: str) -> Sequence[Any]:
    if not values or len(values) > _MAX_VALUES:
        text, code = (
            f"`filter.{name}` takes 1 to {_MAX_VALUES} values.",
            InvalidInput.TOO_MANY if values else InvalidInput.TOO_FEW,
        )
        raise InvalidInput(text, "filter", name, code=code, least=1, most=_MAX_VALUES)
    return values


def _any(values: Sequence[str]) -> Any:
    return {"$in": list(values)} if len(values) > 1 else values[0]


def _terms(query: ProductQuery) -> list[str]:
    found: list[str] = []
    if query.type is not None:
        found.append(term("type", query.type))
    if query.in_stock is not None:
        found.append(stock_term(in_stock=query.in_stock))
    return found


def _keywords(query: ProductQuery) -> list[str]:
    found: list[str] = []
    for kind, value in (("actor", query.actor), ("artist", query.artist)):
        if value is not None:
            found.append(term(kind, fold(check_length(value, "filter", kind, longest=_MAX_QUERY))))
    if query.title_word is not None:
        wanted = words(check_length(query.title_word, "filter", "title_word", longest=_MAX_QUERY))
        if not wanted:
            raise InvalidInput(
                "`filter.titleWord` must contain a word.", "filter", "title_word", code=InvalidInput.EMPTY
            )
        found += [term("word", word) for word in wanted]
    if query.properties is not None:
        found += [property_term(name, value) for name, value in _few(query.properties, "properties")]
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


async def find_facets(db: Database, listing: Listing, wanted: Sequence[str], *, most: int) -> Document:
    """Counts the products of a listing by facet, by one command. Counts the first `most` products in the list's order.

    Args:     wanted: which of `types`, `genres`, `categories`, `prices` to count, and `counted`.
    Returns:  for each facet a list of {value, count}, highest count first, at most 100; for prices {min, max, count},
              lowest first. `counted` is the number of products that were counted.
    """
    stages: dict[str, list[Document]] = {
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
            {"$match": {"category": {"$ne": []}}},
            {"$set": {"_id": {"$first": "$category.slug"}}},
            {"$sort": {"count": -1, "_id": 1}},
        ],
        "prices": [
            {"$match": {"pricing.retail": {"$gte": 0}}},
            {"$bucket": {"groupBy": "$pricing.retail", "boundaries": [*PRICE_BANDS, 2**53]}},
        ],
        "counted": [{"$count": "count"}],
    }
    chosen = {name: stages[name] for name in wanted}
    needed = {"type": 1, "terms": 1, "details.genres": 1, "category_ids": 1, "pricing.retail": 1}
    products = db[PRODUCTS.name]
    pipeline = [*listing.considered(products, needed, most), {"$facet": chosen}]
    counts: Document = (await (await products.aggregate(pipeline)).to_list())[0]
    counted = counts.pop("counted", None)
    facets: Document = {name: [_facet(name, row) for row in rows] for name, rows in counts.items()}
    return facets if counted is None else {**facets, "counted": counted[0]["count"] if counted else 0}


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
        written = next(genre for genre in row["written"] if term("genre", fold(genre)) == row["_id"])
        return {"value": written, "count": row["count"]}
    if name != "prices":
        return {"value": row["_id"], "count": row["count"]}
    upper = dict(pairwise(PRICE_BANDS))
    return {"min": row["_id"], "max": upper.get(row["_id"]), "count": row["count"]}
