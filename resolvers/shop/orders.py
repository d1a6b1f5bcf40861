"""Orders: a paid cart as one document, with its lines and its total. The collection, its reads and its write.

A document:

    _id                128 bits in hexadecimal, derived from the reference of the charge
    owner              the subject of the buyer; null for an anonymous one
    cart_id
    placed_at          when the checkout began
    items              [{sku, title, price (minor units), currency, quantity}]
    total, currency    minor units
    payment_reference  the id of the payment at the provider, or of the transfer

Source: MongoDB Applied Design Patterns, ch. 3, "Modeling a Simple Order".
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.paging import Listing, Sort

ORDERS = CollectionSpec(
    "orders",
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


async def find_by_ids(db: Database, ids: Sequence[str], projection: Projection | None = None) -> dict[str, Document]:
    query: Document = {"_id": ids[0]} if len(ids) == 1 else {"_id": {"$in": list(ids)}}
    found = await db[ORDERS.name].find(query, projection, batch_size=len(ids) + 1).to_list()
    return {order["_id"]: order for order in found}


def orders_of(owner: str) -> Listing:
    """Returns the listing of the viewer's orders, latest first."""
    return Listing({"owner": owner}, Sort((("placed_at", -1),)))
