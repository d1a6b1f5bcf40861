"""Changes of carts by their buyers.

Each change of a line is a two-phase move (see `moves`): the stock prepares it, the cart decides, the stock concludes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.catalog.products import find_by_sku
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, DomainError, InvalidInput, NotFound
from portico.resolvers.shop.refusals import CartInactive
from portico.resolvers.text import trimmed
from portico.resolvers.together import both
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settlements import AT_ONCE, Answering

from . import merging, moves
from .cart_settlements import settle
from .carts import (
    ACTIVE,
    CARTS,
    EXPIRING,
    MAX_LINES,
    MAX_QUANTITY,
    MAX_TOTAL,
    expiring,
    find_cart,
    find_current,
    require_cart,
    require_visible,
    total_of,
    touched,
)

DEFAULT_CURRENCY = "USD"
# Windows of one buyer, or programs, can change the same cart concurrently.
_ATTEMPTS, _LONGEST_PAUSE = 200, 0.03
# How often a call looks for the quantity that it expects, because the call before it may still be under way. Including
# the pauses, this takes about a third of a second.
_LOOKS = 12


@dataclass(frozen=True)
class Buyer:
    """The caller of a change: the viewer's subject, None for an anonymous one, the time, and the idle time of carts.

    `answering` is how a change of lines is answered.
    """

    viewer: str | None
    now: datetime
    cart_lifetime: timedelta
    operation_id: str
    answering: Answering = AT_ONCE


@dataclass(frozen=True)
class Change:
    """The new lines of a cart, and how many more units of the SKU they hold; negative for fewer."""

    items: list[Document]
    currency: str
    sku: str
    units: int


# Returns the change for the current cart; None if there is nothing to change.
Plan = Callable[[Document], Change | None]


async def create_cart(db: Database, buyer: Buyer) -> Document:
    """Creates an empty cart. A signed-in viewer owns it.

    Returns:  the cart.
    Writes:   carts; one insert.
    """
    cart = {
        "_id": _cart_id(buyer.operation_id),
        "owner": buyer.viewer,
        "status": ACTIVE,
        "items": [],
        "currency": DEFAULT_CURRENCY,
        **touched(buyer.now, buyer.cart_lifetime),
        "version": 0,
        "holding": True,
    }
    try:
        await db[CARTS.name].insert_one(cart)
    except DuplicateKeyError:
        return await require_cart(db, cart["_id"], buyer.viewer)
    return cart


def _cart_id(operation_id: str) -> str:
    """Derives an unguessable id: every operation id has 122 random bits that no client sees."""
    return hashlib.blake2b(f"{operation_id}/cart".encode(), digest_size=16).hexdigest()


async def add_item(db: Database, buyer: Buyer, *, cart_id: str, sku: str, quantity: int) -> Document:
    """Adds units of the SKU to the cart, or does nothing. The whole line gets the current price and title.

    Args:     quantity: whole units to add; a line holds 1 to 1,000.
    Returns:  the cart.
    Raises:   InvalidInput, NotFound (cart, product), CartInactive, InadequateInventory, Conflict (others kept changing
              the cart).
    Writes:   stock, then carts; a two-phase move.
    """
    if quantity < 1:
        raise InvalidInput("The quantity must be at least 1.", "quantity", code=InvalidInput.OUT_OF_RANGE, least=1)
    sku = trimmed(sku)
    line, first = await both(_line(db, sku), find_cart(db, cart_id))

    def plan(cart: Document) -> Change | None:
        return _with_line(cart, {**line, "quantity": quantity_of(cart, sku) + quantity}, "quantity")

    return await _change(db, buyer, cart_id, plan, first)


async def update_item(
    db: Database, buyer: Buyer, *, cart_id: str, sku: str, old_quantity: int, new_quantity: int
) -> Document:
    """Changes the quantity of a line, if it equals `old_quantity`, or does so within a third of a second.

    The line keeps its price and title. A missing line has the quantity 0, and is added as by `add_item`.

    Args:     new_quantity: 0 to 1,000; 0 removes the line.
    Returns:  the cart.
    Raises:   InvalidInput, NotFound (cart, product), CartInactive, InadequateInventory, Conflict (the cart has
              another quantity, or others kept changing it).
    Writes:   stock, then carts; a two-phase move.
    """
    with InvalidInput.collect() as check:
        for quantity, name in ((old_quantity, "old_quantity"), (new_quantity, "new_quantity")):
            if quantity < 0:
                check.refuse(
                    InvalidInput("The quantity must not be negative.", name, code=InvalidInput.OUT_OF_RANGE, least=0)
                )
    sku = trimmed(sku)
    reading = both(_line(db, sku), find_cart(db, cart_id)) if old_quantity == 0 else None
    new_line, first = ({}, await find_cart(db, cart_id)) if reading is None else await reading

    def plan(cart: Document) -> Change | None:
        present = quantity_of(cart, sku)
        line = next((line for line in cart["items"] if line["sku"] == sku), new_line)
        if present != old_quantity:
            raise Conflict(f"The cart has {present} units of {line.get('title', sku)!r}, not {old_quantity}.")
        return _with_line(cart, {**line, "quantity": new_quantity}, "new_quantity")

    try:
        return await _change(db, buyer, cart_id, plan, first)
    except Conflict as conflict:
        product = await find_by_sku(db, sku, {"title": 1})
        conflict.about = {"cart": cart_id, "title": None if product is None else product["title"]}
        raise


async def claim_cart(db: Database, buyer: Buyer, *, cart_id: str) -> Document:
    """Makes the viewer the owner of a cart without an owner, or merges it into the viewer's cart.

    The viewer's cart is the active one that they have changed last. An older one of theirs is merged into it, too.

    Returns:  the viewer's cart.
    Raises:   NotFound, CartInactive, Conflict (others kept changing the cart, or the viewer's cart cannot hold all
              lines).
    Writes:   carts; one guarded update. If it merges, a settlement of the cart follows, and the viewer's cart takes its
              lines; the jobs finish that after a crash.
    """
    assert buyer.viewer is not None
    async for _ in attempts(_ATTEMPTS, longest=_LONGEST_PAUSE):
        cart = await require_cart(db, cart_id, buyer.viewer)
        if "into" in cart:
            return await _merge(db, buyer, cart)
        own = await find_current(db, buyer.viewer, besides=cart_id)
        is_current = own is None or own["last_modified"] <= cart["last_modified"]
        if cart["owner"] is not None and (is_current or cart["status"] != ACTIVE):
            return cart
        require_active(cart)
        values = {"owner": buyer.viewer, **touched(buyer.now, buyer.cart_lifetime)}
        if own is not None:
            _require_room(own, cart)
            values |= {"status": EXPIRING, "into": own["_id"], **expiring(buyer.now)}
        claimed = await _update(db, cart, {"$set": values, "$inc": {"version": 1}})
        if claimed is not None:
            return claimed if own is None else await _merge(db, buyer, claimed)
    raise Conflict("Other callers are changing the cart. Try again.")


def _require_room(own: Document, cart: Document) -> None:
    """Raises Conflict if the viewer's cart cannot hold the lines of the other cart as well."""
    content: Document | None = own
    for line in cart["items"]:
        content = None if content is None else merging.combined(content, line)
        if content is None:
            text = f"Your cart cannot hold {line['title']!r} as well: it is full, or in another currency."
            raise Conflict(text, about={"cart": own["_id"], "title": line["title"]})


