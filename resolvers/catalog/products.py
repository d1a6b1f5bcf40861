"""The product catalog: one collection for all types, with common fields, and `details` by type. Its reads.

The marks `incoming` and `deleting` record intents: `product_jobs.finish_changes` settles those that a crash leaves.

Source: MongoDB Applied Design Patterns, ch. 5, "Product Catalog".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, TEXT, IndexModel

from portico.resolvers.attachments import Host
from portico.resolvers.documents import (
    CollectionSpec,
    Database,
    Document,
    Projection,
    upgrade_read,
    with_version,
)
from portico.resolvers.paging import Key, Listing, Page, count_listings, find_pages
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import Repeatable

from .images import ListedImage
from .product_fields import PlainFields
from .product_listings import ProductListing
from .product_terms import SearchKeys, search_keys, stock_term, term

# The kind in a product's global id.
KIND = "Product"
_TEXT_WEIGHTS = {
    "title": 10,
    "details.artist": 6,
    "details.actors": 4,
    "details.directors": 4,
    "details.writers": 2,
    "description": 1,
}

# The paths of a full-text search.
TEXT_PATHS = tuple(_TEXT_WEIGHTS)


class Pricing(TypedDict):
    """The prices of a product, in minor units."""

    currency: str
    list: int
    retail: int
    savings: int
    # Whole percent, rounded down.
    pct_savings: int


class Dimensions(TypedDict):
    """The size of a product, in inches."""

    width: float
    height: float
    depth: float


class Shipping(TypedDict):
    """What carriers ask for."""

    # Ounces.
    weight: NotRequired[float]
    dimensions: NotRequired[Dimensions]


class Property(TypedDict):
    """A free property of a product."""

    name: str
    value: str


class Incoming(TypedDict):
    """The mark of an edit that is about to add the product to these categories."""

    op: str
    at: datetime
    ids: list[ObjectId]


class Deleting(TypedDict):
    """The mark of a deletion in flight. `id` names it to the attachments."""

    id: str
    op: str
    at: datetime


class MerchantFields(PlainFields):
    """What the merchant says about a product."""

    # Unique, and never changes: the key by which other documents refer to the product.
    sku: str
    # `Audio Album`, `Film`, or the merchant's own.
    type: str
    pricing: Pricing
    shipping: Shipping | None
    category_ids: list[ObjectId]
    # In the merchant's order.
    properties: list[Property]
    # The fields of the type.
    details: dict[str, Any]


class BoughtWith(TypedDict):
    """What is bought together with a product: at most 20 SKUs, the most frequent first."""

    skus: list[str]
    # Changed by every update of it.
    revision: int


class ProductDocument(MerchantFields, SearchKeys, Repeatable):
    """A product."""

    _id: ObjectId
    # Changed by every edit.
    nonce: str
    # Whether units are available, as of this version of the stock.
    in_stock: NotRequired[bool]
    stock_version: NotRequired[int]
    # Not part of what the nonce guards: images are added and removed one by one.
    images: NotRequired[list[ListedImage]]
    # Missing until an order has the product and another one; as images, not part of what the nonce guards.
    bought_with: NotRequired[BoughtWith]
    incoming: NotRequired[list[Incoming]]
    deleting: NotRequired[Deleting]


def _by_terms(path: str, direction: int) -> IndexModel:
    return IndexModel([("terms", ASCENDING), (path, direction), ("_id", direction)])


def upgrade_product(document: Document) -> Document:
    """Upgrades a document of version 1, the source's own form, or of version 2, which has fewer terms and keywords.

    The form of version 1 has `details.genre`, `.director`, `.writer`, `.actor`, `.track` and `.issue_date`, but no
    currency, nonce or terms. The new nonce is derived from the `_id`, so that concurrent upgrades agree on it.
    """
    if document.get("schema_version", 1) > 1:
        return {**document, **search_keys(document)}
    details = _object(document.get("details"))
    issue_date = document.get("issue_date", details.pop("issue_date", None))
    for old, new in _RENAMED.items():
        if old in details:
            value = details.pop(old)
            texts = value if isinstance(value, list) else [value]
            details[new] = [text for text in texts if isinstance(text, str)]
    pricing = _object(document.get("pricing"))
    price_list = int(pricing.get("list") or 0)
    retail = int(pricing.get("retail") or price_list)
    upgraded = {
        **document,
        "title": str(document.get("title") or details.get("title") or document["sku"]),
        "pricing": priced(pricing.get("currency", "USD"), price_list, retail),
        "category_ids": document.get("category_ids") or [],
        "properties": document.get("properties") or [],
        "issue_date": issue_date,
        "details": details,
        "nonce": document.get("nonce") or hashlib.blake2b(document["_id"].binary, digest_size=12).hexdigest(),
    }
    return {**upgraded, **search_keys(upgraded)}


def _object(value: object) -> Document:
    return dict(value) if isinstance(value, Mapping) else {}


_RENAMED = {"genre": "genres", "director": "directors", "writer": "writers", "actor": "actors", "track": "tracks"}

PRODUCTS = CollectionSpec(
    "products",
    document=ProductDocument,
    version=3,
    upgrade=upgrade_product,
    # The source shards by type, genre and SKU. MongoDB allows no array (genre) in a shard key, and a unique SKU only if
    # the shard key begins with it.
    shard_key={"sku": 1},
    indexes=[
        IndexModel([("sku", ASCENDING)], unique=True),
        # Filters are terms, so these four serve every filter in every order. `*` is a term of every product.
        _by_terms("issue_date", DESCENDING),
        _by_terms("pricing.pct_savings", ASCENDING),
        _by_terms("pricing.retail", ASCENDING),
        _by_terms("title", ASCENDING),
        # Keywords are indexed in the default order only; few matches are sorted quickly into another.
        IndexModel([("keywords", ASCENDING), ("issue_date", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("incoming.ids", ASCENDING)], sparse=True),
        IndexModel([("incoming.at", ASCENDING)], sparse=True),
        IndexModel([("deleting.at", ASCENDING)], sparse=True),
        # No language: English stop words can be titles (`It`, `The The`), and names have no stems.
        IndexModel(
            [(path, TEXT) for path in _TEXT_WEIGHTS],
            name="search",
            weights=_TEXT_WEIGHTS,
            default_language="none",
            # No field can have this name, so that a field in `details` never selects a language.
            language_override="no\0field",
        ),
        IndexModel([("schema_version", ASCENDING)]),
    ],
)


@dataclass(frozen=True)
class Total:
    """The number of rows of a list. If it is not exact, the list can have more."""

    count: int
    is_exact: bool


def priced(currency: str, list_price: int, retail: int) -> Pricing:
    """Returns the stored pricing of a product, with the savings that follow from the two prices."""
    savings = list_price - retail
    return {
        "currency": currency,
        "list": list_price,
        "retail": retail,
        "savings": savings,
        "pct_savings": savings * 100 // list_price if list_price > 0 else 0,
    }


async def find_by_sku(db: Database, sku: str, projection: Projection | None = None) -> ProductDocument | None:
    return (await find_by_skus(db, [sku], projection)).get(sku)


async def find_by_skus(
    db: Database, skus: Sequence[str], projection: Projection | None = None
) -> dict[str, ProductDocument]:
    wanted = None if projection is None else {**projection, "sku": 1}
    query: Document = {"sku": skus[0]} if len(skus) == 1 else {"sku": {"$in": list(skus)}}
    found = await PRODUCTS.of(db).find(query, with_version(wanted), batch_size=len(skus) + 1).to_list()
    return {product["sku"]: product for product in await upgrade_read(db, PRODUCTS, found, wanted)}


async def find_product_pages(
    db: Database, listings: Sequence[Listing], *, first: int, after: Key | None, projection: Projection | None
) -> list[Page[ProductDocument]]:
    pages = await find_pages(PRODUCTS.of(db), listings, first=first, after=after, projection=projection)
    for page in pages:
        page.documents = await upgrade_read(db, PRODUCTS, page.documents, projection)
    return pages


async def set_in_stock(db: Database, sku: str, *, in_stock: bool, version: int) -> None:
    """Stores whether units are available, as of this version of the stock. Ignores outdated versions.

    Writes:   products; one guarded update.
    """
    known = [stock_term(in_stock=known) for known in (True, False)]
    replaced = {"$cond": [{"$in": ["$$this", known]}, stock_term(in_stock=in_stock), "$$this"]}
    noted = {"in_stock": in_stock, "stock_version": version}
    # A document of version 1 has no terms; its upgrade computes them.
    terms = {"$cond": [{"$isArray": "$terms"}, {"$map": {"input": "$terms", "in": replaced}}, "$$REMOVE"]}
    earlier = {"$or": [{"stock_version": None}, {"stock_version": {"$lt": version}}]}
    await db[PRODUCTS.name].update_one({"sku": sku, **earlier}, [{"$set": {**noted, "terms": terms}}])


async def count_products(db: Database, listings: Sequence[ProductListing], *, most: int) -> list[Total]:
    """Returns the number of products in each listing, up to `most`."""
    counts = await count_listings(db[PRODUCTS.name], listings, most=most + 1)
    return [
        Total(min(count, most), count <= most and not listing.is_partial)
        for listing, count in zip(listings, counts, strict=True)
    ]


async def is_in_use(db: Database, category_id: ObjectId) -> bool:
    """Returns whether a product is in the category, or is about to be added."""
    query = {"$or": [{"terms": term("category", category_id)}, {"incoming.ids": category_id}]}
    return await PRODUCTS.of(db).find_one(query, {"_id": 1}) is not None


async def _find_hosts(db: Database, skus: Sequence[str]) -> dict[str, ProductDocument]:
    return await find_by_skus(db, skus, {"deleting": 1})


async def _find_named(db: Database, sku: str) -> tuple[str, ObjectId] | None:
    product = await find_by_sku(db, sku, {"_id": 1})
    return None if product is None else (sku, product["_id"])


HOST = Host(KIND, _find_hosts, _find_named)
