"""The format of imported categories and products: the fields of `Create…Input`, with slugs instead of ids."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from graphql import GraphQLError

from portico.gateway.imports.fields import (
    Record,
    as_instant,
    as_key,
    as_list,
    as_number,
    as_text,
    key_at,
    object_of,
    optional,
    text_at,
)
from portico.gateway.pictures.picture_files import PictureFile
from portico.resolvers.catalog.category_imports import CategoryRecord
from portico.resolvers.catalog.image_edits import ImageRecord
from portico.resolvers.catalog.product_fields import MAX_SKU, PLAIN, PlainField
from portico.resolvers.catalog.product_imports import ProductRecord
from portico.resolvers.catalog.product_rules import Price, ProductFields
from portico.resolvers.errors import InvalidInput
from portico.resolvers.urls import require_web_url
from portico.schema.errors import camel_case
from portico.schema.scalars import check_big_int

# The most categories that a record can list.
_MAX_SLUGS = 500

_PLAIN = {name: camel_case(name) for name in PLAIN}
_PRODUCT = {"sku", "type", "pricing", "shipping", "categories", "properties", "details", *_PLAIN.values()}
_READ = {str: as_text, datetime: as_instant}
_PRICING, _PRICE, _PROPERTY = {"list", "retail"}, {"amount", "currency"}, {"name", "value"}


def category_record(given: Any) -> CategoryRecord:
    """Parses {"slug", "name", "parent"?: a slug, "description"?}. Raises InvalidInput."""
    record = object_of(given, {"slug", "name", "parent", "description"})
    return CategoryRecord(
        slug=key_at(record, "slug"),
        name=text_at(record, "name"),
        parent=optional(record, "parent", as_key),
        description=optional(record, "description", as_text),
    )


def image_record(given: Any, records: Path) -> ImageRecord:
    """Parses {"product": a SKU or "category": a slug, "file" or "url", "alt"?}. Raises InvalidInput.

    `file` is the name of a file next to the import file.
    """
    record = object_of(given, {"product", "category", "file", "url", "alt"})
    if "file" in record and "url" in record:
        raise InvalidInput("give either `file` or `url`", "url")
    is_remote = "url" in record
    if ("product" in record) == ("category" in record):
        raise InvalidInput("give either `product` or `category`", "product")
    name = "product" if "product" in record else "category"
    return ImageRecord(
        kind=name.capitalize(),
        name=key_at(record, name, longest=MAX_SKU),
        alt=optional(record, "alt", as_text) or "",
        read=None if is_remote else PictureFile(records, text_at(record, "file")).read,
        url=require_web_url(text_at(record, "url"), "url") if is_remote else "",
    )


def product_record(given: Any) -> ProductRecord:
    """Parses the fields of `CreateProductInput`, with `categories` (slugs) for `categoryIds`. Raises InvalidInput."""
    record = object_of(given, _PRODUCT)
    pricing = object_of(record.get("pricing"), _PRICING, "pricing")
    shipping = optional(record, "shipping", _shipping)
    weight, dimensions = shipping or (None, None)
    fields = ProductFields(
        sku=key_at(record, "sku", longest=MAX_SKU),
        type=text_at(record, "type"),
        plain={
            name: _plain(record, PLAIN[name], given)
            for name, given in _PLAIN.items()
            if given in record or PLAIN[name].is_required
        },
        list_price=_price(pricing, "list"),
        retail_price=_price(pricing, "retail"),
        weight=weight,
        dimensions=dimensions,
        properties=optional(record, "properties", _properties) or (),
        details={} if record.get("details") is None else record["details"],
    )
    return ProductRecord(fields, optional(record, "categories", _as_slugs) or ())


def _plain(record: Record, field: PlainField, name: str) -> Any:
    if field.is_required:
        text_at(record, name)
    return optional(record, name, _READ[field.kind])


def _price(pricing: Record, name: str) -> Price:
    price = object_of(pricing.get(name), _PRICE, "pricing", name)
    try:
        amount = check_big_int(price.get("amount"))
    except GraphQLError as error:
        raise InvalidInput(error.message, "pricing", name, "amount") from None
    return Price(amount, as_text(price.get("currency", "USD"), "pricing", name, "currency"))


def _properties(value: Any, *path: str) -> list[tuple[str, str]]:
    pairs = []
    for number, item in enumerate(as_list(value, *path)):
        place = (*path, str(number))
        pair = object_of(item, _PROPERTY, *place)
        pairs.append((text_at(pair, *place, "name"), text_at(pair, *place, "value")))
    return pairs


def _shipping(value: Any, *path: str) -> tuple[float | None, tuple[float, float, float] | None]:
    shipping = object_of(value, {"weight", "dimensions"}, *path)
    return optional(shipping, "weight", as_number, *path), optional(shipping, "dimensions", _dimensions, *path)


def _dimensions(value: Any, *path: str) -> tuple[float, float, float]:
    size = object_of(value, {"width", "height", "depth"}, *path)
    width, height, depth = (as_number(size.get(name), *path, name) for name in ("width", "height", "depth"))
    return width, height, depth


def _as_slugs(value: Any, *path: str) -> list[str]:
    """Returns the slugs of categories."""
    slugs = [as_key(item, *path, str(number)) for number, item in enumerate(as_list(value, *path))]
    if len(slugs) > _MAX_SLUGS:
        raise InvalidInput(f"There are {len(slugs):,}; {_MAX_SLUGS} are allowed.", *path)
    return slugs
