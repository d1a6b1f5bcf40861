"""Payments of checkouts: the protocol between the checkout and the ways to collect money.

The checkout depends on `Payments` only. Payment by account and payment by token implement it. `PaymentMethods` passes
each charge to the implementation that its payment names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from portico.resolvers.documents import Database, Document

ACCOUNT = "account"
TOKEN = "token"  # noqa: S105 - the name of a way to pay


class PaymentUnknown(Exception):
    """It is not known yet whether the money was taken. Request the same charge again later."""


@dataclass(frozen=True)
class Charge:
    """Money to be collected, once.

    `reference` is the idempotency key: requests with the same reference are the same charge. `payment` is the document
    that the checkout stores with the cart: {method: `account`, account_id: ObjectId} or {method: `token`, token: str}.
    `payer` is the viewer's subject, None for an anonymous one. `amount` is in minor units of `currency`. `begun` is
    when the checkout decided on the charge; a process that has crashed since may have requested an old charge.
    """

    reference: str
    payment: Document
    payer: str | None
    amount: int
    currency: str
    begun: datetime


@dataclass(frozen=True)
class Refund:
    """Money of a payment to be given back, once. The whole payment goes back to its payer.

    `reference` is the idempotency key: requests with the same reference are the same refund. `method` and
    `payment_reference` are those of the payment. `amount` is in minor units of `currency`. `begun` is when the refund
    was decided; a process that has crashed since may have requested it.
    """

    reference: str
    order_id: str
    method: str
    payment_reference: str
    amount: int
    currency: str
    begun: datetime


class Payments(Protocol):
    """Collects money for checkouts, and gives it back."""

    def accepts(self, payment: Document) -> bool:
        """Returns whether this method of payment is available. Called before a cart is locked."""
        ...

    async def charge(self, db: Database, charge: Charge, *, now: datetime) -> str:
        """Collects the money. Asks for the outcome again if an earlier call with the reference did not get it.

        Any number of processes can request one charge, concurrently or much later. The money is taken once. The first
        outcome is final: a refusal is stored like a payment, so no later call with the reference takes money, even if
        the account has been filled in the meantime.

        Returns:  the reference of the payment, for the order; the same each time.
        Raises:   PaymentDeclined, InsufficientFunds, NotFound (no such account of the payer): all final.
                  PaymentUnknown: the outcome is not known, retry.
        """
        ...

    async def refund(self, db: Database, refund: Refund, *, now: datetime) -> str:
        """Gives the money of a payment back. Asks for the outcome again if an earlier call did not get it.

        Any number of processes can request one refund, concurrently or much later. The money is given back once. The
        first outcome is final.

        Returns:  the reference of the refund; the same each time.
        Raises:   RefundRefused: this is final for the reference; a refund with another reference can succeed.
                  PaymentUnknown: the outcome is not known, retry.
        """
        ...


class ReadyCharge(Protocol):
    """A charge whose outcome is probably a payment. It can be prepared while its cart is being locked."""

    @property
    def is_prepared(self) -> bool: ...

    async def prepare(self, *, now: datetime) -> None:
        """Prepares the payment, if it is possible. Nothing is final before `collect`, and others can undo it."""
        ...

    async def undo(self) -> None:
        """Rolls back `prepare`, because the cart is not locked. Idempotent."""
        ...

    async def collect(self, *, now: datetime) -> str:
        """Collects the money, as `Payments.charge` does."""
        ...


@runtime_checkable
class PreparesCharges(Protocol):
    """What some `Payments` also do."""

    async def ready(self, db: Database, charge: Charge) -> ReadyCharge | None:
        """Returns the charge of a cart that is about to be locked. Writes nothing.

        Returns None if the charge must be requested when the cart is locked, or may be refused.
        """
        ...


class PaymentMethods:
    """Passes each payment to the method that it names."""

    def __init__(self, methods: Mapping[str, Payments]) -> None:
        self._methods = dict(methods)

    def accepts(self, payment: Document) -> bool:
        method = self._methods.get(payment["method"])
        return method is not None and method.accepts(payment)

    async def charge(self, db: Database, charge: Charge, *, now: datetime) -> str:
        method = self._methods.get(charge.payment["method"])
        if method is None:
            # A gateway with other settings began this charge. Only such a gateway can find out the outcome.
            raise PaymentUnknown
        return await method.charge(db, charge, now=now)

    async def ready(self, db: Database, charge: Charge) -> ReadyCharge | None:
        method = self._methods.get(charge.payment["method"])
        return await method.ready(db, charge) if isinstance(method, PreparesCharges) else None

    async def refund(self, db: Database, refund: Refund, *, now: datetime) -> str:
        method = self._methods.get(refund.method)
        if method is None:
            # Only a gateway with other settings can give this money back.
            raise PaymentUnknown
        return await method.refund(db, refund, now=now)
