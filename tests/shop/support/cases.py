"""Inputs of the mutations of the shop, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from portico.resolvers.shop.payments import PaymentMethods
from tests.catalog.support.cases import Given
from tests.shop.support.shop import (
    Provider,
    add_input,
    address_input,
    cart_of_nobody,
    checkout_input,
    order_of,
    stock_up,
    update_input,
)
from tests.support.harness import GatewayClient


async def _restock(gateway: GatewayClient) -> tuple[Given, Given]:
    one, other = await stock_up(gateway), await stock_up(gateway)
    return {"sku": one, "quantity": 5}, {"sku": other, "quantity": -5}


async def _add_item(gateway: GatewayClient) -> tuple[Given, Given]:
    cart, sku = await cart_of_nobody(gateway), await stock_up(gateway)
    return add_input(cart, sku, 2), add_input(cart, sku, 3)


async def _update_item(gateway: GatewayClient) -> tuple[Given, Given]:
    one, other = await stock_up(gateway), await stock_up(gateway)
    cart = await cart_of_nobody(gateway, **{one: 4, other: 4})
    return update_input(cart, one, 4, 2), update_input(cart, other, 4, 0)


async def _claim(gateway: GatewayClient) -> tuple[Given, Given]:
    sku = await stock_up(gateway)
    one, other = [await cart_of_nobody(gateway, **{sku: units}) for units in (2, 3)]
    return {"cartId": one}, {"cartId": other}


async def _discard(gateway: GatewayClient) -> tuple[Given, Given]:
    sku = await stock_up(gateway)
    one, other = [await cart_of_nobody(gateway, **{sku: 2}) for _ in range(2)]
    return {"cartId": one}, {"cartId": other}


async def _checkout(gateway: GatewayClient) -> tuple[Given, Given]:
    gateway.state.resources[PaymentMethods] = Provider()
    sku = await stock_up(gateway)
    carts = [await cart_of_nobody(gateway, **{sku: 2}) for _ in range(2)]
    first, second = (checkout_input(cart, address=address_input()) for cart in carts)
    return first, second


async def _placed(gateway: GatewayClient) -> tuple[Given, Given]:
    sku = await stock_up(gateway)
    return {"orderId": await order_of(gateway, sku, 2)}, {"orderId": await order_of(gateway, sku, 1)}


async def _shipped(gateway: GatewayClient) -> tuple[Given, Given]:
    first, second = await _placed(gateway)
    for one in (first, second):
        await gateway.payload("shipOrder", one)
    return first, second


# Two inputs for each mutation. Each input succeeds if it comes first.
CASES: dict[str, Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]] = {
    "restock": _restock,
    "addItemToCart": _add_item,
    "updateCartItem": _update_item,
    "claimCart": _claim,
    "discardCart": _discard,
    "checkout": _checkout,
    "shipOrder": _placed,
    "deliverOrder": _shipped,
    "cancelOrder": _placed,
}
