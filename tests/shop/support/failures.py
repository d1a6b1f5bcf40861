"""Failures of the mutations of the shop."""

from __future__ import annotations

from collections.abc import Callable

from portico.resolvers.shop.payments import PaymentMethods
from portico.schema.kinds import Kind
from portico.testing.kits import Failing, Failure, fails_with
from tests.accounts.support.accounts import deposit, deposit_input, open_account
from tests.catalog.support.cases import id_and_nonce
from tests.catalog.support.failures import Given
from tests.shop.support.shop import (
    Provider,
    add_input,
    address_input,
    anonymously,
    cart_of_nobody,
    checkout_input,
    new_cart,
    new_order,
    order_input,
    restock,
    stock_up,
    update_input,
)
from tests.support.harness import GatewayClient, create_product


async def _in_use(gateway: GatewayClient) -> Failure:
    product = await create_product(gateway, sku="held")
    await restock(gateway, "held", 3)
    cart = await new_cart(gateway, held=2)
    return Failure(id_and_nonce(product), lambda: gateway.result("updateCartItem", update_input(cart, "held", 2, 0)))


async def _too_few_to_take_away(gateway: GatewayClient) -> Failure:
    sku = await stock_up(gateway, units=2)
    return Failure({"sku": sku, "quantity": -5}, lambda: restock(gateway, sku, 5))


async def _too_many(gateway: GatewayClient) -> Failure:
    sku = await stock_up(gateway, units=2)
    return Failure({"sku": sku, "quantity": 2**31 - 1}, lambda: restock(gateway, sku, -2))


def _inactive(given: Callable[[str], Given], *, of_nobody: bool = False) -> Failing:
    async def fail(gateway: GatewayClient) -> Failure:
        gateway.state.resources[PaymentMethods] = Provider()
        await stock_up(gateway, "held")
        cart = await (cart_of_nobody if of_nobody else new_cart)(gateway, held=2)
        await anonymously(gateway, "checkout", checkout_input(cart)) if of_nobody else await gateway.result(
            "checkout", checkout_input(cart)
        )
        return Failure(given(cart))

    return fail


def _too_few(given: Callable[[str], Given]) -> Failing:
    async def fail(gateway: GatewayClient) -> Failure:
        await stock_up(gateway, "held", 3)
        cart = await new_cart(gateway, held=2)
        return Failure(given(cart), lambda: restock(gateway, "held", 20))

    return fail


async def _empty(gateway: GatewayClient) -> Failure:
    gateway.state.resources[PaymentMethods] = Provider()
    cart = await new_cart(gateway)
    sku = await stock_up(gateway)
    return Failure(checkout_input(cart), lambda: gateway.result("addItemToCart", add_input(cart, sku)))


async def _declined(gateway: GatewayClient) -> Failure:
    gateway.state.resources[PaymentMethods] = Provider()
    return Failure(checkout_input(await new_cart(gateway, **{await stock_up(gateway): 1}), "decline"))


async def _poor(gateway: GatewayClient) -> Failure:
    account = await open_account(gateway.db)
    cart = await new_cart(gateway, **{await stock_up(gateway, price=100): 1})
    given = {"cartId": cart, "payment": {"accountId": account}}
    return Failure(given, lambda: deposit(gateway, deposit_input(account, 500)))


def _order_not_placed(mutation: str) -> Failing:
    async def fail(gateway: GatewayClient) -> Failure:
        gateway.state.resources[PaymentMethods] = Provider()
        order = (await new_order(gateway, **{await stock_up(gateway): 1}))["order"]["id"]
        if mutation == "deliverOrder":
            return Failure({"orderId": order})
        await gateway.result("shipOrder", order_input(order))
        return Failure({"orderId": order})

    return fail


async def _wrong_address(gateway: GatewayClient) -> Failure:
    gateway.state.resources[PaymentMethods] = Provider()
    cart = await new_cart(gateway, **{await stock_up(gateway): 1})
    return Failure(checkout_input(cart, address=address_input(country="XX", city=" ")))


NO_ORDER = Kind.encode_id("Order", "0" * 32)
NO_CART = Kind.encode_id("Cart", "0" * 32)


FAILURES: dict[tuple[str, str], Failing] = {
    ("deleteProduct", "ProductInUse"): _in_use,
    ("restock", "InadequateInventory"): _too_few_to_take_away,
    ("restock", "NotFound"): fails_with(lambda: {"sku": "none", "quantity": 1}),
    ("restock", "InvalidInput"): _too_many,
    ("addItemToCart", "CartInactive"): _inactive(lambda cart: add_input(cart, "held")),
    ("addItemToCart", "InadequateInventory"): _too_few(lambda cart: add_input(cart, "held", 5)),
    ("addItemToCart", "NotFound"): fails_with(lambda: add_input(NO_CART, "none")),
    ("addItemToCart", "InvalidInput"): fails_with(lambda: add_input(NO_CART, "none", 0)),
    ("updateCartItem", "CartInactive"): _inactive(lambda cart: update_input(cart, "held", 2, 1)),
    ("updateCartItem", "InadequateInventory"): _too_few(lambda cart: update_input(cart, "held", 2, 5)),
    ("updateCartItem", "NotFound"): fails_with(lambda: update_input(NO_CART, "none", 1, 2)),
    ("updateCartItem", "InvalidInput"): fails_with(lambda: update_input(NO_CART, "none", -1, 2)),
    ("claimCart", "CartInactive"): _inactive(lambda cart: {"cartId": cart}, of_nobody=True),
    ("claimCart", "NotFound"): fails_with(lambda: {"cartId": NO_CART}),
    ("discardCart", "CartInactive"): _inactive(lambda cart: {"cartId": cart}),
    ("discardCart", "NotFound"): fails_with(lambda: {"cartId": NO_CART}),
    ("checkout", "CartInactive"): _inactive(checkout_input),
    ("checkout", "EmptyCart"): _empty,
    ("checkout", "PaymentDeclined"): _declined,
    ("checkout", "InsufficientFunds"): _poor,
    ("checkout", "NotFound"): fails_with(lambda: checkout_input(NO_CART)),
    ("checkout", "InvalidInput"): _wrong_address,
    ("shipOrder", "OrderStatusConflict"): _order_not_placed("shipOrder"),
    ("shipOrder", "NotFound"): fails_with(lambda: {"orderId": NO_ORDER}),
    ("shipOrder", "InvalidInput"): fails_with(lambda: {"orderId": NO_ORDER, "trackingNumber": " "}),
    ("deliverOrder", "OrderStatusConflict"): _order_not_placed("deliverOrder"),
    ("deliverOrder", "NotFound"): fails_with(lambda: {"orderId": NO_ORDER}),
    ("cancelOrder", "OrderStatusConflict"): _order_not_placed("cancelOrder"),
    ("cancelOrder", "NotFound"): fails_with(lambda: {"orderId": NO_ORDER}),
}
