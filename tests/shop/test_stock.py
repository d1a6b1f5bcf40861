"""The stock for merchants and buyers."""

from __future__ import annotations

import pytest

from tests.catalog.support.cases import id_and_nonce
from tests.shop.support.shop import (
    add_input,
    assert_settled,
    checkout_input,
    new_cart,
    quantities,
    restock,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.harness import GatewayClient, assert_invariants, create_product, product_input
from tests.support.roles import assert_only_for

LIST = "{ products(first: 100) { nodes { sku stock { available reserved sold } } } }"


async def test_a_restock_adds_units_and_removes_at_most_the_available_ones(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    sku = product["sku"]

    answers = [await restock(gateway, sku, units) for units in (5, 3, 0, -2, -7, -6)]

    assert [answer["__typename"] for answer in answers] == [
        *["StockPayload"] * 4,
        "InadequateInventory",
        "StockPayload",
    ]
    assert [answer["product"]["stock"]["available"] for answer in (*answers[:4], answers[5])] == [5, 8, 8, 6, 0]
    assert (answers[4]["sku"], answers[4]["available"]) == (sku, 6)
    await assert_invariants(gateway)


async def test_units_in_carts_cannot_be_removed(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=5)
    await new_cart(gateway, **{sku: 4})

    answer = await restock(gateway, sku, -2)

    assert (answer["__typename"], answer["available"]) == ("InadequateInventory", 1)
    assert await stock_of(gateway, sku) == (1, 4, 0)


@pytest.mark.parametrize("units", [2**31 - 1, -(2**31)])
async def test_the_number_of_units_is_limited(gateway: GatewayClient, units: int) -> None:
    sku = await stock_up(gateway, units=1)

    answer = await restock(gateway, sku, units)

    assert (answer["__typename"], answer["path"]) == ("InvalidInput", ["quantity"])
    assert await stock_of(gateway, sku) == (1, 0, 0)


async def test_only_merchants_restock_and_everybody_sees_the_stock(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=1)

    await assert_only_for(gateway, "MERCHANT", "restock", {"sku": sku, "quantity": 1, "idempotencyKey": "key"})

    seen = await gateway.data(LIST, token=None)
    assert seen["products"]["nodes"] == [{"sku": sku, "stock": {"available": 1, "reserved": 0, "sold": 0}}]


@pytest.mark.usefixtures("provider")
async def test_the_stock_of_a_page_of_products_takes_one_command(gateway: GatewayClient) -> None:
    stocked = [await stock_up(gateway, units=number) for number in range(6)]
    await gateway.result("checkout", checkout_input(await new_cart(gateway, **{stocked[5]: 2})))
    await new_cart(gateway, **{stocked[5]: 1, stocked[4]: 1})
    gateway.commands.clear()

    nodes = (await gateway.data(LIST))["products"]["nodes"]

    assert gateway.commands.names() == ["find products", "find stock"]
    counters = {node["sku"]: tuple(node["stock"].values()) for node in nodes}
    assert [counters[sku] for sku in stocked] == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (3, 1, 0), (2, 1, 2)]


@pytest.mark.usefixtures("provider")
async def test_a_product_can_be_deleted_with_its_stock_unless_carts_hold_units(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    sku = product["sku"]
    await restock(gateway, sku, 5)
    cart, other = await new_cart(gateway, **{sku: 2}), await new_cart(gateway, **{sku: 1})

    held = await gateway.result("deleteProduct", id_and_nonce(product))
    await gateway.result("updateCartItem", update_input(cart, sku, 2, 0))
    still_held = await gateway.result("deleteProduct", id_and_nonce(product))
    more = await gateway.result("addItemToCart", add_input(other, sku))
    sold = await gateway.result("checkout", checkout_input(other))
    deleted = await gateway.result("deleteProduct", id_and_nonce(product))

    assert [one["__typename"] for one in (held, still_held, more, sold, deleted)] == [
        "ProductInUse",
        "ProductInUse",
        "CartPayload",
        "CheckoutPayload",
        "DeletedPayload",
    ]
    found = await gateway.data("query ($id: ID!) { cart(id: $id) { items { title product { sku } } } }", {"id": other})
    assert found["cart"]["items"] == [{"title": product["title"], "product": None}]
    assert (await gateway.result("addItemToCart", add_input(cart, sku)))["__typename"] == "NotFound"
    assert (await restock(gateway, sku, 1))["__typename"] == "NotFound"
    await assert_settled(gateway)


async def test_a_recreated_product_starts_with_an_empty_stock(gateway: GatewayClient) -> None:
    first = await create_product(gateway, sku="again")
    await restock(gateway, "again", 5)
    await gateway.result("deleteProduct", id_and_nonce(first))
    second = await gateway.result("createProduct", product_input(sku="again"))
    cart = await new_cart(gateway)

    empty = await stock_of(gateway, "again")
    early = await gateway.result("addItemToCart", add_input(cart, "again"))
    await restock(gateway, "again", 2)
    added = await gateway.result("addItemToCart", add_input(cart, "again"))

    assert second["__typename"] == "ProductPayload"
    assert (empty, early["__typename"]) == ((0, 0, 0), "InadequateInventory")
    assert quantities(added["cart"]) == {"again": 1}
    assert await stock_of(gateway, "again") == (1, 1, 0)
    assert (await gateway.result("deleteProduct", id_and_nonce(second["product"])))["__typename"] == "ProductInUse"
    await assert_invariants(gateway)


async def test_a_deletion_with_a_stale_nonce_leaves_the_stock_unchanged(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    await restock(gateway, product["sku"], 5)
    await gateway.result("updateProduct", {**id_and_nonce(product), "title": "New"})

    refused = await gateway.result("deleteProduct", id_and_nonce(product))

    assert refused["__typename"] == "ProductEditConflict"
    assert quantities(
        (await gateway.result("addItemToCart", add_input(await new_cart(gateway), product["sku"])))["cart"]
    ) == {product["sku"]: 1}
    assert await stock_of(gateway, product["sku"]) == (4, 1, 0)
