"""A key that a write stores without surrounding blanks is found with them, too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.game.support.stacks import bag, goods, keyed
from tests.support.harness import GatewayClient, category_input, product_input

BLANK = " \t{}\n "
READS = {
    "product": ("query ($key: String!) { found: product(sku: $key) { title } }", {"title": "Blue"}),
    "category": ("query ($key: String!) { found: category(slug: $key) { name } }", {"name": "Blue"}),
    "content": ("query ($key: String!) { found: content(path: $key) { title } }", {"title": "Blue"}),
    "stack": (
        'query ($key: String!) { inventory(owner: "tester") { found: stack(category: $key, itemId: $key) { name } } }',
        {"name": "Blue"},
    ),
    "stacks": (
        'query ($key: String!) { inventory(owner: "tester") { found: stacks(category: $key) { nodes { name } } } }',
        {"nodes": [{"name": "Blue"}]},
    ),
}


async def store(gateway: GatewayClient, key: str) -> None:
    await gateway.result("createProduct", product_input(sku=key, title="Blue"))
    await gateway.result("createCategory", category_input(slug=key, name="Blue"))
    await gateway.result("createPage", {"title": "Blue", "slug": key, "text": "Hello."})
    await gateway.result("grant", keyed(to=bag("tester"), name="Blue", **goods(key, category=key)))


@pytest.mark.parametrize("read", READS)
async def test_a_read_finds_what_a_write_has_stored_without_blanks(gateway: GatewayClient, read: str) -> None:
    await store(gateway, BLANK.format("x-1"))
    text, shown = READS[read]

    for key in ("x-1", BLANK.format("x-1")):
        path = f"/{key}" if key == "x-1" else BLANK.format("/x-1")
        data: Any = await gateway.data(text, {"key": path if read == "content" else key})
        assert data.get("inventory", data)["found"] == shown


async def test_writes_of_stock_and_carts_find_a_sku_with_blanks(gateway: GatewayClient) -> None:
    await gateway.result("createProduct", product_input(sku="x-1"))
    sku = BLANK.format("x-1")

    stocked = await gateway.result("restock", keyed(sku=sku, quantity=5))
    cart = (await gateway.result("createCart", {}))["cart"]
    added = await gateway.result("addItemToCart", {"cartId": cart["id"], "sku": sku, "quantity": 2})
    changed = await gateway.result(
        "updateCartItem", {"cartId": cart["id"], "sku": sku, "oldQuantity": 2, "newQuantity": 3}
    )

    assert stocked["product"]["stock"]["available"] == 5
    assert [(one["sku"], one["quantity"]) for one in added["cart"]["items"]] == [("x-1", 2)]
    assert [(one["sku"], one["quantity"]) for one in changed["cart"]["items"]] == [("x-1", 3)]
