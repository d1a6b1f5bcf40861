"""How a checkout is paid: the protocol between the checkout and whoever collects money.

The checkout knows nothing but `Payments`. An account of the payer's and a token of the payment provider are two
implementations; `PaymentMethods` gives each charge to the one that its payment names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from .documents import Database, Document

ACCOUNT = "account"
TOKEN = "token"  # noqa: S105 - the name of a way to pay


class PaymentUnknown(Exception):
    """Nobody can say yet whether the money was taken. The same charge is to be asked for again, later."""


@dataclass(frozen=True)
class Charge:
    """Money to be collected, once.

    `reference` is the idempotency key: whoever knows it asks for the same charge. `payment` is the document that the
    checkout keeps with the cart: {method: `account`, account_id: ObjectId} or {method: `token`, token: str}. `payer`
    is the viewer's subject, None for an anonymous one. `amount` is in minor units of `currency`. `begun` is when the
    charge was first decided on: a charge that was begun long ago may have been made by a process that is gone.
    """

    reference: str
    payment: Document
    payer: str | None
    amount: int
    currency: str
    begun: datetime


class Payments(Protocol):
    """Collects money for checkouts."""

    def takes(self, payment: Document) -> bool:
        """Whether money can be collected so at all. Asked before a cart is locked; later only `charge` is."""
        ...

    async def charge(self, db: Database, charge: Charge, *, now: datetime) -> str:
        """Collects the money; asks again where an earlier call with the reference did not learn the outcome.

        Any number of processes may ask for one charge, at once or long after another. The money is taken once. What
        the first call came to stands for ever: a refusal is kept like a payment, so that no later call with the
        reference takes money, also where the account has been filled meanwhile.

        Returns:  the reference of the payment, for the order; the same each time.
        Raises:   PaymentDeclined, InsufficientFunds, NotFound (the account; another person's too): all final.
                  PaymentUnknown: nothing is known, ask again.
        """
        ...


class PaymentMethods:
    """Payments by the method that they name."""

    def __init__(self, methods: Mapping[str, Payments]) -> None:
        self._methods = dict(methods)

    def takes(self, payment: Document) -> bool:
        method = self._methods.get(payment["method"])
        return method is not None and method.takes(payment)

    async def charge(self, db: Database, charge: Charge, *, now: datetime) -> str:
        method = self._methods.get(charge.payment["method"])
        if method is None:
            # A gateway with other settings has begun this; only one like it can tell what came of it.
            raise PaymentUnknown
        return await method.charge(db, charge, now=now)
