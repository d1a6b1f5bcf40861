"""A key that a write stores without surrounding blanks is found with them, too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.game.support.stacks import bag, goods, keyed
from tests.shop.support.shop import add_input, update_input
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


@pytest.mark.parametrize("read", READS)
async def test_a_read_finds_what_a_write_has_stored_without_blanks(gateway: GatewayClient, read: str) -> None:
    blank = BLANK.format("x-1")
    await gateway.result("createProduct", product_input(sku=blank, title="Blue"))
    await gateway.result("createCategory", category_input(slug=blank, name="Blue"))
    await gateway.result("createPage", {"title": "Blue", "slug": blank, "text": "Hello."})
    await gateway.result("grant", keyed(to=bag("tester"), name="Blue", **goods(blank, category=blank)))
    text, shown = READS[read]

    for key in ("x-1", blank):
        path = f"/{key}" if key == "x-1" else BLANK.format("/x-1")
        data: Any = await gateway.data(text, {"key": path if read == "content" else key})
        assert data.get("inventory", data)["found"] == shown


async def test_writes_of_stock_and_carts_find_a_sku_with_blanks(gateway: GatewayClient) -> None:
    await gateway.result("createProduct", product_input(sku="x-1"))
    sku = BLANK.format("x-1")

    stocked = await gateway.result("restock", keyed(sku=sku, quantity=5))
    cart = (await gateway.result("createCart", {}))["cart"]
    added = await gateway.result("addItemToCart", add_input(cart["id"], sku, 2))
    changed = await gateway.result("updateCartItem", update_input(cart["id"], sku, 2, 3))

    assert stocked["product"]["stock"]["available"] == 5
    assert [(one["sku"], one["quantity"]) for one in added["cart"]["items"]] == [("x-1", 2)]
    assert [(one["sku"], one["quantity"]) for one in changed["cart"]["items"]] == [("x-1", 3)]
