"""Checkouts and orders for buyers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from portico.schema.catalog.merchants import MERCHANT
from tests.shop.support.shop import (
    Provider,
    add_input,
    anonymously,
    assert_settled,
    cart_of,
    checkout_input,
    full_cart,
    new_cart,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.selections import shortest

ORDERS = "query ($after: String) { viewer { orders(first: 2, after: $after) { nodes { id } pageInfo { endCursor } } } }"


async def test_a_cart_becomes_an_order(gateway: GatewayClient, provider: Provider) -> None:
    one, other = await stock_up(gateway, price=1000), await stock_up(gateway, price=250)
    cart = await new_cart(gateway, **{one: 2, other: 4})

    done = await gateway.result("checkout", checkout_input(cart))

    assert done["__typename"] == "CheckoutPayload"
    assert (done["cart"]["status"], done["cart"]["expiresAt"]) == ("COMPLETE", None)
    order = done["order"]
    assert [(line["sku"], line["quantity"], line["lineTotal"]["amount"]) for line in order["items"]] == [
        (one, 2, 2000),
        (other, 4, 1000),
    ]
    assert order["total"] == {"amount": 3000}
    assert [f"paid-{reference}" for reference in provider.taken] == [order["paymentReference"]]
    assert list(provider.taken.values()) == [3000]
    assert (await stock_of(gateway, one), await stock_of(gateway, other)) == ((8, 0, 2), (6, 0, 4))
    await assert_settled(gateway)


async def test_a_complete_cart_cannot_be_changed(gateway: GatewayClient, provider: Provider) -> None:
    cart, sku = await full_cart(gateway)
    await gateway.result("checkout", checkout_input(cart))

    answers = [
        await gateway.result("addItemToCart", add_input(cart, sku)),
        await gateway.result("updateCartItem", update_input(cart, sku, 2, 1)),
        await gateway.result("checkout", checkout_input(cart)),
    ]

    assert [(answer["__typename"], answer["status"]) for answer in answers] == [("CartInactive", "COMPLETE")] * 3
    assert len(provider.taken) == 1


async def test_an_empty_cart_cannot_be_checked_out(gateway: GatewayClient, provider: Provider) -> None:
    cart = await new_cart(gateway)

    assert (await gateway.result("checkout", checkout_input(cart)))["__typename"] == "EmptyCart"
    assert (provider.asked, (await cart_of(gateway, cart))["status"]) == (0, "ACTIVE")


async def test_an_unsupported_payment_method_is_declined(gateway: GatewayClient) -> None:
    cart = await new_cart(gateway, **{await stock_up(gateway): 1})

    assert (await gateway.result("checkout", checkout_input(cart)))["__typename"] == "PaymentDeclined"
    assert (await cart_of(gateway, cart))["status"] == "ACTIVE"


@pytest.mark.parametrize("payment", [{}, {"token": "accept", "accountId": "x"}, {"token": None}])
async def test_a_checkout_needs_exactly_one_payment_method(gateway: GatewayClient, payment: dict[str, Any]) -> None:
    cart = await new_cart(gateway, **{await stock_up(gateway): 1})

    answer = await gateway.ask(shortest("checkout"), {"input": checkout_input(cart, payment=payment)})

    assert answer.codes == ["BAD_USER_INPUT"]


@pytest.mark.parametrize("token", ["lost", "hang"])
async def test_a_job_finishes_a_pending_payment(gateway: GatewayClient, provider: Provider, token: str) -> None:
    cart, sku = await full_cart(gateway)
    given = checkout_input(cart, token)
    await gateway.result("checkout", given)
    provider.is_back = True
    await gateway.run_jobs()
    early = (await cart_of(gateway, cart))["status"]

    await gateway.run_jobs(seconds=31)

    assert (early, (await cart_of(gateway, cart))["status"]) == ("PENDING", "COMPLETE")
    assert await stock_of(gateway, sku) == (8, 0, 2)
    await gateway.payload("checkout", given)
    assert list(provider.taken.values()) == [2000]
    await assert_invariants(gateway)


async def test_a_pending_payment_that_is_declined_later_unlocks_the_cart(
    gateway: GatewayClient, provider: Provider
) -> None:
    cart, sku = await full_cart(gateway)
    await gateway.result("checkout", checkout_input(cart, "hang"))
    stored = await gateway.stored("carts")
    provider.outcomes[stored["checkout"]["reference"]] = "refused"
    provider.is_back = True

    await gateway.run_jobs(seconds=31)

    assert (await cart_of(gateway, cart))["status"] == "ACTIVE"
    assert await stock_of(gateway, sku) == (8, 2, 0)
    await assert_invariants(gateway)


async def test_a_payment_token_is_removed_after_the_checkout(gateway: GatewayClient, provider: Provider) -> None:
    cart = await new_cart(gateway, **{await stock_up(gateway): 1})
    await gateway.result("checkout", checkout_input(cart, "lost"))
    pending = await gateway.db["carts"].find_one({})
    provider.outcomes.clear()
    cart = await new_cart(gateway, **{await stock_up(gateway): 1})
    await gateway.result("checkout", checkout_input(cart))
    complete = await gateway.db["carts"].find_one({"status": "COMPLETE"})

    assert pending is not None
    assert complete is not None
    assert pending["checkout"]["payment"] == {"method": "token", "token": "lost"}
    assert "payment" not in complete["checkout"]


@pytest.mark.usefixtures("provider")
async def test_a_viewer_pages_through_orders_newest_first(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    placed = []
    for _ in range(3):
        done = await gateway.result("checkout", checkout_input(await new_cart(gateway, **{sku: 1})))
        placed.append(done["order"]["id"])
        gateway.clock.advance(seconds=1)

    first = (await gateway.data(ORDERS))["viewer"]["orders"]
    second = (await gateway.data(ORDERS, {"after": first["pageInfo"]["endCursor"]}))["viewer"]["orders"]
    others = (await gateway.data(ORDERS, token=gateway.token("other")))["viewer"]["orders"]

    assert [node["id"] for node in (*first["nodes"], *second["nodes"])] == placed[::-1]
    assert others["nodes"] == []


@pytest.mark.usefixtures("provider")
async def test_an_order_is_visible_only_to_its_buyer_and_merchants(gateway: GatewayClient) -> None:
    done = await gateway.result("checkout", checkout_input(await new_cart(gateway, **{await stock_up(gateway): 1})))
    order = done["order"]["id"]
    node = "query ($id: ID!) { node(id: $id) { id ... on Order { total { amount } } } }"

    mine = (await gateway.data(node, {"id": order}))["node"]
    merchant, other = gateway.token("merchant", [MERCHANT]), gateway.token("other", [])
    theirs = [(await gateway.data(node, {"id": order}, token=token))["node"] for token in (merchant, other, None)]

    assert (mine, theirs) == ({"id": order, "total": {"amount": 1000}}, [mine, None, None])


@pytest.mark.usefixtures("provider")
async def test_anybody_can_buy_with_a_cart_without_an_owner(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    carts = [(await anonymously(gateway, "createCart", {}))["cart"]["id"] for _ in range(2)]
    for cart in carts:
        await anonymously(gateway, "addItemToCart", add_input(cart, sku))

    nobody = await anonymously(gateway, "checkout", checkout_input(carts[0]))
    somebody = await gateway.result("checkout", checkout_input(carts[1]))

    assert (nobody["__typename"], somebody["__typename"]) == ("CheckoutPayload", "CheckoutPayload")
    assert [node["id"] for node in (await gateway.data(ORDERS))["viewer"]["orders"]["nodes"]] == [
        somebody["order"]["id"]
    ]
    assert await stock_of(gateway, sku) == (8, 0, 2)


async def test_concurrent_checkouts_of_one_cart_sell_it_once(gateway: GatewayClient, provider: Provider) -> None:
    cart, sku = await full_cart(gateway)

    answers = await asyncio.gather(*(gateway.result("checkout", checkout_input(cart)) for _ in range(20)))

    kinds = [answer["__typename"] for answer in answers]
    assert (kinds.count("CheckoutPayload"), kinds.count("CartInactive")) == (1, 19)
    assert list(provider.taken.values()) == [2000]
    assert await stock_of(gateway, sku) == (8, 0, 2)
    assert await gateway.db["orders"].count_documents({}) == 1
    await assert_invariants(gateway)
