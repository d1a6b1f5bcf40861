"""`claimCart` merges a cart into the viewer's, and loses no unit to others."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import pytest

from portico.resolvers.shop.viewer_carts import claim_cart
from portico.schema.kinds import Kind
from tests.shop.support.merge_stages import Merging
from tests.shop.support.shop import (
    add_input,
    anonymously,
    assert_settled,
    cart_of,
    cart_of_nobody,
    checkout_input,
    full_cart,
    new_buyer,
    new_cart,
    quantities,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.harness import MUTATIONS, GatewayClient, some_stops, stops
from tests.support.ids import key_in
from tests.support.interruptions import crashing
from tests.support.moments import moments


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
    await assert_settled(gateway)


async def test_an_older_cart_of_the_viewer_is_merged_into_the_current_one(gateway: GatewayClient) -> None:
    older, sku = await full_cart(gateway, 1)
    gateway.clock.advance(seconds=5)
    current = await new_cart(gateway, **{sku: 2})

    created = await gateway.result("createCart", {})
    kept = await gateway.result("claimCart", {"cartId": current})
    merged = await gateway.result("claimCart", {"cartId": older})

    assert created["cart"]["id"] == current
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


async def test_merging_while_others_change_both_carts_loses_no_unit(gateway: GatewayClient) -> None:
    scene = Merging(gateway, gateway.clock)
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


async def _bought_lines(gateway: GatewayClient) -> Counter[str]:
    """Returns the units in orders and in carts that hold theirs."""
    orders = await gateway.db["orders"].find({}).to_list()
    carts = await gateway.db["carts"].find({"holding": True}).to_list()
    lines = [line for found in (*orders, *carts) for line in found["items"]]
    return sum((Counter({line["sku"]: line["quantity"]}) for line in lines), Counter())


async def _buy(scene: Merging) -> None:
    await scene.gateway.payload("checkout", checkout_input(scene.cart))


@pytest.mark.usefixtures("provider")
async def test_a_cart_that_is_merged_while_the_other_is_bought_loses_no_line(gateway: GatewayClient) -> None:
    scene, kept = Merging(gateway, gateway.clock), 0
    for moment in moments(stops()):
        await scene.restore()
        paused = moment.before(gateway.db, partial(_buy, scene))
        claimed = await claim_cart(paused, new_buyer(), cart_id=key_in("Cart", scene.other))
        again = await gateway.result("claimCart", {"cartId": scene.other})

        await scene.run_jobs()
        assert await _bought_lines(gateway) == {"plenty": 5, "last": 1}, moment.place
        assert again["cart"]["id"] == Kind.encode_id("Cart", claimed["_id"]), moment.place
        kept += again["cart"]["status"] == "ACTIVE" and quantities(again["cart"]) == {"plenty": 3, "last": 1}
        await scene.assert_settled()
    assert kept > 3


@pytest.mark.usefixtures("provider")
async def test_a_merge_that_crashes_before_the_other_cart_is_bought_loses_no_line(gateway: GatewayClient) -> None:
    scene = Merging(gateway, gateway.clock)
    for stop in some_stops(2):
        await scene.restore()
        with crashing(gateway, stop) as faulty:
            await gateway.ask(MUTATIONS["claimCart"], {"input": {"cartId": scene.other}})
        await _buy(scene)
        await scene.run_jobs()
        again = await gateway.result("claimCart", {"cartId": scene.other})

        await scene.run_jobs()
        assert await _bought_lines(gateway) == {"plenty": 5, "last": 1}, stop
        assert again["__typename"] == "CartPayload"
        await scene.assert_settled()
        if not faulty.has_crashed:
            break
    assert stop > 3
