"""Orders: a paid cart as one document, with its lines, its total and its status. The collection and its reads.

      PLACED ---ship---> SHIPPED ---deliver---> DELIVERED
         |
         +---cancel---> CANCELLED

Each step is one update that is guarded by the status. `order_edits` ships and delivers, `cancelling` cancels.

Source: MongoDB Applied Design Patterns, ch. 3, "Modeling a Simple Order".
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NotRequired

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection, Versioned
from portico.resolvers.paging import Listing, Sort
from portico.resolvers.typed import TypedDict

from .addresses import Address
from .carts import COMPLETE, Line
from .stock import Move

PLACED, SHIPPED, DELIVERED, CANCELLED = "PLACED", "SHIPPED", "DELIVERED", "CANCELLED"


class StatusChange(TypedDict):
    """A status that an order has or had, and since when. `op` is the operation that set it."""

    status: str
    at: datetime
    op: str


class Change(TypedDict):
    """The last change that users see. Change events have it, and no more of the order."""

    owner: str | None
    op: str


class Refund(TypedDict):
    """The money that a cancelled order gives back."""

    # Counts the attempts that were refused. Each attempt has its own idempotency key.
    attempt: int
    # When the present attempt was begun.
    begun: datetime
    # The reference of the payment that gave the money back, and since when it is known.
    reference: NotRequired[str]
    at: NotRequired[datetime]


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
    # `PLACED`, `SHIPPED`, `DELIVERED` or `CANCELLED`.
    status: str
    # The present status comes last.
    history: list[StatusChange]
    address: Address | None
    tracking_number: NotRequired[str | None]
    # Incremented by every change that users see.
    version: int
    changed: NotRequired[Change]
    # Incremented by every refusal of a move, see `moves`.
    fence: int
    # The moves that have put its units back into the stock; only if it is cancelled.
    returned: NotRequired[list[Move]]
    refund: NotRequired[Refund]
    # When a job must continue the cancellation; missing when it is finished.
    due: NotRequired[datetime]
    # True until its products know that they are bought together; see `bought_together`.
    uncounted: NotRequired[bool]


def _upgrade(order: Document) -> Document:
    """Upgrades an order of version 1, which has no status."""
    return {**order, **_placed(order["placed_at"], order["_id"]), "address": None}


def _placed(at: datetime, operation_id: str) -> Document:
    history = [{"status": PLACED, "at": at, "op": operation_id}]
    return {"status": PLACED, "history": history, "version": 1, "fence": 0}


ORDERS = CollectionSpec(
    "orders",
    document=OrderDocument,
    shard_key={"_id": "hashed"},
    indexes=[
        IndexModel([("owner", ASCENDING), ("placed_at", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("status", ASCENDING), ("placed_at", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("placed_at", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("items.sku", ASCENDING), ("placed_at", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("uncounted", ASCENDING)], sparse=True),
        IndexModel([("due", ASCENDING)], sparse=True),
        # The orders of an older version.
        IndexModel([("schema_version", ASCENDING)]),
    ],
    version=2,
    upgrade=_upgrade,
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
        **_placed(checkout["begun"], checkout["op"]),
        "address": checkout.get("address"),
        **({"uncounted": True} if len(cart["items"]) > 1 else {}),
        "schema_version": ORDERS.version,
    }


async def find_by_ids(
    db: Database, ids: Sequence[str], projection: Projection | None = None
) -> dict[str, OrderDocument]:
    return await ORDERS.find_by_keys(db, ids, projection=projection)


def was_changed_by(order: Mapping[str, Any], operation_id: str) -> bool:
    """Returns whether the operation has set a status of the order."""
    return any(change["op"] == operation_id for change in order["history"])


def stepped(order: Mapping[str, Any], status: str, *, now: datetime, operation_id: str) -> Document:
    """Returns the update that gives the order this status."""
    return {
        "$set": {"status": status, "changed": {"owner": order["owner"], "op": operation_id}},
        "$push": {"history": {"status": status, "at": now, "op": operation_id}},
        "$inc": {"version": 1},
    }


def orders_of(owner: str) -> Listing:
    """Returns the listing of the viewer's orders, latest first."""
    return Listing({"owner": owner}, Sort((("placed_at", -1),)))


def all_orders(status: str | None = None) -> Listing:
    """Returns the listing of everybody's orders, of those with this status if there is one, latest first."""
    return Listing({} if status is None else {"status": status}, Sort((("placed_at", -1),)))
