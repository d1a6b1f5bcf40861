"""Carts: the collection and its reads.

Source: MongoDB Applied Design Patterns, ch. 5, "Inventory Management".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NotRequired

from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.declarations import Job
from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.errors import NotFound
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import Repeatable

from .addresses import Address
from .stock import DecidedMove, Move

ACTIVE, PENDING, COMPLETE, EXPIRING, EXPIRED = "ACTIVE", "PENDING", "COMPLETE", "EXPIRING", "EXPIRED"

MAX_LINES = 100
MAX_QUANTITY = 1_000
MAX_TOTAL = 2**53 - 1


class Line(TypedDict):
    """A line of a cart or an order."""

    sku: str
    title: str
    # Minor units.
    price: int
    currency: str
    quantity: int


class Checkout(TypedDict):
    """The payment that a cart is locked for, or was paid by."""

    op: str
    reference: str
    payer: str | None
    # How it is paid; missing once it is paid.
    payment: NotRequired[dict[str, Any]]
    # What the order says of the payment, if the order may be missing yet.
    payment_reference: NotRequired[str]
    # Where the order is sent; missing in checkouts of former versions.
    address: NotRequired[Address | None]
    amount: int
    currency: str
    begun: datetime
    # The idle time of the cart if it is unlocked, in seconds.
    lasts: float


class Refusal(TypedDict):
    """A refusal that has unlocked a cart, for the call that it answers."""

    op: str
    type: str
    facts: dict[str, Any]


class CartDocument(Repeatable):
    """A cart. Everyone who knows its `_id`, 128 unguessable bits in hexadecimal, may use a cart without an owner."""

    _id: str
    # The subject of the viewer who created or claimed it; None for none.
    owner: str | None
    # `ACTIVE`, `PENDING`, `COMPLETE`, `EXPIRING` or `EXPIRED`.
    status: str
    # Each SKU once, at most 100.
    items: list[Line]
    # The currency of all lines.
    currency: str | None
    # When a buyer changed it last.
    last_modified: datetime
    # When it expires if nobody changes it; None unless it is active.
    expires_at: datetime | None
    # Incremented by every change of the above, and by every refusal of a move.
    version: int
    # Decisions that the cart has not forgotten yet; see `moves`.
    decided: NotRequired[list[DecidedMove]]
    # The time of the latest move that was refused. The cart takes no move of that time or before; see `moves`.
    refused_until: NotRequired[datetime]
    # True while the stock counts the lines as reserved; missing afterwards.
    holding: NotRequired[bool]
    # The cart that it was merged into; see `cart_merging`.
    into: NotRequired[str]
    # The moves that close the cart, one for each line; see `cart_closing`.
    settlement: NotRequired[list[Move]]
    checkout: NotRequired[Checkout]
    refused: NotRequired[list[Refusal]]
    # When a job must continue it; only while it is pending or expiring, or complete and its order may be missing.
    due: NotRequired[datetime]


CARTS = CollectionSpec(
    "carts",
    document=CartDocument,
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


async def find_by_ids(
    db: Database, ids: Sequence[str], projection: Projection | None = None
) -> dict[str, CartDocument]:
    query: Document = {"_id": ids[0]} if len(ids) == 1 else {"_id": {"$in": list(ids)}}
    found = await CARTS.of(db).find(query, projection, batch_size=len(ids) + 1).to_list()
    return {cart["_id"]: cart for cart in found}


async def find_current(db: Database, owner: str, *, besides: str | None = None) -> Document | None:
    """Returns the owner's last modified active cart, the whole one, besides the cart with this id."""
    query = {"owner": owner, "status": ACTIVE, **({} if besides is None else {"_id": {"$ne": besides}})}
    return await db[CARTS.name].find_one(query, sort=[("last_modified", DESCENDING)])


async def find_latest(db: Database, owner: str) -> Document | None:
    """Returns the owner's last modified cart, the whole one, whatever its status is."""
    query = {"owner": owner, "status": {"$in": [ACTIVE, PENDING, COMPLETE, EXPIRING, EXPIRED]}}
    return await db[CARTS.name].find_one(query, sort=[("last_modified", DESCENDING)])


async def find_of_owner(db: Database, owner: str, projection: Projection | None = None) -> CartDocument | None:
    """Returns the viewer's last modified cart that is active or being paid for."""
    query = {"owner": owner, "status": {"$in": [ACTIVE, PENDING]}}
    return await CARTS.of(db).find_one(query, projection, sort=[("last_modified", DESCENDING)])


def is_visible_to(document: Document, viewer: str | None) -> bool:
    """Returns whether the viewer, None for an anonymous one, may see the cart or order."""
    return document["owner"] is None or document["owner"] == viewer


async def require_cart(db: Database, cart_id: str, viewer: str | None) -> Document:
    """Returns the whole cart. Raises NotFound, also for a cart of another owner."""
    return require_visible(await find_cart(db, cart_id), cart_id, viewer)


async def find_cart(db: Database, cart_id: str) -> Document | None:
    """Returns the whole cart, whoever owns it."""
    return await db[CARTS.name].find_one({"_id": cart_id})


def require_visible(cart: Document | None, cart_id: str, viewer: str | None) -> Document:
    """Returns the cart. Raises NotFound if there is none, or if it has another owner."""
    if cart is None or not is_visible_to(cart, viewer):
        raise NotFound("Cart", cart_id)
    return cart


def total_of(cart: Document) -> int:
    """Returns the total in minor units of the cart's currency."""
    return sum(line["price"] * line["quantity"] for line in cart["items"])


def expiring(now: datetime) -> Document:
    """Returns the fields of a cart whose expiry begins now, besides its status."""
    return {"expires_at": None, "due": now + Job.STALE_AFTER}


def touched(now: datetime, lasts: timedelta) -> Document:
    """Returns the fields that every change by a buyer sets. `lasts` is the idle time until the cart expires."""
    return {"last_modified": now, "expires_at": now + lasts}