async def _merge(db: Database, buyer: Buyer, cart: Document) -> Document:
    """Passes the lines of a locked cart on. Returns the cart that has them. Idempotent."""
    if cart["status"] == EXPIRING:
        cart = await settle(db, cart, now=buyer.now)
    arrived = [moves.arriving(move) for move in cart["settlement"]]
    await merging.take(db, arrived, now=buyer.now, values=touched(buyer.now, buyer.cart_lifetime))
    own = await require_cart(db, cart["into"], buyer.viewer)
    if own["status"] == ACTIVE or not arrived:
        return own
    # It may have been bought before it could take the lines.
    return await find_cart(db, merging.rest_id(own["_id"], arrived[0])) or own


async def discard_cart(db: Database, buyer: Buyer, *, cart_id: str) -> Document:
    """Expires an active cart at once: its units return to stock.

    Returns:  the cart, expired.
    Raises:   NotFound, CartInactive, Conflict (others kept changing the cart).
    Writes:   carts, then a settlement of the cart, which a job finishes after a crash.
    """
    async for _ in attempts(_ATTEMPTS, longest=_LONGEST_PAUSE):
        cart = await require_cart(db, cart_id, buyer.viewer)
        if not idempotency.was_applied(cart, buyer.operation_id):
            require_active(cart)
            values = {"status": EXPIRING, "last_modified": buyer.now, **expiring(buyer.now)}
            marked = idempotency.mark_applied(buyer.operation_id)
            locked = await _update(db, cart, {"$set": values, "$inc": {"version": 1}, **marked})
            if locked is None:
                continue
            cart = locked
        return await settle(db, cart, now=buyer.now) if cart["status"] == EXPIRING else cart
    raise Conflict("Other callers are changing the cart. Try again.")


def require_active(cart: Document) -> None:
    if cart["status"] != ACTIVE:
        raise CartInactive(cart["status"])


def quantity_of(cart: Document, sku: str) -> int:
    return next((line["quantity"] for line in cart["items"] if line["sku"] == sku), 0)


async def _line(db: Database, sku: str) -> Document:
    """Returns a line for the current product, without a quantity. Raises NotFound."""
    product = await find_by_sku(db, sku, {"pricing": 1, "title": 1})
    if product is None:
        raise NotFound("Product", sku)
    pricing = product["pricing"]
    return {"sku": sku, "title": product["title"], "price": pricing["retail"], "currency": pricing["currency"]}


