"""The checkout: a cart is locked, paid for, and becomes an order.

It is a saga. Every step is idempotent, and any process can repeat it:

1. Lock the cart: `ACTIVE` → `PENDING`, with the reference of the charge, the amount and the payment. From now on the
   lines don't change, and the cart doesn't expire.
2. Collect the money under the reference. Every request with the reference has the same outcome.
3. If the money was collected: write the order, whose id is derived from the reference, and close the cart; see
   `cart_closing`. Its moves are prepared before.
4. If the payment was refused: unlock the cart with all its items, and store the refusal for this call, in one update.

      ACTIVE --1 lock--> PENDING --3 paid--> COMPLETE
        ^                   |
        +-----4 refused-----+

Each lock has a new reference. A process that resumes with an outdated reference changes nothing: a cart is unlocked
only if it still has that reference, and a refused charge stays refused.

What does not depend on each other is sent at the same time, if the money is in an account of ours:

    1 the lock, and the notes of the transfer in both accounts
    2 the record of the transfer, which decides it, and the moves in the stock
    3 the order, and the cart

* If the cart was not locked, the notes are undone: the record that decides is written after the lock only.
* If the transfer was refused, the moves are rolled back. Until the cart decides, they change no counter.
* The cart stays due until its order is known to be written; see `cart_closing`.

Another provider can take long. So the moves are prepared after its answer, while the order is written, and the cart is
closed afterwards.

A call locks a cart at most once. A job, or a call whose connection is lost, can be the one that gets the refusal, and
the buyer can then change the cart. So a repeated call looks for its refusal before it locks. It reads the refusal from
the document that it locks, and the lock is guarded by the document's version. It never buys the changed cart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import PyMongoError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, DomainError, error_type
from portico.resolvers.shop.payments import Charge, Payments, PaymentUnknown, PreparesCharges, ReadyCharge
from portico.resolvers.shop.refusals import EmptyCart, PaymentDeclined, PaymentPending
from portico.resolvers.together import both
from portico.resolvers.writes.marks import derived_nonce, forgettable
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settler import AT_ONCE, Answering
from portico.resolvers.writes.timer import Timer

from . import moves
from .addresses import Address, require_address
from .cart_closing import close, moves_of, prepare
from .cart_edits import Buyer, require_active
from .carts import ACTIVE, CARTS, COMPLETE, PENDING, require_cart, total_of, touched
from .orders import find_by_ids, order_id, order_of, place_order

# The call that requests a charge needs at most this long. Then a job asks for the outcome, again and again.
ASKED_AGAIN_AFTER = timedelta(seconds=30)
# A cart keeps at least this many of its latest refusals, and older ones that a call may still ask for.
_REFUSALS_KEPT = 8


@dataclass(frozen=True)
class CheckedOut:
    """A complete cart, and its order."""

    cart: Document
    order: Mapping[str, Any]


async def checkout(
    db: Database,
    buyer: Buyer,
    payments: Payments,
    *,
    cart_id: str,
    payment: Document,
    address: Address | None = None,
) -> CheckedOut:
    """Sells the items of the cart.

    Args:     payment: as in `payments.Charge`.  address: where the order is sent, if anywhere.
    Raises:   InvalidInput, NotFound (cart, account), CartInactive, EmptyCart, PaymentDeclined, InsufficientFunds: the
              items of the cart are unchanged. PaymentPending (the cart stays locked until the outcome is known),
              Conflict (others kept changing the cart).
    Writes:   carts, orders, stock; a saga.
    """
    address = None if address is None else require_address(address)
    timer = Timer(buyer.now)
    async for _ in attempts():
        cart = await require_cart(db, cart_id, buyer.viewer)
        _require_not_refused(cart, buyer)
        if _is_mine(cart, buyer):
            return await finish(db, payments, cart, now=buyer.now, answering=buyer.answering)
        require_active(cart)
        if not cart["items"]:
            raise EmptyCart
        if not payments.accepts(payment):
            raise PaymentDeclined(f"The shop does not accept payments by {payment['method']}.")
        terms = _terms(cart, buyer, payment, address)
        ready = await payments.ready(db, _charge_of(terms)) if isinstance(payments, PreparesCharges) else None
        await buyer.answering.confirmed()
        locked = await _lock_and_prepare(db, cart, buyer, terms, ready, now=timer.now())
        if locked is not None:
            return await finish(db, payments, locked, now=timer.now(), answering=buyer.answering, ready=ready)
    raise Conflict("Other callers are changing the cart. Try again.")


def _is_mine(cart: Document, buyer: Buyer) -> bool:
    """Returns whether the cart is locked for this operation, or was paid by it."""
    is_locked = cart["status"] in {PENDING, COMPLETE}
    return is_locked and bool(cart["checkout"]["op"] == buyer.operation_id)


def _require_not_refused(cart: Document, buyer: Buyer) -> None:
    """Raises the stored refusal of this operation, which its caller may not have received."""
    for refused in cart.get("refused", ()):
        if refused["op"] == buyer.operation_id:
            raise error_type(refused["type"]).from_record(refused["facts"])


def _terms(cart: Document, buyer: Buyer, payment: Document, address: Address | None) -> Document:
    """Returns what the lock of the cart says of the payment and the delivery."""
    return {
        "op": buyer.operation_id,
        "reference": derived_nonce(buyer.operation_id, cart["_id"], str(cart["version"])),
        "payer": buyer.viewer,
        "payment": payment,
        "address": address,
        "amount": total_of(cart),
        "currency": cart["currency"],
        "begun": buyer.now,
        "lasts": buyer.cart_lifetime.total_seconds(),
    }


async def _lock_and_prepare(
    db: Database, cart: Document, buyer: Buyer, terms: Document, ready: ReadyCharge | None, *, now: datetime
) -> Document | None:
    """Locks the cart, and prepares its charge at the same time. Returns the locked cart; None if it has changed."""
    if ready is None:
        return await _lock(db, cart, buyer, terms)
    try:
        locked, _ = await both(_lock(db, cart, buyer, terms), ready.prepare(now=now))
    except PyMongoError:
        # If this fails as well, others undo it later.
        with contextlib.suppress(PyMongoError):
            await ready.undo()
        raise
    if locked is None:
        await ready.undo()
    return locked


async def _lock(db: Database, cart: Document, buyer: Buyer, terms: Document) -> Document | None:
    values = {"status": PENDING, "checkout": terms, "expires_at": None, "due": buyer.now + ASKED_AGAIN_AFTER}
    update: Document = {"$set": {**values, "last_modified": buyer.now}, "$inc": {"version": 1}}
    refused = [refusal["op"] for refusal in cart.get("refused", ())]
    forgotten = await forgettable(db, refused, kept=_REFUSALS_KEPT)
    if forgotten:
        update["$pull"] = {"refused": {"op": {"$in": forgotten}}}
    return await db[CARTS.name].find_one_and_update(
        {"_id": cart["_id"], "version": cart["version"]}, update, return_document=ReturnDocument.AFTER
    )


async def finish(
    db: Database,
    payments: Payments,
    cart: Document,
    *,
    now: datetime,
    answering: Answering = AT_ONCE,
    ready: ReadyCharge | None = None,
) -> CheckedOut:
    """Finishes the checkout of a locked cart. Idempotent, for any process.

    Args:     answering: how the call is answered.  ready: the charge, if it can be prepared.
    Raises:   PaymentDeclined, InsufficientFunds, NotFound (account): the cart is active again. PaymentPending.
    Writes:   orders, stock, carts; each guarded, or an insert under the id of the order.
    """
    if cart["status"] == COMPLETE:
        return await _checked_out(db, cart)
    # The provider can be slow. Later deadlines count from its answer.
    timer = Timer(now)
    prepared: list[Document] | None = None
    try:
        if ready is None:
            paid = await payments.charge(db, _charge_of(cart["checkout"]), now=now)
        elif ready.is_prepared:
            paid, prepared = await _collect(db, cart, ready, now=now)
        else:
            paid = await ready.collect(now=now)
    except PaymentUnknown:
        raise PaymentPending(cart) from None
    except DomainError as refusal:
        await _unlock(db, cart, refusal, now=timer.now())
        raise
    at = timer.now()
    if prepared is not None:
        closed = await close(db, cart, now=at, prepared=prepared, paid=paid, answering=answering)
        return CheckedOut(closed, order_of(cart, paid))
    order, prepared = await both(place_order(db, cart, paid), prepare(db, cart, now=at))
    return CheckedOut(await close(db, cart, now=at, prepared=prepared, answering=answering), order)


async def _collect(db: Database, cart: Document, ready: ReadyCharge, *, now: datetime) -> tuple[str, list[Document]]:
    """Collects a prepared charge, and prepares the moves of the cart at the same time.

    Returns:  the reference of the payment, and the moves.
    Raises:   as `Payments.charge`; the moves are rolled back.
    """
    prepared = moves_of(cart, now)
    try:
        paid, _ = await both(ready.collect(now=now), moves.prepare_all(db, prepared, now=now))
    except (PaymentUnknown, DomainError):
        await moves.conclude_all(db, prepared, is_taken=False, now=now)
        raise
    return paid, prepared


def _charge_of(locked: Document) -> Charge:
    names = ("reference", "payment", "payer", "amount", "currency", "begun")
    return Charge(**{name: locked[name] for name in names})


async def _unlock(db: Database, cart: Document, refusal: DomainError, *, now: datetime) -> None:
    """Unlocks the cart, unless another process has, and stores the refusal for the call that locked it."""
    locked = cart["checkout"]
    mine = {"_id": cart["_id"], "status": PENDING, "checkout.reference": locked["reference"]}
    values = {"status": ACTIVE, **touched(now, timedelta(seconds=locked["lasts"]))}
    refused = {"op": locked["op"], "type": type(refusal).__name__, "facts": refusal.to_record()}
    changes = {"$set": values, "$push": {"refused": refused}, "$unset": {"checkout": "", "due": ""}}
    await db[CARTS.name].update_one(mine, {**changes, "$inc": {"version": 1}})


async def _checked_out(db: Database, cart: Document) -> CheckedOut:
    order = order_id(cart["checkout"]["reference"])
    written = (await find_by_ids(db, [order])).get(order)
    # The process that has closed the cart may have stopped before it wrote the order.
    return CheckedOut(cart, written or await place_order(db, cart, cart["checkout"]["payment_reference"]))
