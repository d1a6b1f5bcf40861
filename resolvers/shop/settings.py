"""The settings of the shop."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from portico.resolvers.configuration import HttpUrl, Secret, setting


@dataclass(frozen=True)
class ShopSettings:
    cart_seconds: int = setting(14_400, "How long an idle cart keeps its items.")
    payment_url: HttpUrl | None = setting(
        None, "Where the payment provider is. Unset: tokens are not taken, and carts are paid by account alone."
    )
    payment_key: Secret | None = setting(None, "The bearer token that the payment provider asks for.")
    payment_seconds: float = setting(10.0, "How long the payment provider may take for an answer, with retries.")

    @property
    def cart_lasts(self) -> timedelta:
        return timedelta(seconds=self.cart_seconds)
