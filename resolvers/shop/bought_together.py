"""Products that are bought together: each product keeps the SKUs that the latest orders have besides its own.

This is a roll-up of orders (see the module `roll_ups` of `resolvers`), which the product keeps itself:

1. An order with several lines is inserted with the mark `uncounted`.
2. For each of its SKUs, the job reads the revision that the product has, then the latest orders with the SKU. It stores
   the result if the product still has this revision. Otherwise another process has stored one, and it reads again. So
   what is stored includes every order that an earlier result included.
3. It removes the mark.

Each step can be repeated. Nobody waits for the job. Cancelled orders count as well: their lines were chosen together.
"""

from __future__ import annotations

from collections import Counter

from pymongo import DESCENDING

from portico.resolvers.catalog.products import find_by_sku
from portico.resolvers.catalog.related_products import MAX_RELATED, set_bought_with
from portico.resolvers.documents import LENIENT, Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.sweeps import sweep

from .orders import ORDERS

# The orders of one run, the latest orders that count for a SKU, and the lines that count of each of them.
_BATCH = 200
LATEST = 200
MAX_COUNTED = 20


async def relate_products(db: Database) -> int:
    """Counts orders that are not counted yet. Returns how many. Idempotent."""

    async def relate(order: Document) -> int:
        for sku in dict.fromkeys(line["sku"] for line in order["items"][:MAX_COUNTED]):
            await _relate(db, sku)
        await db[ORDERS.name].update_one({"_id": order["_id"]}, {"$unset": {"uncounted": ""}})
        return 1

    return await sweep(db, ORDERS, {"uncounted": True}, relate, fields=("items",), most=_BATCH)


async def _relate(db: Database, sku: str) -> None:
    async for _ in attempts():
        product = await find_by_sku(db, sku, {"bought_with": 1})
        if product is None:
            return
        present = product.get("bought_with")
        revision = None if present is None else present["revision"]
        if await set_bought_with(db, sku, await _bought_with(db, sku), revision=revision):
            return
    raise Conflict("Other processes are counting the same orders. Try again.")


async def _bought_with(db: Database, sku: str) -> list[str]:
    """Returns the SKUs that the latest orders have besides this one: the most frequent first, then the latest."""
    collection = db[ORDERS.name].with_options(codec_options=LENIENT)
    found = collection.find({"items.sku": sku}, {"_id": 0, "items.sku": 1})
    orders = await found.sort([("placed_at", DESCENDING), ("_id", DESCENDING)]).limit(LATEST).to_list()
    counts = Counter(other for order in orders for other in _skus_of(order))
    del counts[sku]
    return [other for other, _ in counts.most_common(MAX_RELATED)]


def _skus_of(order: Document) -> list[str]:
    """Returns the SKUs of an order. A damaged order has fewer, and keeps no other order from being counted."""
    lines = order.get("items")
    if not isinstance(lines, list):
        return []
    skus = [line.get("sku") for line in lines[:MAX_COUNTED] if isinstance(line, dict)]
    return [sku for sku in skus if isinstance(sku, str)]
