"""Cancellations of orders: the money goes back to the payer, and the units go back to the stock, once each.

1. If the checkout has not sold the units yet, sell them: the money is collected, because there is an order.
2. Prepare a move for each line that restores its units (see `moves`).
3. **Decide**: one update of the order, guarded by its status and its fence, sets `CANCELLED` and stores the moves and
   the beginning of the refund. A shipment is guarded by the status as well, so one of the two happens. Other
   cancellations fail here, and roll back the moves that they have prepared.
4. Conclude the moves. A repetition changes nothing, because a move can leave the stock once.
5. Refund the money under a key that is derived from the order and the number of the attempt. Every request with one
   key has the same outcome. A refusal is final, and the next attempt gets the next number, by an update that is guarded
   by the old one. So at most one attempt gives the money back.
6. Store the reference of the refund, and let go of the order.

A crash before step 3 leaves moves, which the job of the stock rolls back: it increments the fence first, so that a
suspended process decides nothing. A crash after step 3 leaves the order `due`, and a job continues with step 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pymongo import ReturnDocument

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, NotFound
from portico.resolvers.shop.payments import ACCOUNT, TOKEN, Payments, PaymentUnknown, Refund
from portico.resolvers.shop.refusals import OrderStatusConflict, RefundRefused
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.sweeps import sweep
from portico.resolvers.writes.timer import Timer

from . import cart_closing, moves
from .account_payments import transfer_of
from .carts import PENDING, find_cart, is_visible_to
from .order_edits import require_order
from .orders import CANCELLED, ORDERS, PLACED, stepped, was_changed_by
from .orders import order_id as id_of

# The call that requests a refund needs at most this long. Then a job asks for the outcome, again and again.
ASKED_AGAIN_AFTER = timedelta(seconds=30)
# Until the next attempt after a refusal.
_NEXT_ATTEMPT_AFTER = timedelta(hours=1)
_REFUNDS, _REFUNDS_AT_ONCE = 50, 10


async def cancel(
    db: Database,
    payments: Payments,
    *,
    order_id: str,
    viewer: str | None,
    is_merchant: bool,
    now: datetime,
    operation_id: str,
) -> Document:
    """Cancels a placed order. The answer does not depend on the refund, which a job finishes if need be.

    Args:     viewer: the caller's subject, None for an anonymous one.
    Returns:  the order.
    Raises:   NotFound (also for somebody else's order, unless the caller is a merchant), OrderStatusConflict (it is
              shipped, delivered or cancelled), Conflict (others kept changing the order).
    Writes:   stock, then orders, then stock and the payment; a saga.
    """
    async for _ in attempts():
        order = await require_order(db, order_id)
        if not (is_merchant or is_visible_to(order, viewer)):
            raise NotFound("Order", order_id)
        if order["status"] == CANCELLED and was_changed_by(order, operation_id):
            return await finish(db, payments, order, now=now)
        if order["status"] != PLACED:
            raise OrderStatusConflict(order)
        cancelled = await _try(db, order, now=now, operation_id=operation_id)
        if cancelled is not None:
            return await _give_back(db, payments, cancelled, now=now)
    raise Conflict("Other callers are changing the order. Try again.")


async def _try(db: Database, order: Document, *, now: datetime, operation_id: str) -> Document | None:
    """Cancels the order as it was read, and restores its units. Returns None if it has changed."""
    await _sell_all(db, order, now=now)
    prepared = [_move_of(order, line, now) for line in order["items"]]
    await moves.prepare_all(db, prepared, now=now)
    update = stepped(order, CANCELLED, now=now, operation_id=operation_id)
    update["$set"] |= {
        "returned": prepared,
        "refund": {"attempt": 0, "begun": now},
        "due": now + ASKED_AGAIN_AFTER,
    }
    same = {"_id": order["_id"], "status": PLACED, "fence": order["fence"]}
    after = await db[ORDERS.name].find_one_and_update(same, update, return_document=ReturnDocument.AFTER)
    await moves.conclude_all(db, prepared, is_taken=after is not None, now=now)
    return after


def _move_of(order: Document, line: Mapping[str, Any], now: datetime) -> Document:
    move = moves.new_move(
        "restore",
        sku=line["sku"],
        cart_id=order["cart_id"],
        quantity=line["quantity"],
        now=now,
        operation_id=f"{CANCELLED} {order['_id']}",
    )
    return {**move, "order_id": order["_id"]}


async def _sell_all(db: Database, order: Document, *, now: datetime) -> None:
    """Finishes the sale of the lines, so that the stock counts them as sold.

    A cart that is deleted has no open moves.
    """
    cart = await find_cart(db, order["cart_id"])
    if cart is None or id_of(cart.get("checkout", {}).get("reference", "")) != order["_id"]:
        return
    if cart["status"] == PENDING:
        cart = await cart_closing.close(db, cart, now=now)
    await moves.conclude_all(db, cart.get("settlement", ()), is_taken=True, now=now)


async def finish(db: Database, payments: Payments, order: Document, *, now: datetime) -> Document:
    """Finishes a cancellation that is decided. Idempotent, for any process.

    Returns:  the order.
    Writes:   stock, then the payment, then orders; each guarded, or under a key of its own.
    """
    if "due" not in order:
        return order
    await moves.conclude_all(db, order["returned"], is_taken=True, now=now)
    return await _give_back(db, payments, order, now=now)


async def _give_back(db: Database, payments: Payments, order: Document, *, now: datetime) -> Document:
    """Refunds the money. If the outcome is unknown or a refusal, returns the order, and a job continues."""
    timer = Timer(now)
    refund = order["refund"]
    try:
        reference = await _refund(db, payments, order, now=now)
    except PaymentUnknown:
        return order
    except RefundRefused:
        at = timer.now()
        again = {"refund": {"attempt": refund["attempt"] + 1, "begun": at}, "due": at + _NEXT_ATTEMPT_AFTER}
        return await _note(db, order, {"$set": again})
    at = timer.now()
    key = key_of(order)
    known = {"refund.reference": reference, "refund.at": at, "changed": {"owner": order["owner"], "op": key}}
    return await _note(db, order, {"$set": known, "$unset": {"due": ""}, "$inc": {"version": 1}})


async def _refund(db: Database, payments: Payments, order: Document, *, now: datetime) -> str:
    """Returns the reference of the refund. What was free costs nothing to give back."""
    if order["total"] == 0:
        return str(order["payment_reference"])
    asked = Refund(
        reference=key_of(order),
        order_id=order["_id"],
        method=TOKEN if transfer_of(order["payment_reference"]) is None else ACCOUNT,
        payment_reference=order["payment_reference"],
        amount=order["total"],
        currency=order["currency"],
        begun=order["refund"]["begun"],
    )
    return await payments.refund(db, asked, now=now)


async def _note(db: Database, order: Document, update: Document) -> Document:
    """Stores the outcome of an attempt, unless another process has. Returns the order."""
    same = {"_id": order["_id"], "refund.attempt": order["refund"]["attempt"], "refund.reference": None}
    after = await db[ORDERS.name].find_one_and_update(same, update, return_document=ReturnDocument.AFTER)
    found: Document = after or await require_order(db, order["_id"])
    return found


def key_of(order: Mapping[str, Any]) -> str:
    """Returns the idempotency key of the present attempt to refund the order."""
    return f"refund-{order['_id']}-{order['refund']['attempt']}"


async def finish_cancellations(db: Database, payments: Payments, *, now: datetime) -> int:
    """Finishes the cancellations that no call waits for. Returns how many have ended.

    It asks for several refunds at a time, because a payment provider can be slow. For a refund that is still open, it
    asks again after half a minute.
    """
    timer = Timer(now)

    async def ask(order: Document) -> int:
        asked = timer.now()
        mine = {"_id": order["_id"], "due": order["due"]}
        if not (await db[ORDERS.name].update_one(mine, {"$set": {"due": asked + ASKED_AGAIN_AFTER}})).matched_count:
            return 0
        return int("due" not in await finish(db, payments, order, now=asked))

    return await sweep(db, ORDERS, {"due": {"$lte": now}}, ask, at_once=_REFUNDS_AT_ONCE, most=_REFUNDS)
