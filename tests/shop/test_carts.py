"""Carts for buyers: adding items, changing quantities, ownership and expiry."""

from __future__ import annotations

import asyncio

import pytest

from portico.schema.kinds import Kind
from tests.catalog.support.cases import id_and_nonce_of
from tests.catalog.support.catalog import add_products, pricing, product
from tests.shop.support.shop import (
    add_input,
    anonymously,
    assert_nothing_in_flight,
    assert_settled,
    cart_of,
    checkout_input,
    full_cart,
    new_cart,
    quantities,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.harness import GatewayClient, assert_invariants

pytestmark = pytest.mark.both_drivers


async def test_a_line_keeps_its_id_while_others_come_and_go(gateway: GatewayClient) -> None:
    first, second = await stock_up(gateway, units=10), await stock_up(gateway, units=10)
    cart = (await gateway.result("createCart", {}))["cart"]["id"]
    lines = "query ($id: ID!) { cart(id: $id) { items { id sku } } }"
    for sku in (first, second):
        await gateway.result("addItemToCart", add_input(cart, sku, 1))
    before = (await gateway.data(lines, {"id": cart}))["cart"]["items"]

    await gateway.result("updateCartItem", update_input(cart, first, 1, 0))

    assert [line["sku"] for line in before] == [first, second]
    assert before[0]["id"] != before[1]["id"]
    assert (await gateway.data(lines, {"id": cart}))["cart"]["items"] == before[1:]
    assert await stock_of(gateway, first) == (10, 0, 0)
    await assert_nothing_in_flight(gateway.db)


async def test_adding_an_item_reserves_units_for_the_cart(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=10, price=1500)
    created = await gateway.result("createCart", {})

    added = await gateway.result("addItemToCart", add_input(created["cart"]["id"], sku, 3))

    assert created["cart"]["items"] == []
    assert added["__typename"] == "CartPayload"
    assert added["cart"]["items"] == [
        {
            "sku": sku,
            "quantity": 3,
            "title": f"Title of {sku}",
            "unitPrice": {"amount": 1500, "currency": "USD"},
            "lineTotal": {"amount": 4500},
            "product": {"sku": sku},
        }
    ]
    assert added["cart"]["total"] == {"amount": 4500, "currency": "USD"}
    assert await stock_of(gateway, sku) == (7, 3, 0)
    await assert_settled(gateway)


async def test_adding_a_sku_again_extends_its_line_at_the_current_price(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway, 1, price=1500)
    found = await id_and_nonce_of(gateway, sku)
    cheaper = {"list": {"amount": 1500}, "retail": {"amount": 1200}}
    await gateway.result("updateProduct", {**found, "title": "New title", "pricing": cheaper})

    added = await gateway.result("addItemToCart", add_input(cart, sku, 2))

    (line,) = added["cart"]["items"]
    assert (line["quantity"], line["unitPrice"]["amount"], line["title"]) == (3, 1200, "New title")
    assert await stock_of(gateway, sku) == (7, 3, 0)


async def test_a_line_keeps_its_price_when_the_price_of_the_product_changes(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway, 1, price=1500)
    found = await id_and_nonce_of(gateway, sku)
    dearer = {"list": {"amount": 9900}, "retail": {"amount": 9900}}
    await gateway.result("updateProduct", {**found, "pricing": dearer})

    changed = await gateway.result("updateCartItem", update_input(cart, sku, 1, 2))

    assert changed["cart"]["total"]["amount"] == 3000


async def test_more_units_than_available_cannot_be_added(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=2)
    unstocked = await stock_up(gateway, units=0)
    cart = await new_cart(gateway, **{sku: 1})

    answers = [
        await gateway.result("addItemToCart", add_input(cart, sku, 2)),
        await gateway.result("updateCartItem", update_input(cart, sku, 1, 3)),
        await gateway.result("addItemToCart", add_input(cart, unstocked)),
    ]

    assert [(answer["__typename"], answer["sku"], answer["available"]) for answer in answers] == [
        ("InadequateInventory", sku, 1),
        ("InadequateInventory", sku, 1),
        ("InadequateInventory", unstocked, 0),
    ]
    assert quantities(await cart_of(gateway, cart)) == {sku: 1}
    assert await stock_of(gateway, sku) == (1, 1, 0)
    await assert_nothing_in_flight(gateway.db)


async def test_a_quantity_changes_only_if_the_old_quantity_matches(gateway: GatewayClient) -> None:
    sku, other = await stock_up(gateway), await stock_up(gateway)
    cart = await new_cart(gateway, **{sku: 4})

    steps = [
        (await gateway.result("updateCartItem", update_input(cart, name, old, new)))["__typename"]
        for name, old, new in [(sku, 3, 5), (sku, 4, 6), (sku, 6, 1), (sku, 1, 1), (other, 1, 2), (other, 0, 2)]
    ]

    assert steps == ["Conflict", "CartPayload", "CartPayload", "CartPayload", "Conflict", "CartPayload"]
    assert quantities(await cart_of(gateway, cart)) == {sku: 1, other: 2}
    assert await stock_of(gateway, sku) == (9, 1, 0)
    assert await stock_of(gateway, other) == (8, 2, 0)
    await assert_invariants(gateway)


@pytest.mark.parametrize("quantity", [0, -1, 1001])
async def test_a_quantity_is_1_to_1000(gateway: GatewayClient, quantity: int) -> None:
    sku = await stock_up(gateway, units=5000)
    cart = await new_cart(gateway)

    answer = await gateway.result("addItemToCart", add_input(cart, sku, quantity))

    assert (answer["__typename"], answer["path"]) == ("InvalidInput", ["quantity"])
    assert await stock_of(gateway, sku) == (5000, 0, 0)


async def test_the_quantity_of_a_line_is_limited_for_every_mutation(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway, 1000, units=5000)

    added = await gateway.result("addItemToCart", add_input(cart, sku))
    changed = await gateway.result("updateCartItem", update_input(cart, sku, 1000, 1001))
    below = await gateway.result("updateCartItem", update_input(cart, sku, 1000, -1))

    assert [(answer["__typename"], answer["path"]) for answer in (added, changed, below)] == [
        ("InvalidInput", ["quantity"]),
        ("InvalidInput", ["newQuantity"]),
        ("InvalidInput", ["newQuantity"]),
    ]
    assert await stock_of(gateway, sku) == (4000, 1000, 0)


async def test_a_cart_has_one_currency(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    euro = {"list": {"amount": 100, "currency": "EUR"}, "retail": {"amount": 100, "currency": "EUR"}}
    await add_products(gateway.db, [product(sku="euro", pricing=euro)])
    await gateway.result("restock", {"sku": "euro", "quantity": 5, "idempotencyKey": "euro"})
    cart = await new_cart(gateway, **{sku: 1})

    mixed = await gateway.result("addItemToCart", add_input(cart, "euro"))
    await gateway.result("updateCartItem", update_input(cart, sku, 1, 0))
    alone = await gateway.result("addItemToCart", add_input(cart, "euro"))

    assert (mixed["__typename"], mixed["path"]) == ("InvalidInput", ["sku"])
    assert alone["cart"]["total"] == {"amount": 100, "currency": "EUR"}
    assert await stock_of(gateway, "euro") == (4, 1, 0)


async def test_the_lines_and_the_total_of_a_cart_are_limited(gateway: GatewayClient) -> None:
    skus = [f"line-{number}" for number in range(101)]
    dear = pricing(2**53 - 1, 2**53 - 1)
    await add_products(gateway.db, [product(sku=sku) for sku in skus] + [product(sku="dear", pricing=dear)])
    for sku in (*skus, "dear"):
        await gateway.db["stock"].insert_one(
            {
                "_id": sku,
                "available": 5,
                "reserved": 0,
                "sold": 0,
                "restocked": 5,
                "under_way": [],
                "version": 0,
                "in_stock": True,
            }
        )
    cart = await new_cart(gateway, **dict.fromkeys(skus[:100], 1))

    full = await gateway.result("addItemToCart", add_input(cart, skus[100]))
    beyond = await gateway.result("addItemToCart", add_input(await new_cart(gateway), "dear", 2))

    assert (full["__typename"], full["path"]) == ("InvalidInput", ["sku"])
    assert (beyond["__typename"], beyond["path"]) == ("InvalidInput", ["quantity"])


async def test_unknown_carts_and_skus_are_not_found(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    cart = await new_cart(gateway)
    nowhere = Kind.encode_id("Cart", "0" * 32)

    answers = [
        await gateway.result("addItemToCart", add_input(cart, "no such")),
        await gateway.result("updateCartItem", update_input(cart, "no such", 0, 1)),
        await gateway.result("addItemToCart", add_input(nowhere, sku)),
        await gateway.result("addItemToCart", add_input(Kind.encode_id("Product", sku), sku)),
        await gateway.result("claimCart", {"cartId": nowhere}),
    ]

    assert {answer["__typename"] for answer in answers} == {"NotFound"}
    assert await cart_of(gateway, nowhere) is None
    assert await cart_of(gateway, "no id") is None


async def test_the_cart_of_another_person_is_not_found(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway, 1)
    stranger = gateway.token("stranger")
    writes = {
        "addItemToCart": add_input(cart, sku),
        "updateCartItem": update_input(cart, sku, 1, 2),
        "claimCart": {"cartId": cart},
        "checkout": {"cartId": cart, "payment": {"token": "accept"}, "idempotencyKey": "mine"},
    }

    for mutation, given in writes.items():
        assert (await gateway.result(mutation, given, token=stranger))["__typename"] == "NotFound", mutation
    assert await cart_of(gateway, cart, token=stranger) is None
    assert await cart_of(gateway, cart, token=None) is None
    node = "query ($id: ID!) { node(id: $id) { id } }"
    assert (await gateway.data(node, {"id": cart}, token=stranger))["node"] is None
    assert (await gateway.data(node, {"id": cart}))["node"] == {"id": cart}


async def test_anybody_with_the_id_may_use_a_cart_without_an_owner_until_it_is_claimed(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    created = await anonymously(gateway, "createCart", {})
    cart = created["cart"]["id"]
    await gateway.result("addItemToCart", add_input(cart, sku), token=gateway.token("helper"))
    await anonymously(gateway, "addItemToCart", add_input(cart, sku))

    claimed = await gateway.result("claimCart", {"cartId": cart}, token=gateway.token("owner"))
    again = await gateway.result("claimCart", {"cartId": cart}, token=gateway.token("owner"))
    late = await gateway.result("claimCart", {"cartId": cart}, token=gateway.token("helper"))

    assert quantities(claimed["cart"]) == {sku: 2}
    assert (again["__typename"], late["__typename"]) == ("CartPayload", "NotFound")
    assert (await anonymously(gateway, "addItemToCart", add_input(cart, sku)))["__typename"] == "NotFound"


async def test_claiming_needs_a_token(gateway: GatewayClient) -> None:
    cart = await new_cart(gateway)
    text = "mutation ($id: ID!) { claimCart(input: {cartId: $id}) { __typename } }"

    assert (await gateway.ask(text, {"id": cart}, token=None)).codes == ["UNAUTHENTICATED"]


async def test_a_viewer_gets_the_cart_that_changed_last(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    first = await new_cart(gateway)
    gateway.clock.advance(seconds=1)
    second = await new_cart(gateway)
    before = (await gateway.data("{ viewer { cart { id } } }"))["viewer"]["cart"]["id"]
    gateway.clock.advance(seconds=1)
    await gateway.result("addItemToCart", add_input(first, sku))

    after = (await gateway.data("{ viewer { cart { id items { quantity } } } }"))["viewer"]["cart"]

    assert (before, after) == (second, {"id": first, "items": [{"quantity": 1}]})
    assert (await gateway.data("{ viewer { cart { id } } }", token=gateway.token("other")))["viewer"]["cart"] is None


async def test_a_cart_is_created_without_any_input(gateway: GatewayClient) -> None:
    data = await gateway.data("mutation { createCart { ... on CartPayload { cart { status } } } }")

    assert data["createCart"]["cart"]["status"] == "ACTIVE"


async def test_a_key_creates_one_cart_per_caller(gateway: GatewayClient) -> None:
    given = {"idempotencyKey": "key"}

    results = await asyncio.gather(*(gateway.result("createCart", given) for _ in range(12)))
    other = await gateway.result("createCart", given, token=gateway.token("other"))

    assert results == [results[0]] * 12
    assert other["cart"]["id"] != results[0]["cart"]["id"]
    assert await gateway.db["carts"].count_documents({}) == 2


async def test_ids_of_carts_are_random_and_long(gateway: GatewayClient) -> None:
    await gateway.result("createCart", {"idempotencyKey": "same"}, token=gateway.token("one"))
    await gateway.result("createCart", {"idempotencyKey": "same"}, token=gateway.token("other"))
    await new_cart(gateway)
    ids = [cart["_id"] async for cart in gateway.db["carts"].find({})]

    assert [len(bytes.fromhex(one)) for one in ids] == [16] * 3
    assert len(set(ids)) == 3


async def test_an_idle_cart_expires_and_returns_its_units(gateway: GatewayClient) -> None:
    sku, other = await stock_up(gateway), await stock_up(gateway, units=2)
    idle = await new_cart(gateway, **{sku: 3, other: 2})
    gateway.clock.advance(hours=3)
    used = await new_cart(gateway, **{sku: 1})

    await gateway.run_jobs(hours=1, seconds=1)

    assert (await cart_of(gateway, idle))["status"] == "EXPIRED"
    assert (await cart_of(gateway, idle))["expiresAt"] is None
    assert (await cart_of(gateway, used))["status"] == "ACTIVE"
    assert await stock_of(gateway, sku) == (9, 1, 0)
    assert await stock_of(gateway, other) == (2, 0, 0)
    late = await gateway.result("addItemToCart", add_input(idle, sku))
    assert (late["__typename"], late["status"]) == ("CartInactive", "EXPIRED")
    await gateway.payload("claimCart", {"cartId": idle})
    await assert_settled(gateway)


@pytest.mark.usefixtures("provider")
async def test_paid_and_expired_carts_are_deleted_after_their_days_and_orders_stay(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    idle, paid = [await new_cart(gateway, **{sku: 1}) for _ in range(2)]
    assert (await gateway.result("checkout", checkout_input(paid)))["__typename"] == "CheckoutPayload"
    await gateway.run_jobs(hours=5)
    used = await new_cart(gateway, **{sku: 1})

    await gateway.run_jobs("delete-carts", days=89)
    assert [(await cart_of(gateway, one))["status"] for one in (idle, paid)] == ["EXPIRED", "COMPLETE"]
    await gateway.run_jobs("delete-carts", days=1)

    assert [await cart_of(gateway, one) for one in (idle, paid)] == [None, None]
    assert (await cart_of(gateway, used))["status"] == "ACTIVE"
    assert await gateway.db["orders"].count_documents({}) == 1
    assert await stock_of(gateway, sku) == (8, 1, 1)
    await assert_invariants(gateway)


async def test_every_change_keeps_a_cart_from_expiring(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    cart = await new_cart(gateway)
    for given in (add_input(cart, sku), update_input(cart, sku, 1, 2)):
        gateway.clock.advance(hours=3)
        await gateway.result("updateCartItem" if "newQuantity" in given else "addItemToCart", given)
        await gateway.run_jobs()

    assert (await cart_of(gateway, cart))["status"] == "ACTIVE"
