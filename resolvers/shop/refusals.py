"""Why a write of the shop is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portico.resolvers.errors import DomainError


class CartInactive(DomainError):
    """The cart can no longer be changed. `status` is PENDING, COMPLETE, EXPIRING or EXPIRED."""

    facts = ("status",)

    def __init__(self, status: str) -> None:
        super().__init__(f"The cart is {status.lower()}.")
        self.status = status


class InadequateInventory(DomainError):
    """Stock does not have that many units. `available` is the number that it has."""

    facts = ("sku", "available")
    sku: str
    available: int

    def __init__(self, sku: str, available: int) -> None:
        super().__init__(f"Stock does not have enough units of {sku!r}: {available} available.")
        self.sku = sku
        self.available = available


class EmptyCart(DomainError):
    def __init__(self) -> None:
        super().__init__("The cart is empty.")


class PaymentPending(DomainError):
    """The outcome of the payment is not known yet. `cart` is the whole document; it stays locked."""

    facts = ("cart",)
    is_retryable = True

    def __init__(self, cart: Mapping[str, Any]) -> None:
        super().__init__("The outcome of the payment is not known yet. Repeat the call with the same key.")
        self.cart = cart


class PaymentDeclined(DomainError):
    """The payment was refused. This is final."""

    def __init__(self, message: str = "The payment was refused.") -> None:
        super().__init__(message)


class RefundRefused(DomainError):
    """The money was not given back. This is final for the reference of the refund."""

    def __init__(self, message: str = "The refund was refused.") -> None:
        super().__init__(message)


class OrderStatusConflict(DomainError):
    """The status of the order does not allow the change. `order` is the whole document."""

    facts = ("order",)

    def __init__(self, order: Mapping[str, Any]) -> None:
        super().__init__(f"The order is {order['status'].lower()}.")
        self.order = order
