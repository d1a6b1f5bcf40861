"""Validation of products: turns input into the fields of a document, or raises an error with the path of the value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from bson import ObjectId

from portico.resolvers.documents import Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.money import MAX_AMOUNT
from portico.resolvers.texts import require_line, require_text, require_texts

from .product_fields import MAX_SKU, MAX_TITLE, PLAIN, PlainFields
from .product_terms import ALBUM, FILM, SearchKeys, search_keys
from .products import MerchantFields, Pricing, ProductDocument, Property, Shipping, priced

MAX_LIST = 500
MAX_DETAILS_DEPTH = 20
MAX_DETAILS_VALUES = 5_000
MAX_DETAILS_CHARACTERS = 1_000_000
_CURRENCY = re.compile("[A-Z]{3}")
# BSON integers are smaller than this.
_INT64 = 2**63

# For each type: the keys of `details` in the input, the keys as stored, and whether the value is a list.
_DETAILS: dict[str, dict[str, tuple[str, bool]]] = {
    ALBUM: {"artist": ("artist", False), "genres": ("genres", True), "tracks": ("tracks", True)},
    FILM: {
        "directors": ("directors", True),
        "writers": ("writers", True),
        "actors": ("actors", True),
        "genres": ("genres", True),
        "aspectRatio": ("aspect_ratio", False),
    },
}


class Price(NamedTuple):
    """An amount in minor units, and an ISO 4217 code."""

    amount: int
    currency: str


class ProductFields(NamedTuple):
    """A product as a merchant describes it. Weight in ounces; dimensions (width, height, depth) in inches.

    `plain` has the fields of `PLAIN`. They and `details` are unchecked input.
    """

    sku: str
    type: str
    plain: Mapping[str, Any]
    list_price: Price
    retail_price: Price
    weight: float | None = None
    dimensions: tuple[float, float, float] | None = None
    category_ids: Sequence[ObjectId] = ()
    properties: Sequence[tuple[str, str]] = ()
    details: object = MappingProxyType({})


class DescribedProduct(MerchantFields, SearchKeys):
    """What a merchant says about a product, with the search values that follow from it."""


def document_of(fields: ProductFields, category_ids: Sequence[ObjectId] | None = None) -> DescribedProduct:
    """Returns the fields of the document that the merchant sets. Raises InvalidInput.

    Args:     category_ids: instead of those in `fields`.
    """
    category_ids = fields.category_ids if category_ids is None else category_ids
    with InvalidInput.collect() as check:
        sku = check(require_line, fields.sku, "sku", longest=MAX_SKU)
        product_type = check(require_line, fields.type, "type", longest=MAX_SKU)
        # Those that are not given are None.
        checked: Any = {name: check(field.check, fields.plain.get(name), name) for name, field in PLAIN.items()}
        pricing = check(pricing_of, fields.list_price, fields.retail_price)
        shipping = check(shipping_of, fields.weight, fields.dimensions)
        categories = check(_few, list(dict.fromkeys(category_ids)), "category_ids")
        properties = check(properties_of, fields.properties)
        details = check(details_of, fields.type.strip(), fields.details)
    plain: PlainFields = checked
    document: MerchantFields = {
        "sku": sku,
        "type": product_type,
        **plain,
        "pricing": pricing,
        "shipping": shipping,
        "category_ids": categories,
        "properties": properties,
        "details": details,
    }
    return {**document, **search_keys(document)}


def pricing_of(list_price: Price, retail: Price) -> Pricing:
    with InvalidInput.collect() as check:
        for name, price in (("list", list_price), ("retail", retail)):
            if not 0 <= price.amount <= MAX_AMOUNT:
                check.refuse(_wrong_amount("pricing", name, "amount"))
            if not _CURRENCY.fullmatch(price.currency):
                check.refuse(_wrong_currency("pricing", name, "currency"))
    if list_price.currency != retail.currency:
        text = "Both prices must be in one currency."
        raise InvalidInput(text, "pricing", "retail", "currency", code=InvalidInput.NOT_ALLOWED)
    if retail.amount > list_price.amount:
        text = "The retail price must not be above the list price."
        raise InvalidInput(text, "pricing", "retail", code=InvalidInput.OUT_OF_RANGE, most=list_price.amount)
    return priced(list_price.currency, list_price.amount, retail.amount)


def _wrong_amount(*path: str) -> InvalidInput:
    text = "An amount must be from 0 to 2^53 - 1 minor units."
    return InvalidInput(text, *path, code=InvalidInput.OUT_OF_RANGE, least=0, most=MAX_AMOUNT)


def _wrong_currency(*path: str) -> InvalidInput:
    text = "A currency is three capital letters, e.g. USD."
    return InvalidInput(text, *path, code=InvalidInput.WRONG_FORMAT, pattern=_CURRENCY.pattern)


def shipping_of(weight: float | None, dimensions: tuple[float, float, float] | None) -> Shipping | None:
    if weight is None and dimensions is None:
        return None
    shipping: Shipping = {}
    with InvalidInput.collect() as check:
        if weight is not None:
            shipping["weight"] = check(_measure, weight, "shipping", "weight")
        if dimensions is not None:
            width, height, depth = dimensions
            shipping["dimensions"] = {
                "width": check(_measure, width, "shipping", "dimensions", "width"),
                "height": check(_measure, height, "shipping", "dimensions", "height"),
                "depth": check(_measure, depth, "shipping", "dimensions", "depth"),
            }
    return shipping


def _measure(value: float, *path: str) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise InvalidInput("A measure must be zero or more.", *path, code=InvalidInput.OUT_OF_RANGE, least=0)
    return float(value)


def properties_of(pairs: Sequence[tuple[str, str]]) -> list[Property]:
    few = _few(list(pairs), "properties")
    texts = _all_texts([text for pair in few for text in pair])
    if texts is not None:
        return [{"name": name, "value": value} for name, value in zip(texts[::2], texts[1::2], strict=True)]
    with InvalidInput.collect() as check:
        found: list[Property] = [
            {
                "name": check(require_text, name, "properties", str(number), "name", longest=MAX_TITLE),
                "value": check(require_text, value, "properties", str(number), "value", longest=MAX_TITLE),
            }
            for number, (name, value) in enumerate(few)
        ]
    return found


def _few(values: list[Any], *path: str) -> list[Any]:
    if len(values) > MAX_LIST:
        raise InvalidInput(
            f"Has {len(values):,} entries; {MAX_LIST} are allowed.", *path, code=InvalidInput.TOO_MANY, most=MAX_LIST
        )
    return values


def details_of(product_type: str, details: Any) -> Document:
    """Returns the details as stored. Checks the fields of albums and films; other types can have any shape."""
    if not isinstance(details, Mapping):
        raise InvalidInput("Details must be an object.", "details", code=InvalidInput.WRONG_TYPE)
    known = _DETAILS.get(product_type)
    if known is None:
        _check_free(details)
        return dict(details)
    stored: Document = {name: [] for name, is_list in known.values() if is_list}
    with InvalidInput.collect() as check:
        for key, value in details.items():
            if key not in known:
                text = f"A product of type {product_type!r} has no {key!r}."
                check.refuse(InvalidInput(text, "details", within=[key], code=InvalidInput.UNKNOWN))
            elif value is not None:
                name, is_list = known[key]
                stored[name] = check(_texts, value, key) if is_list else check(_text, value, "details", key)
    return stored


def _texts(value: Any, key: str) -> list[str]:
    if not isinstance(value, list):
        raise InvalidInput("Must be a list of strings.", "details", key, code=InvalidInput.WRONG_TYPE)
    few = _few(value, "details", key)
    texts = _all_texts(few)
    if texts is not None:
        return texts
    with InvalidInput.collect() as check:
        return [check(_text, item, "details", key, str(number)) for number, item in enumerate(few)]


def _all_texts(values: list[Any]) -> list[str] | None:
    """Returns the texts as stored, or None if one is invalid. Almost always all are valid, and this is cheaper."""
    try:
        return require_texts(values, longest=MAX_TITLE)
    except (InvalidInput, TypeError):
        return None


def _text(value: Any, *path: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput("Must be a string.", *path, code=InvalidInput.WRONG_TYPE)
    return require_text(value, *path, longest=MAX_TITLE)


def _check_free(details: Any) -> None:
    """Rejects details that a document cannot hold. Not recursive, because the caller controls the depth."""
    values = characters = 0
    pending: list[tuple[Any, int, tuple[str, ...]]] = [(details, 1, ())]
    while pending:
        value, depth, path = pending.pop()
        values += 1
        if depth > MAX_DETAILS_DEPTH:
            text = f"Details are nested too deeply; {MAX_DETAILS_DEPTH} levels are allowed."
            raise InvalidInput(text, "details", code=InvalidInput.TOO_DEEP, most=MAX_DETAILS_DEPTH)
        if values > MAX_DETAILS_VALUES:
            text = f"Details have too many values; {MAX_DETAILS_VALUES:,} are allowed."
            raise InvalidInput(text, "details", code=InvalidInput.TOO_MANY, most=MAX_DETAILS_VALUES)
        characters += _length(value)
        if characters > MAX_DETAILS_CHARACTERS:
            text = f"Details have too many characters; {MAX_DETAILS_CHARACTERS:,} are allowed."
            raise InvalidInput(text, "details", code=InvalidInput.TOO_LONG, most=MAX_DETAILS_CHARACTERS)
        if isinstance(value, Mapping):
            for key, item in value.items():
                if "\0" in key:
                    text = "A key holds a NUL character."
                    raise InvalidInput(text, "details", within=path, code=InvalidInput.FORBIDDEN_CHARACTER)
                pending.append((item, depth + 1, (*path, key)))
        elif isinstance(value, list):
            pending += [(item, depth + 1, (*path, str(number))) for number, item in enumerate(value)]
        else:
            _check_leaf(value, path)


def _check_leaf(value: Any, path: Sequence[str]) -> None:
    if isinstance(value, str) and "\0" in value:
        text = "A text holds a NUL character."
        raise InvalidInput(text, "details", within=path, code=InvalidInput.FORBIDDEN_CHARACTER)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        text = "A whole number must fit into 64 bits."
        raise InvalidInput(text, "details", within=path, code=InvalidInput.OUT_OF_RANGE, least=-_INT64, most=_INT64 - 1)


def _length(value: Any) -> int:
    """Returns the number of characters of a string, or of the keys of an object."""
    if isinstance(value, str):
        return len(value)
    return sum(map(len, value)) if isinstance(value, Mapping) else 0


def changed_product(product: ProductDocument, changes: Mapping[str, Any]) -> ProductDocument:
    """Returns the whole document with the changes. Raises InvalidInput.

    Args:     changes: any of the plain fields, pricing (list and retail Price), shipping (weight and dimensions),
              category_ids, properties, details. Omitted keys stay, None clears.
    """
    makers: dict[str, Callable[[Any], Any]] = {
        **{name: partial(_check_plain, name) for name in PLAIN},
        "pricing": _changed_pricing,
        "shipping": lambda shipping: None if shipping is None else shipping_of(*shipping),
        "category_ids": lambda ids: _few(list(dict.fromkeys(ids or ())), "category_ids"),
        "properties": lambda pairs: properties_of(pairs or ()),
        "details": lambda details: details_of(product["type"], {} if details is None else details),
    }
    with InvalidInput.collect() as check:
        made: Any = {name: check(makers[name], value) for name, value in changes.items()}
    changed: ProductDocument = product | made
    return {**changed, **search_keys(changed)}


def _check_plain(name: str, value: Any) -> Any:
    return PLAIN[name].check(value, name)


def _changed_pricing(prices: tuple[Price, Price] | None) -> Pricing:
    if prices is None:
        raise InvalidInput("Pricing must not be empty.", "pricing", code=InvalidInput.REQUIRED)
    return pricing_of(*prices)
