"""Product search: every filter and sort order as one index scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    Raises:   InvalidInput (conditions are impossible or too long, RELEVANCE without a search).
    """
    return _of_all(sort) if query is EVERY_PRODUCT and within is None else _listing(query, sort, within)


@cache
def _of_all(sort: str) -> ProductListing:
    """Returns the listing of all products, which most pages ask for."""
    return _listing(EVERY_PRODUCT, sort, None)


def _listing(query: ProductQuery, sort: str, within: Within | None) -> ProductListing:
    with InvalidInput.collect() as check:
        if sort == "RELEVANCE" and not query.search:
            text = "The sort RELEVANCE needs `filter.search`."
            check.refuse(InvalidInput(text, "sort", code=InvalidInput.NOT_ALLOWED))
        conditions = _conditions(query, check)
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


def _conditions(query: ProductQuery, check: Callable[..., Any]) -> list[Document]:
    conditions: list[Document] = [{"terms": wanted} for wanted in _terms(query)]
    if query.genres is not None:
        conditions.append(check(_chosen, query.genres, "genres", _genre_term))
    if query.type_names is not None:
        conditions.append(check(_chosen, query.type_names, "type_names", _type_term))
    if query.category_ids is not None:
        conditions.append(check(_chosen, query.category_ids, "category_ids", _category_term))
    conditions += [{"keywords": wanted} for wanted in _keywords(query, check)]
    conditions += [{path: wanted} for path, wanted in _ranges(query, check).items()]
    if query.search:
        check(check_length, query.search, "filter", "search", longest=_MAX_QUERY)
        conditions.append({"$text": {"$search": query.search}})
    return conditions


def _chosen(values: Sequence[Any], name: str, term_of: Callable[[Any], str]) -> Document:
    """Returns the condition that a product has one of the values. Raises InvalidInput for none and for too many."""
    return {"terms": _any(list(dict.fromkeys(map(term_of, _few(values, name)))))}


def _genre_term(genre: str) -> str:
    return term("genre", fold(genre))


def _type_term(name: str) -> str:
    return type_name_term(name.strip())


def _category_term(category_id: ObjectId) -> str:
    return term("category", category_id)


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


def _keywords(query: ProductQuery, check: Callable[..., Any]) -> list[str]:
    found: list[str] = []
    for kind, value in (("actor", query.actor), ("artist", query.artist)):
        if value is not None:
            found.append(check(_name_term, kind, value))
    if query.title_word is not None:
        found += check(_title_terms, query.title_word) or ()
    if query.properties is not None:
        few = check(_few, query.properties, "properties") or ()
        found += [property_term(name, value) for name, value in few]
    return found


def _name_term(kind: str, name: str) -> str:
    return term(kind, fold(check_length(name, "filter", kind, longest=_MAX_QUERY)))


def _title_terms(text: str) -> list[str]:
    wanted = words(check_length(text, "filter", "title_word", longest=_MAX_QUERY))
    if not wanted:
        raise InvalidInput("`filter.titleWord` must contain a word.", "filter", "title_word", code=InvalidInput.EMPTY)
    return [term("word", word) for word in wanted]


def _ranges(query: ProductQuery, check: Callable[..., Any]) -> Document:
    ranges: Document = {}
    if query.title_prefix:
        check(check_length, query.title_prefix, "filter", "title_prefix", longest=_MAX_QUERY)
        ranges["title"] = prefix_range(query.title_prefix)
    if query.min_pct_savings is not None:
        ranges["pricing.pct_savings"] = {"$gt": query.min_pct_savings}
    prices = {"$gte": query.min_price, "$lte": query.max_price}
    if given := {operator: price for operator, price in prices.items() if price is not None}:
        ranges["pricing.retail"] = given
    return ranges
