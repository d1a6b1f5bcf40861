"""Checks the carts of the whole database, while it is in use: whether the job that must continue a cart finds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem, mend_now
from portico.resolvers.writes.sweeps import require

from .carts import ACTIVE, CARTS, COMPLETE, EXPIRED, EXPIRING, PENDING
from .orders import find_by_ids, order_id

_NAME = Problem.named("cart")
_FIELDS = ("owner", "status", "items", "last_modified", "expires_at", "version")
_SHOWN = dict.fromkeys(
    (*_FIELDS, "holding", "due", "settlement.id", "checkout.reference", "checkout.payment.method"), 1
)


async def find_wrong_carts(db: Database) -> AsyncIterator[Problem]:
    """Yields carts that no job finds, that wrongly hold or do not hold units, or that are paid but have no order.

    One read is enough: the fields in question change in one update of the cart, and an order is written before its cart
    is complete and no longer due.
    """
    found = db[CARTS.name].find({"_id": {"$gte": ""}}, _SHOWN)
    async for problem in Problem.all_in(found, partial(_wrong_in, db), _NAME):
        yield problem


@dataclass(frozen=True)
class _Wrong:
    """What is wrong with a cart. `changes` are to be set besides `due`, which leaves the cart to a job.

    `changes` is None if the correct state is unknown.
    """

    text: str
    guard: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] | None = None

    def problem(self, db: Database, cart: Document) -> Problem:
        repair = None if self.changes is None else partial(mend_now, _mend, db, cart, self)
        return Problem(_NAME(cart), self.text, repair)


async def _mend(db: Database, cart: Document, wrong: _Wrong, *, now: datetime) -> None:
    """Leaves the cart to a job, unless it has changed since the check."""
    await db[CARTS.name].update_one(
        {"_id": cart["_id"], **wrong.guard}, {"$set": {**(wrong.changes or {}), "due": now}}
    )


async def _wrong_in(db: Database, batch: list[Document]) -> AsyncIterator[Problem]:
    sold = [cart for cart in batch if cart["status"] == COMPLETE and not _is_time(cart.get("due"))]
    bought = {cart["_id"]: order_id(cart["checkout"]["reference"]) for cart in sold}
    orders = await find_by_ids(db, list(bought.values()), {"_id": 1}) if bought else {}
    for cart in batch:
        require(cart, _FIELDS)
        for wrong in (_unreachable(cart), _wrongly_holding(cart), _miscounted(cart)):
            if wrong is not None:
                yield wrong.problem(db, cart)
        if cart["_id"] in bought and bought[cart["_id"]] not in orders:
            yield Problem(_NAME(cart), "it is paid for, but has no order")


def _unreachable(cart: Document) -> _Wrong | None:
    """Returns the problem of a cart that no job will ever continue."""
    status, locked = cart["status"], cart.get("checkout", {})
    if status not in {ACTIVE, PENDING, COMPLETE, EXPIRING, EXPIRED}:
        return _Wrong(f"its status is {status}")
    if status == ACTIVE and not _is_time(cart["expires_at"]):
        return _Wrong("it never expires, because it has no `expires_at`")
    if status == PENDING and not ("reference" in locked and "method" in locked.get("payment", {})):
        return _Wrong("it is locked for a payment, but does not identify the payment")
    if status in {PENDING, EXPIRING} and not _is_time(cart.get("due")):
        guard = {"status": status, "due": cart.get("due")}
        return _Wrong(f"it is {status}, but no job finds it", guard, {})
    return None


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime)


def _miscounted(cart: Document) -> _Wrong | None:
    wrong = [line for line in cart["items"] if line["quantity"] < 1]
    return _Wrong(f"it has {wrong[0]['quantity']} units of {wrong[0]['sku']}") if wrong else None


def _wrongly_holding(cart: Document) -> _Wrong | None:
    """Returns the problem of a cart whose lines are wrongly counted as reserved, or wrongly not counted."""
    status, holds = cart["status"], cart.get("holding") is True
    if status in {COMPLETE, EXPIRED} and holds:
        # Nothing was returned yet, so it can expire again. For a sale the correct state is unknown.
        again = {"status": EXPIRED, "holding": True, "settlement": None}
        can_expire = status == EXPIRED and "settlement" not in cart
        problem = f"it is {status}, but still holds its units"
        return _Wrong(problem, again, {"status": EXPIRING} if can_expire else None)
    if not holds and (status == ACTIVE or (status in {PENDING, EXPIRING} and "settlement" not in cart)):
        return _Wrong(f"it is {status}, but does not hold its units")
    return None
