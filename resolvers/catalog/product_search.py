"""Product search: every filter and sort order as one index scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.paging import MAX_WALKS, Sort
from portico.resolvers.texts import check_length, fold, prefix_range, words

from .product_bounds import together
from .product_listings import ProductListing
from .product_terms import EVERY, property_term, stock_term, term, type_name_term, word_terms

SORTS = {
    "NEWEST": Sort((("issue_date", -1),)),
    "DISCOUNT_DESC": Sort((("pricing.pct_savings", -1),)),
    "PRICE_ASC": Sort((("pricing.retail", 1),)),
    "PRICE_DESC": Sort((("pricing.retail", -1),)),
    "TITLE_ASC": Sort((("title", 1),)),
    "RELEVANCE": Sort((("score", -1),)),
}
_MAX_VALUES = 50
_MAX_QUERY = 1000


@dataclass(frozen=True)
class ProductQuery:
    """Conditions that must all hold; None or empty is no condition. Prices are in minor units."""

    type: str | None = None
    type_names: Sequence[str] | None = None
    category_ids: Sequence[ObjectId] | None = None
    genres: Sequence[str] | None = None
    actor: str | None = None
    artist: str | None = None
    title_prefix: str | None = None
    title_word: str | None = None
    # A text as it is typed, and for each of its words the words that it stands for.
    typed: str | None = None
    typed_words: Sequence[Sequence[str]] = ()
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


EVERY_PRODUCT = ProductQuery()


def listing_of(query: ProductQuery, sort: str, within: Within | None = None) -> ProductListing:
    """Returns the listing of the products that match the query.

    Args:     sort: one of `SORTS`.
    Raises:   InvalidInput (a condition is impossible or too long, RELEVANCE without a search).
    """
    return _of_all(sort) if query is EVERY_PRODUCT and within is None else _listing(query, sort, within)


@cache
def _of_all(sort: str) -> ProductListing:
    """Returns the listing of all products, which most pages ask for."""
    return _listing(EVERY_PRODUCT, sort, None)


def _listing(query: ProductQuery, sort: str, within: Within | None) -> ProductListing:
    if sort == "RELEVANCE" and not query.search:
        raise InvalidInput("The sort RELEVANCE needs `filter.search`.", "sort", code=InvalidInput.NOT_ALLOWED)
    conditions = _conditions(query)
    named: Document | None = None
    if within is not None or query.typed is not None:
        named = {"query": together(conditions)}
    if named is not None and query.typed is not None:
        # A word can stand for more words when the next page is read.
        named["typed"] = query.typed
        conditions += [{"keywords": _any(word_terms(found) or [term("word", "")])} for found in query.typed_words]
    if named is not None and within is not None:
        named |= {"category": within.category_id, "is_deep": within.is_deep}
        conditions.append({"terms": _any([term("category", category_id) for category_id in within.ids])})
    is_walked = any("terms" in condition for condition in conditions)
    if not query.search and (not is_walked or (within is not None and len(within.ids) > MAX_WALKS)):
        conditions.append({"terms": EVERY})
    return ProductListing(together(conditions), SORTS[sort], by_score=sort == "RELEVANCE", named=named)


def _conditions(query: ProductQuery) -> list[Document]:
    conditions: list[Document] = [{"terms": wanted} for wanted in _terms(query)]
    if query.genres is not None:
        genres = dict.fromkeys(term("genre", fold(genre)) for genre in _few(query.genres, "genres"))
        conditions.append({"terms": _any(list(genres))})
    if query.type_names is not None:
        names = dict.fromkeys(type_name_term(name.strip()) for name in _few(query.type_names, "type_names"))
        conditions.append({"terms": _any(list(names))})
    if query.category_ids is not None:
        keys = dict.fromkeys(term("category", key) for key in _few(query.category_ids, "category_ids"))
        conditions.append({"terms": _any(list(keys))})
    conditions += [{"keywords": wanted} for wanted in _keywords(query)]
    conditions += [{path: wanted} for path, wanted in _ranges(query).items()]
    if query.search:
        conditions.append({"$text": {"$search": check_length(query.search, "filter", "search", longest=_MAX_QUERY)}})
    return conditions


def _few(values: Sequence[Any], name: str) -> Sequence[Any]:
    if not values or len(values) > _MAX_VALUES:
        text, code = (
            f"`filter` takes 1 to {_MAX_VALUES} {name.replace('_', ' ')}; got {len(values):,}.",
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
