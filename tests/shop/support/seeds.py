"""Creates a cart and an order."""

from __future__ import annotations

from portico.testing.kits import Known
from tests.accounts.support.accounts import open_account
from tests.shop.support.shop import checkout_input, new_cart, restock
from tests.support.harness import GatewayClient


async def seed(gateway: GatewayClient, known: Known) -> Known:
    """Creates a cart, and an order that was paid from an account."""
    skus = known["sku"]
    for sku in skus[:2]:
        await restock(gateway, sku, 10)
    account = await open_account(gateway.db, 1_000_000)
    ordered = checkout_input(await new_cart(gateway, **{skus[0]: 2}), payment={"accountId": account})
    done = await gateway.result("checkout", ordered)
    assert done["__typename"] == "CheckoutPayload", done
    cart = await new_cart(gateway, **{skus[0]: 1, skus[1]: 3})
    return {"id": [done["order"]["id"], cart, cart]}
