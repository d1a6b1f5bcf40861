"""The settings of the shop."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from portico.resolvers.configuration import HttpUrl, Secret, setting


@dataclass(frozen=True)
class ShopSettings:
    cart_seconds: int = setting(14_400, "Seconds until an idle cart expires and releases its items.")
    cart_days: float = setting(90.0, "Days until a paid or expired cart is deleted. Its order stays.")
    payment_url: HttpUrl | None = setting(
        None, "The URL of the payment provider. Unset: callers can pay only by account, not by token."
    )
    payment_key: Secret | None = setting(None, "The bearer token for the payment provider.")
    payment_seconds: float = setting(10.0, "Seconds until a call to the payment provider times out, including retries.")

    @property
    def cart_lifetime(self) -> timedelta:
        return timedelta(seconds=self.cart_seconds)

    @property
    def cart_retention(self) -> timedelta:
        return timedelta(days=self.cart_days)
