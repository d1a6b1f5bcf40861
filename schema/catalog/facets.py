"""The facets of a list of products: counts of values, with the filters that choose them."""

from collections.abc import Mapping, Sequence

import strawberry

from portico.resolvers.catalog.product_facets import MAX_FACET_VALUES, PRICE_BANDS
from portico.resolvers.catalog.product_search import ProductQuery
from portico.resolvers.documents import Document
from portico.resolvers.texts import fold
from portico.schema.fields import stored
from portico.schema.kinds import Kind
from portico.schema.scalars import JSON, BigInt

_FILTER = (
    "The part of a `ProductFilter` that chooses only this value. To choose several, put the values of its list "
    "into one list."
)
_IS_SELECTED = "Whether the filter of the list chooses this value."


@strawberry.type(description="How many products have a value.")
class FacetCount:
    value: str = stored(description="The value; for a category its slug.")
    name: str = stored(description="For display: the name of the category, or the value.")
    count: int = stored(description="Products with it.")
    filter: JSON = stored(description=_FILTER)
    is_selected: bool = stored(description=_IS_SELECTED)


@strawberry.type(description="The number of products in a price range.")
class PriceBand:
    min: BigInt = stored(description="Minor units, inclusive, like `minPrice`.")
    max: BigInt | None = stored(description="Minor units, inclusive, like `maxPrice`; null for the last band.")
    count: int = stored(description="Products in it.")
    filter: JSON = stored(description="The part of a `ProductFilter` that chooses this range.")
    is_selected: bool = stored(description=_IS_SELECTED)


@strawberry.type(
    description="Counts over a list of products, highest count first, at most 100 for each facet. The counts of a "
    "facet ignore the facet's own filter, so that they show what can be chosen besides."
)
class ProductFacets:
    counted: int = stored(
        description="How many products were counted: all of the list, or the first in its order if it is longer than "
        "the bound."
    )
    types: list[FacetCount] = stored(
        length=MAX_FACET_VALUES, description="By the merchant's own type. Ignores `typeNames`."
    )
    genres: list[FacetCount] = stored(
        length=MAX_FACET_VALUES, description="By genre (albums and films). Ignores `genres`."
    )
    categories: list[FacetCount] = stored(
        length=MAX_FACET_VALUES, description="By the categories they are directly in. Ignores `categoryIds`."
    )
    prices: list[PriceBand] = stored(
        length=len(PRICE_BANDS), description="By retail price, lowest first. Ignores `minPrice` and `maxPrice`."
    )


def shown_facets(counts: Mapping[str, list[Document]], query: ProductQuery) -> Document:
    """Returns the counts with the filters that choose the values, for a list with this query."""
    rows = {"types": _type, "genres": _genre, "categories": _category, "prices": _price}
    return {
        name: [rows[name](row, query) for row in found] if name in rows else found for name, found in counts.items()
    }


def _type(row: Document, query: ProductQuery) -> Document:
    return _value(row, "typeNames", row["value"], is_selected=row["value"] in _trimmed(query.type_names))


def _genre(row: Document, query: ProductQuery) -> Document:
    chosen = {fold(genre) for genre in query.genres or ()}
    return _value(row, "genres", row["value"], is_selected=fold(row["value"]) in chosen)


def _category(row: Document, query: ProductQuery) -> Document:
    named = {"value": row["slug"], "name": row["name"], "count": row["count"]}
    is_selected = row["id"] in (query.category_ids or ())
    return _value(named, "categoryIds", Kind.encode_id("Category", row["id"]), is_selected=is_selected)


def _value(row: Document, condition: str, value: str, *, is_selected: bool) -> Document:
    return {"name": row["value"], **row, "filter": {condition: [value]}, "is_selected": is_selected}


def _trimmed(names: Sequence[str] | None) -> list[str]:
    return [name.strip() for name in names or ()]


def _price(row: Document, query: ProductQuery) -> Document:
    chosen = (query.min_price or 0, query.max_price)
    is_chosen = (query.min_price, query.max_price) != (None, None) and chosen == (row["min"], row["max"])
    return {**row, "filter": {"minPrice": row["min"], "maxPrice": row["max"]}, "is_selected": is_chosen}
