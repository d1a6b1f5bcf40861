"""`claimCart` merges a cart into the viewer's, and loses no unit to others."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from portico.resolvers.shop.cart_edits import Buyer
from portico.resolvers.shop.viewer_carts import claim_cart
from portico.resolvers.writes.marks import random_operation_id
from portico.schema.kinds import Kind
from tests.accounts.support.accounts import OWNER
from tests.shop.support.merge_stages import Merging
from tests.shop.support.shop import (
    add_input,
    anonymously,
    assert_nothing_in_flight,
    cart_of,
    cart_of_nobody,
    checkout_input,
    new_cart,
    quantities,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, some_stops, stops
from tests.support.ids import key_in
from tests.support.interruptions import crashing, interrupted

CLAIM = "mutation ($input: ClaimCartInput!) { claimCart(input: $input) { __typename } }"


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


async def _bought_lines(gateway: GatewayClient) -> Counter[str]:
    """Returns the units in orders and in carts that hold theirs."""
    orders = await gateway.db["orders"].find({}).to_list()
    carts = await gateway.db["carts"].find({"holding": True}).to_list()
    lines = [line for found in (*orders, *carts) for line in found["items"]]
    return sum((Counter({line["sku"]: line["quantity"]}) for line in lines), Counter())


async def _buy(scene: Merging) -> None:
    bought = await scene.gateway.result("checkout", checkout_input(scene.cart))
    assert bought["__typename"] == "CheckoutPayload"


@pytest.mark.usefixtures("provider")
async def test_a_cart_that_is_merged_while_the_other_is_bought_loses_no_line(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    scene, kept = Merging(gateway, clock), 0
    for skip in stops():
        await scene.restore()
        turns: list[int] = []

        async def others(turns: list[int] = turns) -> None:
            turns.append(1)
            await _buy(scene)

        buyer = Buyer(OWNER, clock.now(), timedelta(hours=4), random_operation_id())
        paused = interrupted(gateway.db, None, None, others, skip=skip)
        claimed = await claim_cart(paused, buyer, cart_id=key_in("Cart", scene.other))
        again = await gateway.result("claimCart", {"cartId": scene.other})

        await scene.run_jobs()
        assert await _bought_lines(gateway) == {"plenty": 5, "last": 1}, skip
        assert again["cart"]["id"] == Kind.encode_id("Cart", claimed["_id"]), skip
        kept += again["cart"]["status"] == "ACTIVE" and quantities(again["cart"]) == {"plenty": 3, "last": 1}
        await scene.assert_settled()
        if not turns:
            break
    assert kept > 3


@pytest.mark.usefixtures("provider")
async def test_a_merge_that_crashes_before_the_other_cart_is_bought_loses_no_line(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    scene = Merging(gateway, clock)
    for stop in some_stops(2):
        await scene.restore()
        with crashing(gateway, stop) as faulty:
            await gateway.ask(CLAIM, {"input": {"cartId": scene.other}})
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
