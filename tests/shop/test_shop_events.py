"""`orderChanged` and `stockChanged`: who gets which changes."""

from __future__ import annotations

from typing import Any

import pytest

from portico.schema.catalog.merchants import MERCHANT
from tests.shop.support.shop import Provider, add_input, buy_as, order_input, restock, stock_up
from tests.support.harness import GatewayClient

ORDERS = "subscription ($id: ID) { orderChanged(id: $id) { id status refundedAt address { name } } }"
STOCK = "subscription ($skus: [String!]!) { stockChanged(skus: $skus) { sku stock { available reserved sold } } }"


async def _next(subscription: Any) -> tuple[str, str]:
    order = (await anext(subscription))["orderChanged"]
    return order["id"], order["status"]


@pytest.mark.usefixtures("provider")
async def test_a_buyer_follows_their_orders_and_a_merchant_all(gateway: GatewayClient) -> None:
    ann, bob = gateway.token("ann", []), gateway.token("bob", [])
    merchant = gateway.token("merchant", [MERCHANT])
    async with (
        gateway.subscription(ORDERS, token=ann) as of_ann,
        gateway.subscription(ORDERS, token=bob) as of_bob,
        gateway.subscription(ORDERS, token=merchant) as of_all,
    ):
        first, second = await buy_as(gateway, ann), await buy_as(gateway, bob)
        # An event that comes late shows the order as it is then.
        assert await _next(of_ann) == (first, "PLACED")
        await gateway.result("shipOrder", order_input(first))
        await gateway.result("cancelOrder", order_input(second), token=bob)

        assert await _next(of_ann) == (first, "SHIPPED")
        seen = [await _next(of_bob) for _ in range(3)]
        assert [order for order, _ in seen] == [second] * 3
        assert seen[-1] == (second, "CANCELLED")
        assert {order for order, _ in [await _next(of_all) for _ in range(5)]} == {first, second}


async def test_an_order_is_followed_until_its_money_is_back(gateway: GatewayClient, provider: Provider) -> None:
    buyer = gateway.token("ann", [])
    order = await buy_as(gateway, buyer)
    provider.refunds = "hang"
    async with gateway.subscription(ORDERS, {"id": order}, token=buyer) as changed:
        await gateway.result("cancelOrder", order_input(order), token=buyer)
        cancelled = (await anext(changed))["orderChanged"]
        provider.refunds = "given"
        await gateway.run_jobs("finish-orders", hours=1)
        refunded = (await anext(changed))["orderChanged"]

    assert (cancelled["status"], cancelled["refundedAt"]) == ("CANCELLED", None)
    assert refunded["refundedAt"] is not None


@pytest.mark.usefixtures("provider")
async def test_nobody_else_can_follow_an_order(gateway: GatewayClient) -> None:
    order = await buy_as(gateway, gateway.token("ann", []))

    for token in (gateway.token("bob", []), None):
        with pytest.raises(AssertionError, match="NOT_FOUND"):
            async with gateway.subscription(ORDERS, {"id": order}, token=token) as changed:
                await anext(changed)
    with pytest.raises(AssertionError, match="UNAUTHENTICATED"):
        async with gateway.subscription(ORDERS, token=None) as changed:
            await anext(changed)


async def test_stock_is_delivered_to_everybody_who_shows_the_product(gateway: GatewayClient) -> None:
    sku, other, hidden = [await stock_up(gateway) for _ in range(3)]
    cart = (await gateway.result("createCart", {}))["cart"]["id"]
    async with gateway.subscription(STOCK, {"skus": [sku, other]}, token=None) as changed:
        await restock(gateway, hidden, 1)
        await gateway.result("addItemToCart", add_input(cart, sku, 3))
        first = (await anext(changed))["stockChanged"]
        await restock(gateway, other, 5)
        second = (await anext(changed))["stockChanged"]

    assert first == {"sku": sku, "stock": {"available": 7, "reserved": 3, "sold": 0}}
    assert second == {"sku": other, "stock": {"available": 15, "reserved": 0, "sold": 0}}


async def test_only_the_newest_counts_of_each_product_wait_for_a_slow_client(gateway: GatewayClient) -> None:
    sku, other = [await stock_up(gateway) for _ in range(2)]
    async with gateway.subscription(STOCK, {"skus": [sku, other]}, token=None) as changed:
        await restock(gateway, sku, 1)
        assert (await anext(changed))["stockChanged"]["stock"]["available"] == 11
        for _ in range(5):
            await restock(gateway, sku, 1)
            await restock(gateway, other, 1)
        seen: list[tuple[str, int]] = []
        while not {(sku, 16), (other, 15)} <= set(seen):
            product = (await anext(changed))["stockChanged"]
            seen.append((product["sku"], product["stock"]["available"]))

    assert len(seen) < 10


@pytest.mark.parametrize("count", [0, 101])
async def test_a_subscription_has_a_bounded_number_of_products(gateway: GatewayClient, count: int) -> None:
    with pytest.raises(AssertionError, match="'code': 'BAD_USER_INPUT', 'argument': \\['skus'\\]"):
        async with gateway.subscription(STOCK, {"skus": [f"p{number}" for number in range(count)]}) as changed:
            await anext(changed)
