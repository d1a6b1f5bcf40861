"""`claimCart` merges a cart into the viewer's, and loses no unit to others."""

from __future__ import annotations

import asyncio

from tests.shop.support.merge_stages import Merging
from tests.shop.support.shop import (
    add_input,
    anonymously,
    assert_nothing_in_flight,
    cart_of,
    cart_of_nobody,
    new_cart,
    quantities,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.harness import GatewayClient, SettableClock, assert_invariants


async def test_the_viewer_gets_one_cart_with_the_lines_of_both(gateway: GatewayClient) -> None:
    sku, last = await stock_up(gateway, units=9), await stock_up(gateway, units=1)
    mine, other = await new_cart(gateway, **{sku: 2}), await cart_of_nobody(gateway, **{sku: 3, last: 1})

    claimed = await gateway.result("claimCart", {"cartId": other})
    again = await gateway.result("claimCart", {"cartId": other})

    assert (claimed["cart"]["id"], quantities(claimed["cart"])) == (mine, {sku: 5, last: 1})
    assert again["cart"]["id"] == mine
    assert (await cart_of(gateway, other))["status"] == "EXPIRED"
    assert await cart_of(gateway, other, token=None) is None
    assert await stock_of(gateway, sku) == (4, 5, 0)
    assert await stock_of(gateway, last) == (0, 1, 0)
    await assert_nothing_in_flight(gateway.db)
    await assert_invariants(gateway)


async def test_an_older_cart_of_the_viewer_is_merged_into_the_current_one(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    sku = await stock_up(gateway)
    older = await new_cart(gateway, **{sku: 1})
    clock.advance(seconds=5)
    current = await new_cart(gateway, **{sku: 2})

    kept = await gateway.result("claimCart", {"cartId": current})
    merged = await gateway.result("claimCart", {"cartId": older})

    assert (kept["cart"]["id"], quantities(kept["cart"])) == (current, {sku: 2})
    assert (merged["cart"]["id"], quantities(merged["cart"])) == (current, {sku: 3})


async def test_a_cart_that_does_not_fit_stays_as_it_is(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=2_000)
    mine, other = await new_cart(gateway, **{sku: 600}), await cart_of_nobody(gateway, **{sku: 500})

    refused = await gateway.result("claimCart", {"cartId": other})

    assert refused["__typename"] == "Conflict"
    assert f"'Title of {sku}'" in refused["message"]
    assert quantities(await cart_of(gateway, mine)) == {sku: 600}
    assert (await cart_of(gateway, other, token=None))["status"] == "ACTIVE"


async def test_merging_while_others_change_both_carts_loses_no_unit(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    scene = Merging(gateway, clock)
    for _ in range(5):
        await scene.restore()
        claims = [gateway.result("claimCart", {"cartId": scene.other}) for _ in range(2)]
        adding = gateway.result("addItemToCart", add_input(scene.cart, "plenty"))
        changing = anonymously(gateway, "updateCartItem", update_input(scene.other, "plenty", 3, 2))

        results = await asyncio.gather(*claims, adding, changing)

        assert [one["__typename"] for one in results[:2]] == ["CartPayload"] * 2
        await scene.run_jobs()
        stock, _, status, lines, other = await scene.state()
        assert (stock[1], status, other) == (lines["plenty"], "ACTIVE", "EXPIRED")
        assert sum(stock) == 5
        await scene.assert_settled()
