"""The commands that the shop sends: their number, their shards, and their indexes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from portico.gateway.clock import SystemClock
from portico.resolvers.declarations import Job
from tests.accounts.support.accounts import open_account
from tests.catalog.support.cases import id_and_nonce, id_and_nonce_of
from tests.shop.kit import KIT
from tests.shop.support.shop import (
    Provider,
    add_input,
    cart_of_nobody,
    checkout_input,
    new_cart,
    new_order,
    paid_by,
    restock,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.domains import INVARIANTS, JOBS
from tests.support.explaining import explain
from tests.support.harness import MUTATIONS, GatewayClient, create_product
from tests.support.interruptions import crashing
from tests.support.routing import unroutable
from tests.support.selections import shortest
from tests.support.sending import assert_indexed, assert_sends, sent

BUDGETS = KIT.budgets
Given = dict[str, Any]
# These commands go to all shards.
OF_OWNERS = {"find carts owner status", "find orders owner", "find orders ", "find orders status"}
OF_OWNERS |= {"aggregate orders owner", "aggregate orders status"}
# The viewer's active carts, which a call looks for.
OF_CURRENT = {
    "make a cart": {"find carts owner status"},
    "merge a cart": {"find carts _id owner status"},
    "claim a cart": {"find carts _id owner status"},
}


async def scene(gateway: GatewayClient) -> tuple[dict[str, str], dict[str, tuple[str, Given]]]:
    """Return ids of a cart, an order and a SKU, and a call of each mutation by what it does."""
    plenty, last, other = [await stock_up(gateway, units=units) for units in (50, 1, 50)]
    carts = [await new_cart(gateway, **{plenty: 2, other: 1}) for _ in range(4)]
    ordered = (await gateway.result("checkout", checkout_input(carts[0])))["order"]["id"]
    shipped, cancelled = [(await new_order(gateway, **{plenty: 1, other: 1}))["order"]["id"] for _ in range(2)]
    product = await create_product(gateway)
    await restock(gateway, product["sku"], 1)
    unowned = await cart_of_nobody(gateway, **{plenty: 1, other: 1})
    writes: dict[str, tuple[str, Given]] = {
        "make a cart": ("createCart", {}),
        "merge a cart": ("claimCart", {"cartId": unowned}),
        "add to a cart": ("addItemToCart", add_input(carts[1], plenty)),
        "add the last unit to a cart": ("addItemToCart", add_input(carts[1], last)),
        "add too much to a cart": ("addItemToCart", add_input(carts[1], plenty, 900)),
        "change a line": ("updateCartItem", update_input(carts[2], plenty, 2, 1)),
        "check out": ("checkout", checkout_input(carts[1])),
        "check out without luck": ("checkout", checkout_input(carts[2], "decline")),
        "ship an order": ("shipOrder", {"orderId": shipped}),
        "deliver an order": ("deliverOrder", {"orderId": shipped}),
        "cancel an order": ("cancelOrder", {"orderId": cancelled}),
        "restock": ("restock", {"sku": plenty, "quantity": 5, "idempotencyKey": "restock"}),
        "delete a product that a cart holds": ("deleteProduct", await id_and_nonce_of(gateway, other)),
        "delete a product in stock": ("deleteProduct", id_and_nonce(product)),
    }
    return {"cart": carts[3], "order": ordered, "sku": plenty}, writes


READS = {
    "a cart with its products": """
        query ($cart: ID!) { cart(id: $cart) { total { amount } items { quantity product { title pricing {
        retail { amount } } stock { available } } } } }
    """,
    "the viewer's cart": "{ viewer { cart { status items { sku } } } }",
    "the viewer's orders": "{ viewer { orders { nodes { total { amount } items { title } } } } }",
    "the number of the viewer's orders": "{ viewer { orders(first: 1) { totalCount totalCountIsExact } } }",
    "orders of all buyers": "{ orders { nodes { status history { status } items { product { title } } } } }",
    "orders with a status": "{ orders(status: PLACED, last: 10) { nodes { id } } }",
    "orders with a status and their number": "{ orders(status: PLACED, first: 1) { totalCount nodes { id } } }",
    "a cart and an order by id": "query ($cart: ID!, $order: ID!) { nodes(ids: [$cart, $order]) { id } }",
    "a list of products with their stock": "{ products(first: 100) { nodes { sku stock { available reserved } } } }",
}


async def assert_in_budget(gateway: GatewayClient, name: str, mutation: str, given: Given) -> None:
    """Asserts that a call sends the indexed commands of its budget, and each to one shard."""
    astray = await assert_sends(gateway, gateway.data(shortest(mutation), {"input": given}), BUDGETS[name], name)
    assert set(astray) <= OF_CURRENT.get(name, set()), name


@pytest.mark.usefixtures("provider")
async def test_every_read_sends_the_indexed_commands_of_its_budget(gateway: GatewayClient) -> None:
    known, _ = await scene(gateway)
    for name, text in READS.items():
        variables = {key: value for key, value in known.items() if f"${key}" in text}
        astray = await assert_sends(gateway, gateway.data(text, variables), BUDGETS[name], name)

        assert set(astray) <= {*OF_OWNERS, "find products terms"}, name


async def test_a_checkout_by_account_sends_the_commands_of_its_budget(gateway: GatewayClient) -> None:
    account, sku = await open_account(gateway.db, 90_000), await stock_up(gateway)
    carts = [await new_cart(gateway, **{sku: 1}) for _ in range(2)]
    given = [paid_by(cart, account) for cart in carts]
    # The first one opens the account of the shop.
    await gateway.result("checkout", given[0])

    await assert_in_budget(gateway, "check out by account", "checkout", given[1])


async def test_claiming_the_first_cart_sends_the_commands_of_its_budget(gateway: GatewayClient) -> None:
    given = {"cartId": await cart_of_nobody(gateway)}

    await assert_in_budget(gateway, "claim a cart", "claimCart", given)


@pytest.mark.usefixtures("provider")
async def test_every_mutation_sends_the_commands_of_its_budget_and_each_to_one_shard(gateway: GatewayClient) -> None:
    _, writes = await scene(gateway)
    for name, (mutation, given) in writes.items():
        await assert_in_budget(gateway, name, mutation, given)


async def test_jobs_and_checks_use_indexes_and_write_to_one_shard(gateway: GatewayClient, provider: Provider) -> None:
    sku = await stock_up(gateway, units=30)
    carts = [await new_cart(gateway, **{sku: 1}) for _ in range(5)]
    await gateway.result("checkout", checkout_input(carts[0], "hang"))
    for number, stop in enumerate((1, 2, 3, 4)):
        with crashing(gateway, stop):
            await gateway.ask(MUTATIONS["addItemToCart"], {"input": add_input(carts[number + 1], sku)})
    product = await create_product(gateway)
    with crashing(gateway, 2):
        await gateway.ask(MUTATIONS["deleteProduct"], {"input": id_and_nonce(product)})
    provider.is_back = True
    gateway.commands.clear()

    for advance in (timedelta(seconds=31), timedelta(hours=5)):
        for job in JOBS:
            await job.run(Job.Run(gateway.db, gateway.clock.now() + advance, gateway.state.resources))
    for invariant in INVARIANTS:
        assert [problem async for problem in invariant.check(gateway.db)] == []

    commands = list(gateway.commands.sent)
    asked_of_all = {found for found in unroutable(commands) if found.split()[1] in {"stock", "carts", "orders"}}
    # That is sent for orders with several lines, of which there is none.
    assert asked_of_all == set(KIT.scattered) - {"find orders items.sku"}
    assert (await stock_of(gateway, sku))[1:] == (0, 1)
    shop = [command for command in commands if command[next(iter(command))] in {"stock", "carts", "orders"}]
    await assert_indexed(gateway, shop)


async def test_a_product_in_ten_thousand_carts_is_no_slower_to_sell(gateway: GatewayClient) -> None:
    """The number of carts with a SKU affects neither the size of its stock document nor the cost of a sale."""
    few, many = [await stock_up(gateway, units=20_000) for _ in range(2)]
    line = {"sku": many, "title": "T", "price": 1, "currency": "USD", "quantity": 1}
    held: list[Given] = [
        {
            "_id": f"{number:032x}",
            "owner": None,
            "status": "ACTIVE",
            "items": [line],
            "currency": "USD",
            "last_modified": SystemClock().now(),
            "expires_at": SystemClock().now() + timedelta(hours=1),
            "version": 1,
            "holding": True,
        }
        for number in range(10_000)
    ]
    await gateway.db["carts"].insert_many(held)
    await gateway.db["stock"].update_one({"_id": many}, {"$inc": {"available": -10_000, "reserved": 10_000}})
    cost: dict[str, list[tuple[int, int]]] = {}
    for sku in (few, many):
        cart = await new_cart(gateway)
        commands = await sent(gateway, gateway.result("addItemToCart", add_input(cart, sku)))
        found = [plan for command in commands for plan in await explain(gateway.db, command)]
        cost[sku] = [(plan.documents_examined, plan.keys_examined) for plan in found]
        stock = await gateway.stored("stock", {"_id": sku})
        assert stock["under_way"] == []

    assert cost[few] == cost[many]
    assert sum(documents for documents, _ in cost[many]) <= len(cost[many])
    for invariant in INVARIANTS:
        assert [problem async for problem in invariant.check(gateway.db)] == []
