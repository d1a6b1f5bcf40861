"""Quick changes of one cart: they are put in order, and a conflict shows what the buyer has to know."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.shop.support.shop import cart_of, full_cart, quantities, stock_of, update_input
from tests.support.harness import GatewayClient

UPDATE = """
mutation ($input: UpdateCartItemInput!) {
  updateCartItem(input: $input) {
    __typename
    ... on CartPayload { cart { items { quantity } } }
    ... on Conflict { message productTitle currentCart { id items { sku quantity } total { amount } } }
  }
}
"""


async def _update(gateway: GatewayClient, given: dict[str, Any]) -> Any:
    return (await gateway.data(UPDATE, {"input": given}))["updateCartItem"]


async def test_clicks_in_quick_succession_are_put_in_order(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway, 1, units=100)
    clicks = [update_input(cart, sku, number, number + 1) for number in range(1, 5)]

    # The latest arrives first.
    results = await asyncio.gather(*(_update(gateway, click) for click in reversed(clicks)))

    assert {result["__typename"] for result in results} == {"CartPayload"}
    assert quantities(await cart_of(gateway, cart)) == {sku: 5}
    assert await stock_of(gateway, sku) == (95, 5, 0)


async def test_fifty_pairs_of_clicks_meet_no_conflict(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway, 1, units=1_000)
    kinds = []
    for number in range(1, 101, 2):
        pair = [update_input(cart, sku, number, number + 1), update_input(cart, sku, number + 1, number + 2)]
        kinds += [one["__typename"] for one in await asyncio.gather(*(_update(gateway, given) for given in pair))]

    assert kinds == ["CartPayload"] * 100
    assert quantities(await cart_of(gateway, cart)) == {sku: 101}


async def test_a_conflict_shows_the_cart_and_the_title(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway)

    refused = await _update(gateway, update_input(cart, sku, 5, 6))

    assert refused == {
        "__typename": "Conflict",
        "message": f"The cart has 2 units of 'Title of {sku}', not 5.",
        "productTitle": f"Title of {sku}",
        "currentCart": {"id": cart, "items": [{"sku": sku, "quantity": 2}], "total": {"amount": 2_000}},
    }
    assert await stock_of(gateway, sku) == (8, 2, 0)


async def test_a_discarded_cart_gives_its_units_back_at_once(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway)
    text = """
    mutation ($input: DiscardCartInput!) {
      discardCart(input: $input) {
        ... on CartPayload {
          cart { status expiresAt items { product { stock { available reserved } } } } viewer { cart { id } }
        }
      }
    }
    """

    discarded = (await gateway.data(text, {"input": {"cartId": cart}}))["discardCart"]

    items = [{"product": {"stock": {"available": 10, "reserved": 0}}}]
    assert discarded["cart"] == {"status": "EXPIRED", "expiresAt": None, "items": items}
    assert discarded["viewer"] == {"cart": None}
    assert (await gateway.result("discardCart", {"cartId": cart}))["__typename"] == "CartInactive"
    assert (await _update(gateway, update_input(cart, sku, 2, 3)))["__typename"] == "CartInactive"


async def test_one_of_discarding_and_changing_a_cart_comes_first(gateway: GatewayClient) -> None:
    for _ in range(5):
        cart, sku = await full_cart(gateway)

        discarded = [gateway.result("discardCart", {"cartId": cart}) for _ in range(2)]
        changed = [gateway.result("addItemToCart", {"cartId": cart, "sku": sku, "quantity": 1}) for _ in range(3)]
        results = await asyncio.gather(*discarded, *changed)

        assert sorted(one["__typename"] for one in results[:2]) == ["CartInactive", "CartPayload"]
        assert await stock_of(gateway, sku) == (10, 0, 0)
