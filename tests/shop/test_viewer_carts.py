"""A signed-in viewer has one active cart, however many calls create or claim one at the same moment."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from portico.resolvers.errors import Conflict
from portico.resolvers.shop.viewer_carts import claim_cart, create_cart
from tests.accounts.support.accounts import OWNER
from tests.shop.support.merge_stages import Merging
from tests.shop.support.shop import (
    add_input,
    assert_settled,
    cart_of_nobody,
    checkout_input,
    new_buyer,
    quantities,
    stock_of,
    stock_up,
)
from tests.support.harness import MUTATIONS, GatewayClient, assert_invariants, new_key, some_stops, stops
from tests.support.ids import key_in
from tests.support.interruptions import crashing
from tests.support.moments import moments

MINE = "{ viewer { cart { id items { sku quantity } } } }"


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


@pytest.mark.usefixtures("provider")
async def test_a_viewer_gets_a_new_cart_after_each_order(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    seen = set()
    for _ in range(3):
        key = new_key()
        created = await asyncio.gather(*(create(gateway, **given) for given in [{}, {}, {"idempotencyKey": key}]))
        (cart,) = {one["id"] for one in created}
        await gateway.result("addItemToCart", add_input(cart, sku))
        await gateway.payload("checkout", checkout_input(cart))
        assert (await create(gateway, idempotencyKey=key))["id"] == cart
        seen.add(cart)

    assert len(seen) == 3
    assert await active(gateway) == []


async def test_a_discarded_cart_is_followed_by_another_one(gateway: GatewayClient) -> None:
    carts = []
    for _ in range(4):
        carts.append((await create(gateway))["id"])
        gateway.clock.advance(seconds=1)
        await gateway.result("discardCart", {"cartId": carts[-1]})
        # The first cart was changed last, and its follower is gone.
        late = {"last_modified": gateway.clock.now() + timedelta(minutes=1)}
        await gateway.db["carts"].update_one({"_id": key_in("Cart", carts[0])}, {"$set": late})

    assert len(set(carts)) == 4


async def test_many_calls_at_a_time_make_one_cart(gateway: GatewayClient) -> None:
    for _ in range(5):
        created = await asyncio.gather(*(create(gateway, idempotencyKey=new_key()) for _ in range(12)))

        assert len({one["id"] for one in created}) == 1
        assert len(await active(gateway)) == 1
        await gateway.db["carts"].delete_many({})


async def test_a_creation_that_crashes_anywhere_leaves_one_cart(gateway: GatewayClient) -> None:
    for stop in some_stops(2):
        given = {"input": {"idempotencyKey": new_key()}}
        with crashing(gateway, stop) as faulty:
            await gateway.ask(MUTATIONS["createCart"], given)
        # The crashed call holds the key for 30 seconds.
        gateway.clock.advance(seconds=31)
        made = [(await gateway.result("createCart", one))["cart"]["id"] for one in (given["input"], {})]

        assert made == [made[0]] * 2, stop
        assert len(await active(gateway)) == 1, stop
        await assert_invariants(gateway)
        await gateway.db["carts"].delete_many({})
        if not faulty.has_crashed:
            break
    assert stop > 1


async def test_a_cart_that_is_claimed_while_another_one_is_created_is_the_only_one(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=1_000)
    for is_creating in (True, False):
        for moment in moments(stops()):
            visitors = await cart_of_nobody(gateway, **{sku: 2})
            if is_creating:
                claiming = partial(gateway.result, "claimCart", {"cartId": visitors})
                got = await create_cart(moment.before(gateway.db, claiming), new_buyer())
            else:
                paused = moment.before(gateway.db, partial(create, gateway))
                got = await claim_cart(paused, new_buyer(), cart_id=key_in("Cart", visitors))

            (cart,) = await active(gateway)
            assert quantities(cart) == ({sku: 2} if moment.was_reached or not is_creating else {})
            assert got["_id"] == cart["_id"] or moment.was_reached, moment.place
            await assert_settled(gateway)
            await gateway.db["carts"].delete_many({})
            await gateway.db["stock"].update_one(
                {"_id": sku}, {"$set": {"available": 1_000, "reserved": 0, "restocked": 1_000}}
            )


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
    gateway: GatewayClient, change: str
) -> None:
    scene, kept = Merging(gateway, gateway.clock), 0
    for moment in moments(stops()):
        await scene.restore()
        await gateway.db["stock"].update_one({"_id": "plenty"}, {"$inc": {"available": 999, "restocked": 999}})
        changes = {
            "discard": ("discardCart", {"cartId": scene.cart}),
            "fill": ("addItemToCart", add_input(scene.cart, "plenty", 998)),
        }
        paused = moment.before(gateway.db, partial(gateway.result, *changes[change]))
        # If the cart was full before it was locked, the claim is refused.
        with suppress(Conflict):
            await claim_cart(paused, new_buyer(), cart_id=key_in("Cart", scene.other))
        await scene.run_jobs()

        held = [line for cart in await active(gateway) for line in cart["items"]]
        other = await gateway.stored("carts", {"_id": key_in("Cart", scene.other)})
        if other["status"] == "EXPIRED":
            # Either the viewer has discarded a cart that had the lines, or they are there.
            kept += any(line["sku"] == "last" for line in held)
            assert (
                sum(line["quantity"] for line in held if line["sku"] == "last") == (await stock_of(gateway, "last"))[1]
            )
        await scene.assert_settled()
    assert kept > 2