def _with_line(cart: Document, line: Document, path: str) -> Change | None:
    """Returns the change that sets this line, or removes it if its quantity is 0. Raises InvalidInput."""
    units = line["quantity"] - quantity_of(cart, line["sku"])
    if not units:
        return None
    by_sku = {present["sku"]: present for present in cart["items"]} | {line["sku"]: line}
    items = [present for present in by_sku.values() if present["quantity"]]
    if line["quantity"] > MAX_QUANTITY:
        raise InvalidInput(
            f"A line can have at most {MAX_QUANTITY:,} units.", path, code=InvalidInput.OUT_OF_RANGE, most=MAX_QUANTITY
        )
    if len(items) > MAX_LINES:
        raise InvalidInput(
            f"A cart can have at most {MAX_LINES} lines.", "sku", code=InvalidInput.TOO_MANY, most=MAX_LINES
        )
    if len({present["currency"] for present in items}) > 1:
        text = f"The product has another currency than the cart, which is in {cart['currency']}."
        raise InvalidInput(text, "sku", code=InvalidInput.NOT_ALLOWED)
    if total_of({"items": items}) > MAX_TOTAL:
        raise InvalidInput(
            "The total of the cart must not exceed 2^53 - 1 minor units.",
            path,
            code=InvalidInput.OUT_OF_RANGE,
            most=MAX_TOTAL,
        )
    return Change(items, items[0]["currency"] if items else cart["currency"], line["sku"], units)


async def _change(db: Database, buyer: Buyer, cart_id: str, plan: Plan, first: Document | None) -> Document:
    """Applies the planned change, once for each operation. Plans again if the cart changes in the meantime.

    Args:     first: the cart as it was read.
    """
    move: Document | None = None
    async for tried in attempts(_ATTEMPTS, longest=_LONGEST_PAUSE):
        try:
            found = await find_cart(db, cart_id) if tried else first
            cart = require_visible(found, cart_id, buyer.viewer)
            change = _planned(cart, buyer, plan)
        except Conflict:
            if tried < _LOOKS:
                continue
            await _give_back(db, buyer, move)
            raise
        except DomainError:
            await _give_back(db, buyer, move)
            raise
        if change is None:
            await _give_back(db, buyer, move)
            move = None
            if (marked := await _marked(db, buyer, cart)) is not None:
                return marked
            continue
        # Read the cart before the stock: a refused move leaves the stock before the cart forgets the refusal.
        if move is None or not await _is_open(db, cart, move):
            # Another call with the key must not find the last unit taken by this one.
            await buyer.answering.confirmed()
            move = _move_of(cart, change, buyer)
            await moves.prepare(db, move, now=buyer.now)
        changed = await _decide(db, buyer, cart, change, move)
        if changed is not None:
            await moves.finish(db, move, is_taken=True, now=buyer.now, answering=buyer.answering)
            await idempotency.trim_marks(db, CARTS, changed)
            return changed
    await _give_back(db, buyer, move)
    raise Conflict("Other callers are changing the cart. Try again.")


def _planned(cart: Document, buyer: Buyer, plan: Plan) -> Change | None:
    if idempotency.was_applied(cart, buyer.operation_id):
        return None
    require_active(cart)
    return plan(cart)


def _move_of(cart: Document, change: Change, buyer: Buyer) -> Document:
    return moves.new_move(
        "reserve" if change.units > 0 else "return",
        sku=change.sku,
        cart_id=cart["_id"],
        quantity=abs(change.units),
        now=buyer.now,
        operation_id=buyer.operation_id,
    )


async def _marked(db: Database, buyer: Buyer, cart: Document) -> Document | None:
    """Stores that the operation had nothing to change, so that a repeated call finds that. Returns the cart.

    Returns None if the cart has changed since it was read.
    """
    if not idempotency.is_repeatable(buyer.operation_id) or idempotency.was_applied(cart, buyer.operation_id):
        return cart
    await buyer.answering.confirmed()
    marked = await _update(db, cart, idempotency.mark_applied(buyer.operation_id))
    if marked is not None:
        await idempotency.trim_marks(db, CARTS, marked)
    return marked


async def _is_open(db: Database, cart: Document, move: Document) -> bool:
    """Returns whether the move can still be taken: it is prepared and not refused."""
    is_decided = any(decided["id"] == move["id"] for decided in cart.get("decided", ()))
    return not is_decided and await moves.is_prepared(db, move)


async def _give_back(db: Database, buyer: Buyer, move: Document | None) -> None:
    """Rolls back a prepared move that only this call could have taken."""
    if move is not None:
        await moves.conclude(db, move, is_taken=False, now=buyer.now)


async def _decide(db: Database, buyer: Buyer, cart: Document, change: Change, move: Document) -> Document | None:
    pushes = {"decided": {**move, "is_taken": True}, **idempotency.mark_applied(buyer.operation_id).get("$push", {})}
    values = {"items": change.items, "currency": change.currency, **touched(buyer.now, buyer.cart_lifetime)}
    return await _update(db, cart, {"$set": values, "$inc": {"version": 1}, "$push": pushes})


async def _update(db: Database, cart: Document, update: Document) -> Document | None:
    """Returns the cart after the update; None if it has changed since it was read."""
    same = {"_id": cart["_id"], "version": cart["version"]}
    return await db[CARTS.name].find_one_and_update(same, update, return_document=ReturnDocument.AFTER)
