"""Writes to the product catalog.

A product and its categories are kept in step as `category_edits` describes: the product leaves a mark before it looks
whether its categories are there, and who deletes a category marks it before looking for products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from . import operations
from .categories import find_usable, require_usable
from .documents import SCHEMA_VERSION, Database, Document
from .errors import NotFound, ProductEditConflict, SkuTaken
from .product_rules import ProductFields, document_of
from .products import PRODUCTS, find_by_sku

# An edit's own two steps can be overtaken by an edit that left the nonce alone: an upgrade, or a job.
_EDIT_ATTEMPTS = 5

Change = Callable[[Document], Document]


async def create_product(db: Database, *, fields: ProductFields, now: datetime, operation_id: str) -> Document:
    """Puts a new product into the catalog.

    Returns:  the product.
    Raises:   InvalidInput, NotFound (a category), SkuTaken.
    Writes:   products; one insert, then the removal of its mark, or of itself where a category went meanwhile.
    """
    document = new_document(fields, operations.derived_id(operation_id, "product"), operation_id)
    await require_usable(db, document["category_ids"])
    if document["category_ids"]:
        document["pending"] = {"op": operation_id, "at": now}
    try:
        await db[PRODUCTS.name].insert_one(document)
    except DuplicateKeyError:
        mine = await find_by_sku(db, document["sku"])
        if mine is None or mine["_id"] != document["_id"]:
            raise SkuTaken(document["sku"]) from None
        document = mine
    return await confirm_created(db, document) if "pending" in document else document


def new_document(fields: ProductFields, product_id: ObjectId, operation_id: str) -> Document:
    """A whole document for a new product. Raises InvalidInput."""
    described = document_of(fields)
    nonce = operations.derived_nonce(operation_id, described["sku"])
    return {"_id": product_id, **described, "nonce": nonce, SCHEMA_VERSION: PRODUCTS.version}


async def confirm_created(db: Database, product: Document) -> Document:
    """Makes a created product final, or undoes it where one of its categories is gone. May be repeated."""
    mine = {"sku": product["sku"], "pending.op": product["pending"]["op"]}
    gone = await _missing(db, product["category_ids"])
    if gone is not None:
        await db[PRODUCTS.name].delete_one(mine)
        raise NotFound("Category", str(gone))
    await db[PRODUCTS.name].update_one(mine, {"$unset": {"pending": ""}})
    return {key: value for key, value in product.items() if key != "pending"}


async def _missing(db: Database, category_ids: Sequence[ObjectId]) -> ObjectId | None:
    usable = await find_usable(db, category_ids)
    return next((category_id for category_id in category_ids if category_id not in usable), None)


async def update_product(
    db: Database, *, sku: str, nonce: str, change: Change, now: datetime, operation_id: str
) -> Document:
    """Edits the product that the caller read under this nonce.

    Args:     change: makes the new document of the present one; raises InvalidInput.
    Returns:  the product.
    Raises:   InvalidInput, NotFound (product or category), ProductEditConflict (with the product as it is).
    Writes:   products; one nonce-guarded update, and before it a mark where categories are added.
    """
    for _ in range(_EDIT_ATTEMPTS):
        product = await _require(db, sku)
        if operations.was_applied(product, operation_id):
            return product
        if product["nonce"] != nonce:
            raise ProductEditConflict(product)
        changed = change(product) | {"nonce": operations.derived_nonce(operation_id, nonce)}
        if await _try_update(db, product, changed, now, operation_id):
            return changed
    raise ProductEditConflict(await _require(db, sku))


async def _require(db: Database, sku: str) -> Document:
    product = await find_by_sku(db, sku)
    if product is None:
        raise NotFound("Product", sku)
    return product


async def _try_update(db: Database, product: Document, changed: Document, now: datetime, operation_id: str) -> bool:
    products = db[PRODUCTS.name]
    guard = {"sku": product["sku"], "nonce": product["nonce"]}
    added = [key for key in changed["category_ids"] if key not in product["category_ids"]]
    if added:
        incoming = {"op": operation_id, "at": now, "ids": added}
        if not (await products.update_one(guard, {"$set": {"incoming": incoming}})).matched_count:
            return False
        guard["incoming.op"] = operation_id
        gone = await _missing(db, added)
        if gone is not None:
            await products.update_one(guard, {"$unset": {"incoming": ""}})
            raise NotFound("Category", str(gone))
    changes = {key: value for key, value in changed.items() if product.get(key) != value and key != "_id"}
    update: Document = {"$set": changes, **operations.mark_applied(operation_id), "$unset": {"incoming": ""}}
    return bool((await products.update_one(guard, update)).matched_count)


async def delete_product(db: Database, *, sku: str, nonce: str, operation_id: str) -> None:
    """Removes the product that the caller read under this nonce.

    Raises:   NotFound, ProductEditConflict (with the product as it is).
    Writes:   products; one nonce-guarded removal.
    """
    earlier = await operations.notes(db, operation_id)
    await operations.note(db, operation_id, deleting=True)
    if (await db[PRODUCTS.name].delete_one({"sku": sku, "nonce": nonce})).deleted_count:
        return
    product = await find_by_sku(db, sku)
    if product is not None:
        raise ProductEditConflict(product)
    if not earlier.get("deleting"):
        raise NotFound("Product", sku)
