"""Creates a cart and an order."""

from __future__ import annotations

from portico.testing.kits import Known
from tests.accounts.support.accounts import open_account
from tests.shop.support.shop import new_cart, paid_by, restock
from tests.support.harness import GatewayClient


async def seed(gateway: GatewayClient, known: Known) -> Known:
    """Creates a cart, and an order that was paid from an account."""
    skus = known["sku"]
    for sku in skus[:2]:
        await restock(gateway, sku, 10)
    account = await open_account(gateway.db, 1_000_000)
    ordered = paid_by(await new_cart(gateway, **{skus[0]: 2}), account)
    done = await gateway.payload("checkout", ordered)
    cart = await new_cart(gateway, **{skus[0]: 1, skus[1]: 3})
    return {"id": [done["order"]["id"], cart, cart]}
