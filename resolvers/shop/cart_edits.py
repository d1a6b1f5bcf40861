"""Changes of carts by their buyers. `viewer_carts` creates and claims carts.

Each change of a line is a two-phase move (see `moves`): the stock prepares it, the cart decides, the stock concludes.
To add units, the stock prepares them while the cart and the product are read, if they are less than a tenth of what is
available. If the call is refused, it gives them back. Until then, few others can miss them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pymongo import ReturnDocument

from portico.resolvers.catalog.products import find_by_sku
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, DomainError, InvalidInput, NotFound
from portico.resolvers.shop.refusals import CartInactive
from portico.resolvers.texts import trimmed
from portico.resolvers.together import both
from portico.resolvers.writes.marks import is_repeatable, mark_applied, trim_marks, was_applied
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settler import AT_ONCE, Answering
from portico.resolvers.writes.timer import Timer

from . import moves
from .cart_closing import close
from .carts import (
    ACTIVE,
    CARTS,
    EXPIRING,
    MAX_LINES,
    MAX_QUANTITY,
    MAX_TOTAL,
    expiring,
    find_cart,
    require_cart,
    require_visible,
    total_of,
    touched,
)

# Windows of one buyer, or programs, can change the same cart concurrently.
ATTEMPTS, LONGEST_PAUSE = 200, 0.03
# How often a call looks for the quantity that it expects, because the call before it may still be under way. Including
# the pauses, this takes about a third of a second.
_LOOKS = 12
# The units that must be left for each unit that is prepared before the call is known to be allowed.
_KEPT = 9
# The precision of times in the database.
_TICK = timedelta(milliseconds=1)


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
    move = _move_of(cart_id, sku, quantity, buyer, buyer.now)
    try:
        (line, first), is_prepared = await both(
            both(_line(db, sku), find_cart(db, cart_id)), _prepare_early(db, buyer, move)
        )
    except DomainError:
        await _give_back(db, buyer, move)
        raise

    def plan(cart: Document) -> Change | None:
        present = quantity_of(cart, sku)
        return _with_line(cart, {**line, "quantity": present + quantity}, "quantity", added_to=present)

    return await _change(db, buyer, cart_id, plan, first, move if is_prepared else None)


async def _prepare_early(db: Database, buyer: Buyer, move: Document) -> bool:
    """Prepares a move before its cart is known, if it leaves enough for others. Returns whether it did."""
    if move["quantity"] > MAX_QUANTITY:
        return False
    await buyer.answering.confirmed()
    return await moves.prepare_early(db, move, keeps=_KEPT * move["quantity"], now=buyer.now)


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


async def discard_cart(db: Database, buyer: Buyer, *, cart_id: str) -> Document:
    """Expires an active cart at once: its units return to stock.

    Returns:  the cart, expired.
    Raises:   NotFound, CartInactive, Conflict (others kept changing the cart).
    Writes:   carts; then the cart is closed, which a job finishes after a crash.
    """
    async for _ in attempts(ATTEMPTS, longest=LONGEST_PAUSE):
        cart = await require_cart(db, cart_id, buyer.viewer)
        if not was_applied(cart, buyer.operation_id):
            require_active(cart)
            values = {"status": EXPIRING, "last_modified": buyer.now, **expiring(buyer.now)}
            marked = mark_applied(buyer.operation_id)
            locked = await update_cart(db, cart, {"$set": values, "$inc": {"version": 1}, **marked})
            if locked is None:
                continue
            cart = locked
        return await close(db, cart, now=buyer.now) if cart["status"] == EXPIRING else cart
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


def _with_line(cart: Document, line: Document, path: str, *, added_to: int = 0) -> Change | None:
    """Returns the change that sets this line, or removes it if its quantity is 0. Raises InvalidInput.

    Args:     path: the parameter with the units of the line, or with those that are added to so many.
    """
    units = line["quantity"] - quantity_of(cart, line["sku"])
    if not units:
        return None
    by_sku = {present["sku"]: present for present in cart["items"]} | {line["sku"]: line}
    items = [present for present in by_sku.values() if present["quantity"]]
    if line["quantity"] > MAX_QUANTITY:
        raise InvalidInput(
            f"A line can have at most {MAX_QUANTITY:,} units.",
            path,
            code=InvalidInput.OUT_OF_RANGE,
            most=MAX_QUANTITY - added_to,
        )
    if len(items) > MAX_LINES:
        raise InvalidInput(
            f"A cart can have at most {MAX_LINES} lines.", "sku", code=InvalidInput.TOO_MANY, most=MAX_LINES
        )
    if len({present["currency"] for present in items}) > 1:
        text = f"The product has another currency than the cart, which is in {cart['currency']}."
        raise InvalidInput(text, "sku", code=InvalidInput.NOT_ALLOWED)
    total = total_of({"items": items})
    if total > MAX_TOTAL:
        room = MAX_TOTAL - (total - line["price"] * line["quantity"])
        raise InvalidInput(
            "The total of the cart must not exceed 2^53 - 1 minor units.",
            path,
            code=InvalidInput.OUT_OF_RANGE,
            most=max(0, room // max(1, line["price"]) - added_to),
        )
    return Change(items, items[0]["currency"] if items else cart["currency"], line["sku"], units)


async def _change(
    db: Database, buyer: Buyer, cart_id: str, plan: Plan, first: Document | None, move: Document | None = None
) -> Document:
    """Applies the planned change, once for each operation. Plans again if the cart changes in the meantime.

    Args:     first: the cart as it was read.  move: what is prepared for this change already.
    """
    timer = Timer(buyer.now)
    async for tried in attempts(ATTEMPTS, longest=LONGEST_PAUSE):
        try:
            found = await find_cart(db, cart_id) if tried else first
            cart = require_visible(found, cart_id, buyer.viewer)
            change = _planned(cart, buyer, plan)
        except DomainError as refusal:
            if isinstance(refusal, Conflict) and tried < _LOOKS:
                continue
            await _give_back(db, buyer, move)
            raise
        if change is None:
            await _give_back(db, buyer, move)
            move = None
            if (marked := await _marked(db, buyer, cart)) is not None:
                return marked
            continue
        if move is not None and tried and not await _is_open(db, cart, move):
            await _give_back(db, buyer, move)
            move = None
        if move is None:
            # Another call with the key must not find the last unit taken by this one.
            await buyer.answering.confirmed()
            move = _move_of(cart_id, change.sku, change.units, buyer, _takeable(cart, timer.now()))
            await moves.prepare(db, move, now=buyer.now)
        changed = await _decide(db, buyer, cart, change, move)
        if changed is not None:
            await moves.finish(db, move, is_taken=True, now=buyer.now, answering=buyer.answering)
            await trim_marks(db, CARTS, changed)
            return changed
    await _give_back(db, buyer, move)
    raise Conflict("Other callers are changing the cart. Try again.")


def _planned(cart: Document, buyer: Buyer, plan: Plan) -> Change | None:
    if was_applied(cart, buyer.operation_id):
        return None
    require_active(cart)
    return plan(cart)


def _move_of(cart_id: str, sku: str, units: int, buyer: Buyer, at: datetime) -> Document:
    return moves.new_move(
        "reserve" if units > 0 else "return",
        sku=sku,
        cart_id=cart_id,
        quantity=abs(units),
        now=at,
        operation_id=buyer.operation_id,
    )


def _takeable(cart: Document, now: datetime) -> datetime:
    """Returns a time of a move that the cart can take: now, or later if the clock of a former primary was ahead."""
    return max(now, cart["refused_until"] + _TICK) if "refused_until" in cart else now


async def _marked(db: Database, buyer: Buyer, cart: Document) -> Document | None:
    """Stores that the operation had nothing to change, so that a repeated call finds that. Returns the cart.

    Returns None if the cart has changed since it was read.
    """
    if not is_repeatable(buyer.operation_id) or was_applied(cart, buyer.operation_id):
        return cart
    await buyer.answering.confirmed()
    marked = await update_cart(db, cart, mark_applied(buyer.operation_id))
    if marked is not None:
        await trim_marks(db, CARTS, marked)
    return marked


async def _is_open(db: Database, cart: Document, move: Document) -> bool:
    """Returns whether the move can still be taken: it is prepared and not refused."""
    is_refused = any(decided["id"] == move["id"] for decided in cart.get("decided", ()))
    is_refused |= "refused_until" in cart and move["at"] <= cart["refused_until"]
    return not is_refused and await moves.is_prepared(db, move)


async def _give_back(db: Database, buyer: Buyer, move: Document | None) -> None:
    """Rolls back a move that only this call could have taken, if it is prepared."""
    if move is not None:
        await moves.conclude(db, move, is_taken=False, now=buyer.now)


async def _decide(db: Database, buyer: Buyer, cart: Document, change: Change, move: Document) -> Document | None:
    """Returns the cart after the change; None if it has changed since it was read, or has refused the move."""
    marked = mark_applied(buyer.operation_id).get("$push", {})
    values = {"items": change.items, "currency": change.currency, **touched(buyer.now, buyer.cart_lifetime)}
    allowed = {
        "_id": cart["_id"],
        "version": cart["version"],
        "refused_until": {"$not": {"$gte": move["at"]}},
    }
    pushes = {"decided": {**move, "is_taken": True}, **marked}
    update = {"$set": values, "$inc": {"version": 1}, "$push": pushes}
    # The version guards everything that is shown of the cart. For each `find_one_and_update`, MongoDB also stores the
    # whole document.
    if not (await db[CARTS.name].update_one(allowed, update)).matched_count:
        return None
    applied = [*cart.get("applied", ()), *marked.values()]
    return {**cart, **values, "version": cart["version"] + 1, "applied": applied}


async def update_cart(db: Database, cart: Document, update: Document) -> Document | None:
    """Returns the cart after the update; None if it has changed since it was read."""
    same = {"_id": cart["_id"], "version": cart["version"]}
    return await db[CARTS.name].find_one_and_update(same, update, return_document=ReturnDocument.AFTER)
