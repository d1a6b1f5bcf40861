"""The stock: how many units of each SKU are available, in carts, and sold. Its reads and writes.

The source stores a list `carted` with an entry for every cart that holds units. Each update would write that list
again, and a product in ten thousand carts would be slow to sell. Here the carts record who holds which units, and the
stock lists only the moves in flight between the two.

Source: MongoDB Applied Design Patterns, ch. 5, "Inventory Management".
"""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel, ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.catalog.products import ProductDocument, find_by_sku, set_in_stock
from portico.resolvers.catalog.refusals import ProductInUse
from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.errors import Conflict, InvalidInput, NotFound
from portico.resolvers.shop.refusals import InadequateInventory
from portico.resolvers.texts import trimmed
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import Repeatable, applied_with, not_applied, trim_marks, was_applied
from portico.resolvers.writes.retries import attempts


class Move(TypedDict):
    """A move of units between the stock and a cart; see `moves`."""

    id: str
    # The operation that prepared it.
    op: str
    sku: str
    cart_id: str
    # The order that decides on it, if it restores units.
    order_id: NotRequired[str]
    # `reserve`, `return`, `sell`, `restore` or `pass`.
    kind: str
    # The line of the units, and the cart that gets it, if a cart passes it on to another one; see `cart_merging`.
    line: NotRequired[dict[str, Any]]
    into: NotRequired[str]
    quantity: int
    at: datetime


class DecidedMove(Move):
    """A move on which a cart has decided."""

    is_taken: bool
    # The cart that gets the units instead, if this one has refused them; see `cart_merging`.
    rest: NotRequired[str]


class ClosedStock(TypedDict):
    """The product with this `_id` is being deleted, or was deleted; no unit can be reserved or restocked."""

    deletion: str
    product_id: ObjectId
    at: datetime
    is_final: bool


class StockDocument(Repeatable):
    """The stock of a product. Its `_id` is the SKU."""

    _id: str
    # Units that buyers can add to carts.
    available: int
    # Units in carts that are active, being paid for, or expiring.
    reserved: int
    # Units paid for.
    sold: int
    # The sum of all restocks, less what deletions wrote off; always `available + reserved + sold`.
    restocked: int
    # Moves that are prepared and not concluded.
    under_way: list[Move]
    # Incremented by every change of the above.
    version: int
    # The last known `in_stock` of the product.
    in_stock: bool
    # Since when that value may be outdated; missing while it is current.
    flipped_at: NotRequired[datetime]
    closed: NotRequired[ClosedStock]


STOCK = CollectionSpec(
    "stock",
    document=StockDocument,
    # `_id`, as in the source. Hashed, because SKUs are often consecutive numbers.
    shard_key={"_id": "hashed"},
    indexes=[
        IndexModel([("under_way.at", ASCENDING)], sparse=True),
        IndexModel([("flipped_at", ASCENDING)], sparse=True),
        IndexModel([("closed.is_final", ASCENDING), ("closed.at", ASCENDING)], sparse=True),
    ],
)

# The largest Int of GraphQL.
MAX_UNITS = 2**31 - 1
_NOTIFY_ATTEMPTS = 10
_EMPTY = {"available": 0, "reserved": 0, "sold": 0, "restocked": 0, "under_way": [], "version": 0, "in_stock": False}
_FLIP = {"flipped_at": 1}


def changed_by(now: datetime, *, under_way: Document | None = None, **amounts: int) -> list[Document]:
    """Returns the update that adds these amounts to the counters; `under_way` is an expression for the list.

    The update sets `flipped_at` when `in_stock` becomes outdated. Only `notify_product` removes it, because the product
    may have been updated already while `in_stock` here was not.
    """
    changes: Document = {name: {"$add": [f"${name}", amount]} for name, amount in amounts.items() if amount}
    changes["version"] = {"$add": ["$version", 1]}
    if under_way is not None:
        changes["under_way"] = under_way
    is_right = {"$eq": [{"$gt": ["$available", 0]}, "$in_stock"]}
    since = {"$ifNull": ["$flipped_at", {"$cond": [is_right, "$$REMOVE", now]}]}
    return [{"$set": changes}, {"$set": {"flipped_at": since}}]


async def take_some(db: Database, guard: Document, units: int, update: list[Document]) -> bool:
    """Updates a stock that matches the guard and keeps units besides these. So its product stays in stock.

    An update is cheaper than `change`: for each `find_one_and_update`, MongoDB also stores the whole document.
    """
    left = {"available": {"$gt": units}, "in_stock": True, "flipped_at": {"$exists": False}}
    return bool((await db[STOCK.name].update_one({**guard, **left}, update)).matched_count)


async def change(db: Database, guard: Document, update: list[Document]) -> bool:
    """Updates the stock that matches the guard. Notifies its product if it sold out or has units again."""
    return await _changed(db, guard, update, _FLIP) is not None


async def _changed(db: Database, guard: Document, update: list[Document], projection: Projection) -> Document | None:
    after = await db[STOCK.name].find_one_and_update(
        guard, update, projection=projection, return_document=ReturnDocument.AFTER
    )
    if after is not None and "flipped_at" in after:
        await notify_product(db, after["_id"])
    return after


async def notify_product(db: Database, sku: str) -> None:
    """Stores in the product whether units are available. Idempotent.

    The product stores the version of the stock, and ignores older versions. If the stock changes faster than the
    product can be updated, `flipped_at` stays, and a job continues.
    """
    async for _ in attempts(_NOTIFY_ATTEMPTS, steps=3):
        stock = await db[STOCK.name].find_one({"_id": sku}, {"available": 1, "version": 1, "flipped_at": 1})
        if stock is None or "flipped_at" not in stock:
            return
        in_stock = stock["available"] > 0
        await set_in_stock(db, sku, in_stock=in_stock, version=stock["version"])
        same = {"_id": sku, "version": stock["version"]}
        settled = {"$set": {"in_stock": in_stock}, "$unset": {"flipped_at": ""}}
        if (await db[STOCK.name].update_one(same, settled)).matched_count:
            return


