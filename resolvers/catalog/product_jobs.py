"""Finishes or rolls back interrupted writes to the catalog, and checks the catalog."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from portico.resolvers.attachments import Attachments
from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database
from portico.resolvers.problems import Problem
from portico.resolvers.writes import idempotency, intents
from portico.resolvers.writes.intents import Intent
from portico.resolvers.writes.sweeps import sweep

from . import product_deletions, product_edits
from .categories import find_by_ids
from .product_terms import search_keys
from .products import PRODUCTS, ProductDocument, priced

_NAME = Problem.named("product", "sku")
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
    before = now - Job.STALE_AFTER
    stale = {"at": {"$lte": before}}

    async def confirm(intent: Intent) -> int:
        # If nothing has been written yet, the writer may be about to write.
        is_old = intent["at"] <= now - 2 * idempotency.LEASE
        if not is_old and not await product_edits.has_created(db, intent["_id"], intent["keys"]):
            return 0
        await product_edits.confirm_created(db, intent["_id"], intent["keys"], now=now, at=intent["at"])
        return 1

    async def forget_incoming(product: ProductDocument) -> int:
        await products.update_one({"sku": product["sku"]}, {"$pull": {"incoming": stale}})
        return 1

    async def settle_deletion(product: ProductDocument) -> int:
        await product_deletions.settle_deletion(db, attachments, product["sku"], product["deleting"]["id"], now=now)
        return 1

    return await Job.in_sequence(
        partial(intents.sweep_left_behind, db, confirm, kind=product_edits.CREATION, before=before),
        partial(sweep, db, PRODUCTS, {"incoming": {"$elemMatch": stale}}, forget_incoming, fields=()),
        partial(sweep, db, PRODUCTS, {"deleting.at": {"$lte": before}}, settle_deletion, fields=("deleting",)),
    )


async def find_wrong_products(db: Database) -> AsyncIterator[Problem]:
    """Yields products whose terms or savings do not follow from their fields, or whose categories do not exist.

    It skips products of an older version, because an upgrade computes them again.
    """
    found = PRODUCTS.of(db).find({"schema_version": PRODUCTS.version}, _CHECKED)
    async for problem in Problem.all_in(found, partial(_wrong_in, db), _NAME):
        yield problem


async def _wrong_in(db: Database, batch: list[ProductDocument]) -> AsyncIterator[Problem]:
    ids = list({category_id for product in batch for category_id in product["category_ids"]})
    known = await find_by_ids(db, ids, {"_id": 1}) if ids else {}

    def wrong(product: ProductDocument, text: str, correct: Mapping[str, Any]) -> Problem:
        return Problem(_NAME(product), text, partial(_mend, db, product, correct))

    for product in batch:
        if any(category_id not in known for category_id in product["category_ids"]):
            kept = [category_id for category_id in product["category_ids"] if category_id in known]
            mended = {"category_ids": kept, **search_keys({**product, "category_ids": kept})}
            yield wrong(product, "it is in a category that does not exist", mended)
        elif {name: product.get(name) for name in ("terms", "keywords")} != (keys := search_keys(product)):
            yield wrong(product, "its search terms are out of date", keys)
        pricing = product["pricing"]
        right = priced(pricing["currency"], pricing["list"], pricing["retail"])
        if pricing != right:
            yield wrong(product, "its savings do not follow from its prices", {"pricing": right})


async def _mend(db: Database, product: ProductDocument, correct: Mapping[str, Any]) -> None:
    """Writes the correct values, unless the product was edited since the check."""
    guard = {key: product.get(key) for key in ("sku", "nonce", "stock_version")}
    await db[PRODUCTS.name].update_one(guard, {"$set": correct})
