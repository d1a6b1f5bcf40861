"""The demo's stock."""

from __future__ import annotations

import asyncio
from datetime import datetime

from portico.gateway.demo.loading import OPERATION, Demo
from portico.gateway.domains.catalog.demo import products
from portico.resolvers.documents import Database
from portico.resolvers.shop import stock
from portico.resolvers.shop.settings import ShopSettings

_AT_ONCE = 25


async def load(demo: Demo) -> None:
    demo.say(f"stock: {await stock_up(demo.db, now=demo.now):,} products")
    if demo.resources.of(ShopSettings).payment_url is None:
        demo.say("payments: by account. To pay by token, set PORTICO_PAYMENT_URL, e.g. to the address of")
        demo.say("`portico payment-service`: see docs/shop.md.")


async def stock_up(db: Database, *, now: datetime) -> int:
    """Stocks the demo's products, except a few that are sold out. Returns how many it stocked. Idempotent."""
    units = [(product["sku"], _units(number)) for number, product in enumerate(products())]
    stocked = [(sku, count) for sku, count in units if count]
    for start in range(0, len(stocked), _AT_ONCE):
        some = stocked[start : start + _AT_ONCE]
        await asyncio.gather(
            *(
                stock.restock(db, sku=sku, quantity=count, now=now, operation_id=f"{OPERATION}{sku}")
                for sku, count in some
            )
        )
    return len(stocked)


def _units(number: int) -> int:
    """Returns the units of a product; every twelfth is sold out."""
    return 0 if (number + 1) % 12 == 0 else 10 + number * 7 % 20
