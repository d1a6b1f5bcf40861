"""Deletions of products, with what other domains and the catalog itself keep with them."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from bson import ObjectId

from portico.resolvers.attachments import Attachments
from portico.resolvers.catalog.refusals import ProductEditConflict
from portico.resolvers.documents import Database
from portico.resolvers.errors import Conflict, DomainError, NotFound
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.retries import settling

from .images import delete_images, unsettle_images
from .product_edits import remove
from .products import KIND, PRODUCTS, ProductDocument, find_by_sku


async def delete_product(
    db: Database, attachments: Attachments, *, sku: str, nonce: str, now: datetime, operation_id: str
) -> list[ObjectId]:
    """Removes the product that the caller read under this nonce, with its attachments.

    The deletion marks the product, closes its attachments, and then removes the product. It closes them first, because
    an attachment can refuse (carts hold units), and because another product can take the SKU immediately.

    Returns:  its categories.
    Raises:   NotFound, ProductEditConflict (with the current product), Conflict (another deletion does not end), and
              the DomainError of an attachment that refuses, e.g. ProductInUse.
    Writes:   products: a mark, then the removal of the product or of the mark. Before and after it, the attachments.
    """
    earlier = await idempotency.notes(db, operation_id)
    async for _ in settling():
        product = await find_by_sku(db, sku)
        if product is None:
            if not earlier.get("deleting"):
                raise NotFound("Product", sku)
            gone = Attachments.Target(KIND, sku, earlier["deleting"]["of"])
            await attachments.settle(db, gone, by=earlier["deleting"]["id"], present=None, now=now)
            return list(earlier["deleting"].get("categories", ()))
        if product["nonce"] != nonce:
            raise ProductEditConflict(product)
        if await _try_delete(db, attachments, product, now, operation_id):
            return product["category_ids"]
    raise Conflict("Somebody else is deleting the product. Try again.")


async def _try_delete(
    db: Database, attachments: Attachments, product: ProductDocument, now: datetime, operation_id: str
) -> bool:
    sku = product["sku"]
    other = product.get("deleting")
    if other is not None:
        if other["op"] == operation_id:
            await settle_deletion(db, attachments, sku, other["id"], now=now)
        return False
    deletion = uuid4().hex
    target = Attachments.Target(KIND, sku, product["_id"])
    mark = {"id": deletion, "op": operation_id, "at": now}
    guard = {"sku": sku, "nonce": product["nonce"], "deleting": None}
    # From now on it gets no more images, so these are all.
    marked = await PRODUCTS.of(db).find_one_and_update(guard, {"$set": {"deleting": mark}}, {"images": 1})
    if marked is None:
        return False
    try:
        is_closed = await attachments.close(db, target, by=deletion, now=now)
    except DomainError:
        await settle_deletion(db, attachments, sku, deletion, now=now)
        raise
    if is_closed:
        await idempotency.note(
            db, operation_id, deleting={"id": deletion, "of": product["_id"], "categories": product["category_ids"]}
        )
        mine = {"sku": sku, "nonce": product["nonce"], "deleting.id": deletion}
        if marked.get("images"):
            await unsettle_images(db, product["_id"], now=now)
        if await remove(db, product, mine, now):
            if marked.get("images"):
                await delete_images(db, product["_id"])
            await attachments.settle(db, target, by=deletion, present=None, now=now)
            return True
    await settle_deletion(db, attachments, sku, deletion, now=now)
    return False


async def settle_deletion(db: Database, attachments: Attachments, sku: str, deletion: str, *, now: datetime) -> None:
    """Rolls back a deletion that has not removed its product yet, and finishes one that has. Idempotent.

    Writes:   products: one guarded update; then the attachments.
    """
    mine = {"sku": sku, "deleting.id": deletion}
    await db[PRODUCTS.name].update_one(mine, {"$unset": {"deleting": ""}})
    product = await find_by_sku(db, sku, {"_id": 1})
    present = None if product is None else product["_id"]
    # The `_id` of a deleted product is not known here, but its attachments store it.
    await attachments.settle(db, Attachments.Target(KIND, sku, None), by=deletion, present=present, now=now)
