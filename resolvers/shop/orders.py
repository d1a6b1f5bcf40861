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

from .carts import Line


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
    """Writes the order of a pending cart that is paid for. Idempotent.

    Returns:  the order; every call writes the same.
    Writes:   orders; one insert.
    """
    checkout = cart["checkout"]
    order = {
        "_id": order_id(checkout["reference"]),
        "owner": checkout["payer"],
        "cart_id": cart["_id"],
        "placed_at": checkout["begun"],
        "items": cart["items"],
        "total": checkout["amount"],
        "currency": checkout["currency"],
        "payment_reference": payment_reference,
    }
    with contextlib.suppress(DuplicateKeyError):
        await db[ORDERS.name].insert_one(order)
    return order


async def find_by_ids(
    db: Database, ids: Sequence[str], projection: Projection | None = None
) -> dict[str, OrderDocument]:
    query: Document = {"_id": ids[0]} if len(ids) == 1 else {"_id": {"$in": list(ids)}}
    found = await ORDERS.of(db).find(query, projection, batch_size=len(ids) + 1).to_list()
    return {order["_id"]: order for order in found}


def orders_of(owner: str) -> Listing:
    """Returns the listing of the viewer's orders, latest first."""
    return Listing({"owner": owner}, Sort((("placed_at", -1),)))
