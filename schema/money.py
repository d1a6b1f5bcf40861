"""Amounts of money."""

import strawberry

from .fields import stored
from .scalars import BigInt

_ABOUT = "An amount in the currency's minor unit: 1200 USD is twelve dollars."


@strawberry.type(description=_ABOUT)
class Money:
    amount: BigInt = stored(description="Minor units.")
    currency: str = stored(description="ISO 4217 code.")

    @strawberry.input(name="MoneyInput", description=_ABOUT)
    class Input:
        amount: BigInt = strawberry.field(description="Minor units.")
        currency: str = strawberry.field(default="USD", description="ISO 4217 code.")