async def restock(db: Database, *, sku: str, quantity: int, now: datetime, operation_id: str) -> ProductDocument:
    """Adds units to `available`, or removes them if `quantity` is negative.

    Returns:  the product.
    Raises:   NotFound (product), InadequateInventory (fewer are available), InvalidInput (too many), Conflict (others
              kept changing the stock).
    Writes:   stock; one guarded update, after an insert for the first units. At times an update that trims its marks.
    """
    if abs(quantity) > MAX_UNITS:
        raise InvalidInput(
            f"A restock can have at most {MAX_UNITS:,} units.",
            "quantity",
            code=InvalidInput.OUT_OF_RANGE,
            least=-MAX_UNITS,
            most=MAX_UNITS,
        )
    sku = trimmed(sku)
    product = await find_by_sku(db, sku)
    if product is None:
        raise NotFound("Product", sku)
    guard: Document = {"_id": sku, "closed": None, **not_applied(operation_id)}
    guard |= {"available": {"$gte": -quantity}} if quantity < 0 else {"restocked": {"$lte": MAX_UNITS - quantity}}
    update = changed_by(now, available=quantity, restocked=quantity)
    update[0]["$set"]["applied"] = applied_with(operation_id)
    async for _ in attempts(steps=3):
        after = await _changed(db, guard, update, {**_FLIP, "applied": 1})
        if after is not None:
            await trim_marks(db, STOCK, after)
            return product
        stock = await db[STOCK.name].find_one({"_id": sku}) or await _open(db, sku)
        if was_applied(stock, operation_id):
            return product
        closed = stock.get("closed")
        if closed is None:
            _require_room(stock, quantity)
        elif closed["product_id"] == product["_id"]:
            raise NotFound("Product", sku)
        else:
            await _reopen_for_new_product(db, sku, closed, now)
    raise Conflict("Other callers are changing the stock. Try again.")


def _require_room(stock: Document, quantity: int) -> None:
    """Raises if the guard of a restock cannot match. Otherwise the stock has changed since the guard failed."""
    if stock["available"] < -quantity:
        raise InadequateInventory(stock["_id"], stock["available"])
    if stock["restocked"] > MAX_UNITS - quantity:
        raise InvalidInput(
            f"A SKU can have at most {MAX_UNITS:,} units in total.",
            "quantity",
            code=InvalidInput.OUT_OF_RANGE,
            most=MAX_UNITS - stock["restocked"],
        )


async def _open(db: Database, sku: str) -> Document:
    """Creates a stock without units, if the SKU has no stock yet."""
    stock = {"_id": sku, **_EMPTY}
    with contextlib.suppress(DuplicateKeyError):
        await db[STOCK.name].insert_one(stock)
    return stock


async def close(db: Database, *, sku: str, product_id: ObjectId, deletion: str, now: datetime) -> bool:
    """Blocks reservations and restocks of the SKU. Returns False if another deletion has closed the stock.

    Raises:   ProductInUse.
    Writes:   stock; one guarded upsert.
    """
    closed = {"deletion": deletion, "product_id": product_id, "at": now, "is_final": False}
    unused = {"_id": sku, "reserved": 0, "under_way": []}
    mine = {"$or": [{"closed": None}, {"closed.is_final": True}, {"closed.deletion": deletion}]}
    fresh = {name: value for name, value in _EMPTY.items() if name not in unused}
    try:
        await db[STOCK.name].update_one(
            {**unused, **mine}, {"$set": {"closed": closed}, "$setOnInsert": fresh}, upsert=True
        )
    except DuplicateKeyError:
        if await db[STOCK.name].find_one({"_id": sku, **mine}, {"_id": 1}) is None:
            return False
        raise ProductInUse from None
    return True


async def reopen(db: Database, sku: str, deletion: str) -> None:
    """Rolls back `close`. Idempotent."""
    await db[STOCK.name].update_one({"_id": sku, "closed.deletion": deletion}, {"$unset": {"closed": ""}})


async def write_off(db: Database, sku: str, deletion: str, *, now: datetime) -> None:
    """Removes the available units from the closed stock of a deleted product. Idempotent."""
    update = changed_by(now)
    gone = {"restocked": {"$subtract": ["$restocked", "$available"]}, "available": 0, "closed.is_final": True}
    update[0]["$set"] |= gone
    await change(db, {"_id": sku, "closed.deletion": deletion, "closed.is_final": False}, update)


async def settle_closed(db: Database, sku: str, deletion: str, *, product_id: ObjectId | None, now: datetime) -> None:
    """Reopens the stock that the deletion has closed if its product still exists; otherwise writes it off.

    Args:     product_id: the id of the current product with the SKU, if there is one.
    """
    closed = (await db[STOCK.name].find_one({"_id": sku}, {"closed": 1}) or {}).get("closed")
    if closed is None or closed["deletion"] != deletion:
        return
    if closed["product_id"] == product_id:
        await reopen(db, sku, deletion)
    else:
        await write_off(db, sku, deletion, now=now)


async def _reopen_for_new_product(db: Database, sku: str, closed: Document, now: datetime) -> None:
    """Opens the stock for a new product with the SKU. The product that it was closed for is deleted."""
    await write_off(db, sku, closed["deletion"], now=now)
    await reopen(db, sku, closed["deletion"])
