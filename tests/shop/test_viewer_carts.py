"""A signed-in viewer has one active cart, however many calls create or claim one at the same moment."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from portico.resolvers.errors import Conflict
from portico.resolvers.shop.cart_edits import Buyer
from portico.resolvers.shop.viewer_carts import claim_cart, create_cart
from portico.resolvers.writes.marks import random_operation_id
from tests.accounts.support.accounts import OWNER
from tests.shop.support.merge_stages import Merging
from tests.shop.support.shop import (
    add_input,
    anonymously,
    assert_nothing_in_flight,
    cart_of_nobody,
    checkout_input,
    new_cart,
    quantities,
    stock_of,
    stock_up,
)
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, new_key, some_stops, stops
from tests.support.ids import key_in
from tests.support.interruptions import crashing, interrupted

MINE = "{ viewer { cart { id items { sku quantity } } } }"
CREATE = "mutation ($input: CreateCartInput!) { createCart(input: $input) { __typename } }"


async def create(gateway: GatewayClient, **given: Any) -> Any:
    return (await gateway.result("createCart", given))["cart"]


async def active(gateway: GatewayClient) -> list[Any]:
    return await gateway.db["carts"].find({"owner": OWNER, "status": "ACTIVE"}).to_list()


async def test_a_viewer_with_an_active_cart_gets_that_one(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    first = await create(gateway)
    await gateway.result("addItemToCart", add_input(first["id"], sku, 2))

    again = await create(gateway, idempotencyKey=new_key())

    assert (again["id"], quantities(again)) == (first["id"], {sku: 2})
    assert (await gateway.data(MINE))["viewer"]["cart"]["id"] == first["id"]
    assert await gateway.db["carts"].count_documents({}) == 1


async def test_callers_without_a_token_get_a_cart_each(gateway: GatewayClient) -> None:
    carts = [(await anonymously(gateway, "createCart", {}))["cart"]["id"] for _ in range(2)]

    assert carts[0] != carts[1]


@pytest.mark.usefixtures("provider")
async def test_a_viewer_gets_a_new_cart_after_each_order(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    seen = set()
    for _ in range(3):
        key = new_key()
        created = await asyncio.gather(*(create(gateway, **given) for given in [{}, {}, {"idempotencyKey": key}]))
        (cart,) = {one["id"] for one in created}
        await gateway.result("addItemToCart", add_input(cart, sku))
        bought = await gateway.result("checkout", checkout_input(cart))
        assert bought["__typename"] == "CheckoutPayload"
        assert (await create(gateway, idempotencyKey=key))["id"] == cart
        seen.add(cart)

    assert len(seen) == 3
    assert await active(gateway) == []


async def test_a_discarded_cart_is_followed_by_another_one(gateway: GatewayClient, clock: SettableClock) -> None:
    carts = []
    for _ in range(4):
        carts.append((await create(gateway))["id"])
        clock.advance(seconds=1)
        await gateway.result("discardCart", {"cartId": carts[-1]})
        # The first cart was changed last, and its follower is gone.
        late = {"last_modified": clock.now() + timedelta(minutes=1)}
        await gateway.db["carts"].update_one({"_id": key_in("Cart", carts[0])}, {"$set": late})

    assert len(set(carts)) == 4


async def test_many_calls_at_a_time_make_one_cart(gateway: GatewayClient) -> None:
    for _ in range(5):
        created = await asyncio.gather(*(create(gateway, idempotencyKey=new_key()) for _ in range(12)))

        assert len({one["id"] for one in created}) == 1
        assert len(await active(gateway)) == 1
        await gateway.db["carts"].delete_many({})


async def test_a_creation_that_crashes_anywhere_leaves_one_cart(gateway: GatewayClient, clock: SettableClock) -> None:
    for stop in some_stops(2):
        given = {"input": {"idempotencyKey": new_key()}}
        with crashing(gateway, stop) as faulty:
            await gateway.ask(CREATE, given)
        # The crashed call holds the key for 30 seconds.
        clock.advance(seconds=31)
        made = [(await gateway.result("createCart", one))["cart"]["id"] for one in (given["input"], {})]

        assert made == [made[0]] * 2, stop
        assert len(await active(gateway)) == 1, stop
        await assert_invariants(gateway)
        await gateway.db["carts"].delete_many({})
        if not faulty.has_crashed:
            break
    assert stop > 1


async def test_a_cart_that_is_claimed_while_another_one_is_created_is_the_only_one(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    sku = await stock_up(gateway, units=1_000)
    for is_creating in (True, False):
        for skip in stops():
            visitors, turns = await cart_of_nobody(gateway, **{sku: 2}), list[int]()
            buyer = Buyer(OWNER, clock.now(), timedelta(hours=4), random_operation_id())

            async def others(
                visitors: str = visitors, turns: list[int] = turns, *, creates: bool = is_creating
            ) -> None:
                turns.append(1)
                if creates:
                    await gateway.result("claimCart", {"cartId": visitors})
                else:
                    await create(gateway)

            paused = interrupted(gateway.db, None, None, others, skip=skip)
            if is_creating:
                got = await create_cart(paused, buyer)
            else:
                got = await claim_cart(paused, buyer, cart_id=key_in("Cart", visitors))

            (cart,) = await active(gateway)
            assert {line["sku"]: line["quantity"] for line in cart["items"]} == (
                {sku: 2} if turns or not is_creating else {}
            )
            assert got["_id"] == cart["_id"] or turns, skip
            await assert_nothing_in_flight(gateway.db)
            await assert_invariants(gateway)
            await gateway.db["carts"].delete_many({})
            await gateway.db["stock"].update_one(
                {"_id": sku}, {"$set": {"available": 1_000, "reserved": 0, "restocked": 1_000}}
            )
            if not turns:
                break


async def test_carts_of_two_visitors_that_are_claimed_at_once_become_one(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=50)
    for _ in range(5):
        visitors = [await cart_of_nobody(gateway, **{sku: 1}) for _ in range(4)]

        claimed = await asyncio.gather(*(gateway.result("claimCart", {"cartId": cart}) for cart in visitors))

        assert {one["__typename"] for one in claimed} == {"CartPayload"}
        (cart,) = await active(gateway)
        assert sum(line["quantity"] for line in cart["items"]) == 4
        await gateway.result("discardCart", {"cartId": (await create(gateway))["id"]})
        await assert_invariants(gateway)


@pytest.mark.parametrize("change", ["discard", "fill"])
async def test_lines_that_the_cart_of_the_viewer_refuses_stay_with_the_viewer(
    gateway: GatewayClient, clock: SettableClock, change: str
) -> None:
    scene, kept = Merging(gateway, clock), 0
    for skip in stops():
        await scene.restore()
        await gateway.db["stock"].update_one({"_id": "plenty"}, {"$inc": {"available": 999, "restocked": 999}})
        turns: list[int] = []

        async def others(turns: list[int] = turns) -> None:
            turns.append(1)
            if change == "discard":
                await gateway.result("discardCart", {"cartId": scene.cart})
            else:
                await gateway.result("addItemToCart", add_input(scene.cart, "plenty", 998))

        buyer = Buyer(OWNER, clock.now(), timedelta(hours=4), random_operation_id())
        paused = interrupted(gateway.db, None, None, others, skip=skip)
        # If the cart was full before it was locked, the claim is refused.
        with suppress(Conflict):
            await claim_cart(paused, buyer, cart_id=key_in("Cart", scene.other))
        await scene.run_jobs()

        held = [line for cart in await active(gateway) for line in cart["items"]]
        other = await gateway.db["carts"].find_one({"_id": key_in("Cart", scene.other)})
        assert other is not None
        if other["status"] == "EXPIRED":
            # Either the viewer has discarded a cart that had the lines, or they are there.
            kept += any(line["sku"] == "last" for line in held)
            assert (
                sum(line["quantity"] for line in held if line["sku"] == "last") == (await stock_of(gateway, "last"))[1]
            )
        await scene.assert_settled()
        if not turns:
            break
    assert kept > 2


async def test_the_cart_of_a_former_version_is_merged(gateway: GatewayClient, clock: SettableClock) -> None:
    sku = await stock_up(gateway)
    older = await new_cart(gateway, **{sku: 1})
    clock.advance(seconds=5)
    newer = await new_cart(gateway, **{sku: 2})

    assert (await create(gateway))["id"] == newer
    merged = await gateway.result("claimCart", {"cartId": older})

    assert quantities(merged["cart"]) == {sku: 3}
