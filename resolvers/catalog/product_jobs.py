"""Finishes or rolls back interrupted writes to the catalog, and checks the catalog."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial

from portico.resolvers.attachments import Attachments
from portico.resolvers.documents import Database, Document
from portico.resolvers.writes import idempotency, intents
from portico.resolvers.writes.intents import Intent
from portico.resolvers.writes.sweeps import STALE_AFTER, in_turn, sweep, wrong_in_batches

from . import product_edits
from .categories import find_by_ids
from .product_terms import search_keys
from .products import PRODUCTS, ProductDocument, priced

_CHECKED = {
    "sku": 1,
    "nonce": 1,
    "type": 1,
    "title": 1,
    "pricing": 1,
    "category_ids": 1,
    "properties": 1,
    "details": 1,
    "in_stock": 1,
    "stock_version": 1,
    "terms": 1,
    "keywords": 1,
}


async def finish_changes(db: Database, attachments: Attachments, *, now: datetime) -> int:
    """Settles every mark and intent that is older than five seconds. Returns how many.

    Raises:   SweepFailed after all marks and intents, if some have failed.
    """
    products = db[PRODUCTS.name]
    before = now - STALE_AFTER
    stale = {"at": {"$lte": before}}

    async def confirm(intent: Intent) -> int:
        # If nothing has been written yet, the writer may be about to write.
        is_old = intent["at"] <= now - 2 * idempotency.LEASE
        if not is_old and not await product_edits.has_created(db, intent["_id"], intent["keys"]):
            return 0
        await product_edits.confirm_created(db, intent["_id"], intent["keys"])
        return 1

    async def forget_incoming(product: ProductDocument) -> int:
        await products.update_one({"sku": product["sku"]}, {"$pull": {"incoming": stale}})
        return 1

    async def settle_deletion(product: ProductDocument) -> int:
        await product_edits.settle_deletion(db, attachments, product["sku"], product["deleting"]["id"], now=now)
        return 1

    return await in_turn(
        partial(intents.sweep_left_behind, db, confirm, kind=product_edits.CREATION, before=before),
        partial(sweep, db, PRODUCTS, {"incoming": {"$elemMatch": stale}}, forget_incoming, fields=()),
        partial(sweep, db, PRODUCTS, {"deleting.at": {"$lte": before}}, settle_deletion, fields=("deleting",)),
    )


async def find_wrong_products(db: Database) -> AsyncIterator[Document]:
    """Yields products whose terms or savings do not follow from their fields, or whose categories do not exist.

    Yields {_id, sku, problem, nonce, stock_version, repair}; `repair` holds the correct values. It skips products of an
    older version, because an upgrade computes them again.
    """
    found = PRODUCTS.of(db).find({"schema_version": PRODUCTS.version}, _CHECKED)
    async for wrong in wrong_in_batches(found, partial(_wrong_in, db)):
        yield wrong


async def _wrong_in(db: Database, batch: list[ProductDocument]) -> AsyncIterator[Document]:
    ids = list({category_id for product in batch for category_id in product["category_ids"]})
    known = await find_by_ids(db, ids, {"_id": 1}) if ids else {}
    for product in batch:
        row = {key: product.get(key) for key in ("_id", "sku", "nonce", "stock_version")}
        if any(category_id not in known for category_id in product["category_ids"]):
            kept = [category_id for category_id in product["category_ids"] if category_id in known]
            mended = {"category_ids": kept, **search_keys({**product, "category_ids": kept})}
            yield {**row, "problem": "it is in a category that does not exist", "repair": mended}
        elif {name: product.get(name) for name in ("terms", "keywords")} != (keys := search_keys(product)):
            yield {**row, "problem": "its search terms are out of date", "repair": keys}
        pricing = product["pricing"]
        right = priced(pricing["currency"], pricing["list"], pricing["retail"])
        if pricing != right:
            yield {**row, "problem": "its savings do not follow from its prices", "repair": {"pricing": right}}


async def mend_product(db: Database, wrong: Document) -> None:
    """Writes the correct values that `find_wrong_products` found, unless the product was edited in the meantime."""
    guard = {key: wrong[key] for key in ("sku", "nonce", "stock_version")}
    await db[PRODUCTS.name].update_one(guard, {"$set": wrong["repair"]})
