"""Orders: a paid cart as one document, with its lines and its total. The collection, its reads and its write.

Source: MongoDB Applied Design Patterns, ch. 3, "Modeling a Simple Order".
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from datetime import datetime

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection, Versioned
from portico.resolvers.paging import Listing, Sort

from .carts import COMPLETE, Line


class OrderDocument(Versioned):
    """An order. Its `_id` is 128 bits in hexadecimal, derived from the reference of the charge."""

    _id: str
    # The subject of the buyer; None for an anonymous one.
    owner: str | None
    cart_id: str
    # When the checkout began.
    placed_at: datetime
    items: list[Line]
    # Minor units.
    total: int
    currency: str
    # The id of the payment at the provider, or of the transfer.
    payment_reference: str


ORDERS = CollectionSpec(
    "orders",
    document=OrderDocument,
    shard_key={"_id": "hashed"},
    indexes=[
        IndexModel([("owner", ASCENDING), ("placed_at", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("items.sku", ASCENDING)]),
    ],
)


def order_id(reference: str) -> str:
    return hashlib.blake2b(f"{reference}/order".encode(), digest_size=16).hexdigest()


async def place_order(db: Database, cart: Document, payment_reference: str) -> Document:
    """Writes the order of a cart that is paid for. Idempotent.

    Returns:  the order; every call writes the same.
    Writes:   orders; one insert.
    """
    order = order_of(cart, payment_reference)
    with contextlib.suppress(DuplicateKeyError):
        await db[ORDERS.name].insert_one(order)
    return order


async def place_due(db: Database, cart: Document) -> None:
    """Writes the order of a sold cart, if it may be missing. Idempotent. See `checkout`."""
    if cart.get("status") == COMPLETE and "due" in cart:
        await place_order(db, cart, cart["checkout"]["payment_reference"])


def order_of(cart: Document, payment_reference: str) -> Document:
    """Returns the order of a cart as it is written first."""
    checkout = cart["checkout"]
    return {
        "_id": order_id(checkout["reference"]),
        "owner": checkout["payer"],
        "cart_id": cart["_id"],
        "placed_at": checkout["begun"],
        "items": cart["items"],
        "total": checkout["amount"],
        "currency": checkout["currency"],
        "payment_reference": payment_reference,
    }


async def find_by_ids(
    db: Database, ids: Sequence[str], projection: Projection | None = None
) -> dict[str, OrderDocument]:
    query: Document = {"_id": ids[0]} if len(ids) == 1 else {"_id": {"$in": list(ids)}}
    found = await ORDERS.of(db).find(query, projection, batch_size=len(ids) + 1).to_list()
    return {order["_id"]: order for order in found}


def orders_of(owner: str) -> Listing:
    """Returns the listing of the viewer's orders, latest first."""
    return Listing({"owner": owner}, Sort((("placed_at", -1),)))
