"""Amounts of money."""

import strawberry

from .fields import stored
from .scalars import BigInt


@strawberry.type(description="An amount in the currency's minor unit: 1200 USD is twelve dollars.")
class Money:
    amount: BigInt = stored(description="Minor units.")
    currency: str = stored(description="ISO 4217 code.")


@strawberry.input(description="An amount in the currency's minor unit: 1200 USD is twelve dollars.")
class MoneyInput:
    amount: BigInt = strawberry.field(description="Minor units.")
    currency: str = strawberry.field(default="USD", description="ISO 4217 code.")
