"""Carts: the collection and its reads.

A document:

    _id            128 unguessable bits in hexadecimal: everyone who knows them may use a cart without an owner
    owner          the subject of the viewer who created or claimed it; null for none
    status         `ACTIVE`, `PENDING`, `COMPLETE`, `EXPIRING` or `EXPIRED`
    items          [{sku, title, price (minor units), currency, quantity}], each SKU once, at most 100
    currency       the currency of all lines
    last_modified  when a buyer changed it last
    expires_at     when it expires if nobody changes it; null unless it is active
    version        incremented by every change of the above, and by every refusal of a move
    decided        [move with is_taken]  decisions that the cart has not forgotten yet; see `moves`
    holding        true while the stock counts the lines as reserved; missing afterwards
    settlement     [move]  the moves that settle all lines together; see `cart_settlements`
    checkout       {op, reference, payer, payment, amount, currency, begun, lasts (seconds)}  the payment that it is
                   locked for, or was paid by; without `payment` once it is paid. `lasts` is its idle time if unlocked
    refused        [{op, type, facts}]  the refusals that have unlocked it, each for the call that it answers
    due            when a job must continue it; only while it is pending or expiring
    applied        ids of the latest repeatable operations on it

Source: MongoDB Applied Design Patterns, ch. 5, "Inventory Management".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.errors import NotFound

ACTIVE, PENDING, COMPLETE, EXPIRING, EXPIRED = "ACTIVE", "PENDING", "COMPLETE", "EXPIRING", "EXPIRED"

CARTS = CollectionSpec(
    "carts",
    # `_id`, as in the source; it is random.
    shard_key={"_id": "hashed"},
    indexes=[
        IndexModel([("owner", ASCENDING), ("status", ASCENDING), ("last_modified", DESCENDING)]),
        IndexModel([("status", ASCENDING), ("last_modified", ASCENDING)]),
        IndexModel([("expires_at", ASCENDING)], partialFilterExpression={"status": ACTIVE}),
        IndexModel([("due", ASCENDING)], sparse=True),
        IndexModel([("decided.at", ASCENDING)], sparse=True),
        IndexModel([("items.sku", ASCENDING)], partialFilterExpression={"holding": True}),
    ],
)


async def find_by_ids(db: Database, ids: Sequence[str], projection: Projection | None = None) -> dict[str, Document]:
    query: Document = {"_id": ids[0]} if len(ids) == 1 else {"_id": {"$in": list(ids)}}
    found = await db[CARTS.name].find(query, projection, batch_size=len(ids) + 1).to_list()
    return {cart["_id"]: cart for cart in found}


async def find_of_owner(db: Database, owner: str, projection: Projection | None = None) -> Document | None:
    """Returns the viewer's last modified cart that is active or being paid for."""
    query = {"owner": owner, "status": {"$in": [ACTIVE, PENDING]}}
    return await db[CARTS.name].find_one(query, projection, sort=[("last_modified", DESCENDING)])


def is_visible_to(document: Document, viewer: str | None) -> bool:
    """Returns whether the viewer, None for an anonymous one, may see the cart or order."""
    return document["owner"] is None or document["owner"] == viewer


async def require_cart(db: Database, cart_id: str, viewer: str | None) -> Document:
    """Returns the whole cart. Raises NotFound, also for a cart of another owner."""
    cart = await db[CARTS.name].find_one({"_id": cart_id})
    if cart is None or not is_visible_to(cart, viewer):
        raise NotFound("Cart", cart_id)
    return cart


def total_of(cart: Document) -> int:
    """Returns the total in minor units of the cart's currency."""
    return sum(line["price"] * line["quantity"] for line in cart["items"])


def touched(now: datetime, lasts: timedelta) -> Document:
    """Returns the fields that every change by a buyer sets. `lasts` is the idle time until the cart expires."""
    return {"last_modified": now, "expires_at": now + lasts}
