"""Writes to the product catalog.

A product and its categories are kept in step as `category_edits` describes: a product is there, or has left a mark,
before its writer looks whether the categories are; who deletes a category marks it before looking for products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from . import intents, operations
from .categories import find_usable, require_usable
from .documents import SCHEMA_VERSION, Database, Document
from .errors import NotFound, ProductEditConflict, SkuTaken
from .product_rules import ProductFields, document_of
from .products import PRODUCTS, find_by_sku

# An edit's own two steps can be overtaken by an edit that left the nonce alone: an upgrade, or a job.
_EDIT_ATTEMPTS = 5
# The kind of a creation's intent; its keys are SKUs.
CREATION = "product-creation"

Change = Callable[[Document], Document]


async def create_product(db: Database, *, fields: ProductFields, now: datetime, operation_id: str) -> Document:
    """Puts a new product into the catalog.

    Returns:  the product.
    Raises:   InvalidInput, NotFound (a category), SkuTaken.
    Writes:   intents, products: an insert, and its removal where a category went meanwhile. A product without
              categories is one insert.
    """
    document = new_document(fields, operation_id)
    sku, categories = document["sku"], document["category_ids"]
    mine = await _created_before(db, document) if operations.is_repeatable(operation_id) else None
    if mine is None:
        await operations.require_not_done(db, operation_id, NotFound("Product", sku))
        await require_usable(db, categories)
        if categories:
            await intents.announce(db, operation_id, kind=CREATION, keys=[sku], now=now)
        try:
            await db[PRODUCTS.name].insert_one(document)
        except DuplicateKeyError:
            mine = await _created_before(db, document)
            if mine is None:
                await intents.withdraw(db, operation_id)
                raise SkuTaken(sku) from None
    document = mine or document
    await operations.note(db, operation_id, done=True)
    if categories:
        missing = await confirm_created(db, operation_id, [sku])
        if sku in missing:
            raise NotFound("Category", str(missing[sku]))
    return document


async def _created_before(db: Database, document: Document) -> Document | None:
    found = await find_by_sku(db, document["sku"])
    return found if found is not None and found["_id"] == document["_id"] else None


def new_document(fields: ProductFields, operation_id: str) -> Document:
    """A whole document for a new product. Raises InvalidInput."""
    return created_by(operation_id, document_of(fields))


def created_by(operation_id: str, described: Document) -> Document:
    """The described product as this operation creates it: with an id and a nonce of its own."""
    return {
        "_id": operations.derived_id(operation_id, described["sku"]),
        **described,
        "nonce": operations.derived_nonce(operation_id, described["sku"]),
        SCHEMA_VERSION: PRODUCTS.version,
    }


async def confirm_created(db: Database, operation_id: str, skus: Sequence[str]) -> dict[str, ObjectId]:
    """Makes the products that the operation created final, and undoes those of which a category is gone.

    Returns:  the missing category of each product that was undone. May be repeated.
    """
    undone = await _undo_misplaced(db, operation_id, skus)
    await intents.withdraw(db, operation_id)
    return undone


async def has_created(db: Database, operation_id: str, skus: Sequence[str]) -> bool:
    """Whether a product that the operation was about to create is there."""
    mine = [operations.derived_id(operation_id, sku) for sku in skus]
    return await db[PRODUCTS.name].find_one({"sku": {"$in": list(skus)}, "_id": {"$in": mine}}, {"_id": 1}) is not None


async def _undo_misplaced(db: Database, operation_id: str, skus: Sequence[str]) -> dict[str, ObjectId]:
    mine = [operations.derived_id(operation_id, sku) for sku in skus]
    query = {"sku": {"$in": list(skus)}, "_id": {"$in": mine}}
    created = await db[PRODUCTS.name].find(query, {"sku": 1, "category_ids": 1}).to_list()
    usable = await find_usable(db, {key for product in created for key in product["category_ids"]})
    undone: dict[str, ObjectId] = {}
    for product in created:
        gone = next((key for key in product["category_ids"] if key not in usable), None)
        if gone is None:
            continue
        if (await db[PRODUCTS.name].delete_one(product)).deleted_count:
            undone[product["sku"]] = gone
        else:
            # An edit has put it elsewhere meanwhile, or somebody has deleted it.
            undone |= await _undo_misplaced(db, operation_id, [product["sku"]])
    return undone


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
        # Editors do not take each other's marks away: the first to be done wins.
        incoming = {"op": operation_id, "at": now, "ids": added}
        if not (await products.update_one(guard, {"$push": {"incoming": incoming}})).matched_count:
            return False
        guard["incoming.op"] = operation_id
        usable = await find_usable(db, added)
        gone = next((key for key in added if key not in usable), None)
        if gone is not None:
            await products.update_one(guard, {"$pull": {"incoming": {"op": operation_id}}})
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
    product = await find_by_sku(db, sku)
    if product is not None and product["nonce"] == nonce:
        await operations.note(db, operation_id, deleting=True)
        if (await db[PRODUCTS.name].delete_one({"sku": sku, "nonce": nonce})).deleted_count:
            return
        product = await find_by_sku(db, sku)
    if product is not None:
        raise ProductEditConflict(product)
    if not earlier.get("deleting"):
        raise NotFound("Product", sku)
