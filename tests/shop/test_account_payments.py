"""Payments by account: the shop gets the money exactly once, or the buyer keeps it. The kit has the crashes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from portico.gateway.clock import SystemClock
from portico.resolvers.shop.account_payments import open_shop_account, shop_account_id
from portico.schema.kinds import Kind
from tests.accounts.support.accounts import assert_money, balances, open_account, transfer_input
from tests.shop.support.shop import (
    SHOP_JOBS,
    add_input,
    anonymously,
    assert_nothing_in_flight,
    cart_of,
    full_cart,
    new_cart,
    paid_by,
    stock_of,
    stock_up,
)
from tests.support.harness import MUTATIONS, GatewayClient, assert_invariants
from tests.support.ids import key_in
from tests.support.interruptions import crashing
from tests.support.moments import meanwhile

PRICE = 1000
SHOP = Kind.encode_id("Account", shop_account_id("USD"))


async def assert_unsold(gateway: GatewayClient, cart: str, sku: str) -> None:
    assert (await cart_of(gateway, cart))["status"] == "ACTIVE"
    assert await stock_of(gateway, sku) == (8, 2, 0)
    await assert_nothing_in_flight(gateway.db)


async def test_the_total_is_transferred_from_the_account_of_the_buyer_to_the_shop(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, 5 * PRICE)
    cart, sku = await full_cart(gateway)

    done = await gateway.result("checkout", paid_by(cart, account))

    assert done["__typename"] == "CheckoutPayload"
    (record,) = await gateway.db["transfers"].find({"source": {"$ne": None}}).to_list()
    assert done["order"]["paymentReference"] == f"transfer-{record['_id']}"
    assert await balances(gateway.db, account, SHOP) == [3 * PRICE, 2 * PRICE]
    assert await stock_of(gateway, sku) == (8, 0, 2)
    await assert_money(gateway, 5 * PRICE)


async def test_the_buyer_sees_the_transfer_and_only_the_name_of_the_shop(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, 5 * PRICE)
    cart, _ = await full_cart(gateway)
    done = await gateway.result("checkout", paid_by(cart, account))
    transfer = Kind.encode_id("Transfer", done["order"]["paymentReference"].removeprefix("transfer-"))
    text = "query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Transfer { destination { name } } } }"

    assert await gateway.data(text, {"ids": [transfer, SHOP]}) == {
        "nodes": [{"destination": {"name": "The shop"}}, None]
    }
    assert await gateway.data(text, {"ids": [transfer, SHOP]}, token=None) == {"nodes": [None, None]}


async def test_a_payment_without_enough_money_keeps_the_cart_and_can_be_made_later(gateway: GatewayClient) -> None:
    account, full = await open_account(gateway.db, 2 * PRICE - 1), await open_account(gateway.db, 10)
    cart, sku = await full_cart(gateway)
    given = paid_by(cart, account)

    refused = await gateway.result("checkout", given)
    await assert_unsold(gateway, cart, sku)
    await gateway.result("transfer", transfer_input(full, account, 1))
    again = await gateway.result("checkout", given)
    paid = await gateway.result("checkout", paid_by(cart, account))

    # A retry gets the stored answer. A call with another key is another checkout.
    assert refused == again
    assert refused["__typename"] == "InsufficientFunds"
    assert paid["__typename"] == "CheckoutPayload"
    assert await balances(gateway.db, account, SHOP) == [0, 2 * PRICE]


async def test_only_the_buyers_own_account_in_the_currency_of_the_cart_can_pay(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway)
    theirs = await open_account(gateway.db, 5 * PRICE, owner="another")
    euros = await open_account(gateway.db, 5 * PRICE, currency="EUR")
    nothing = Kind.encode_id("Account", "0" * 24)

    outcome = [await gateway.result("checkout", paid_by(cart, account)) for account in (theirs, SHOP, nothing, euros)]

    assert [one["__typename"] for one in outcome] == ["NotFound", "NotFound", "NotFound", "PaymentDeclined"]
    assert outcome[3]["message"] == "The account is in EUR, the cart in USD."
    await assert_unsold(gateway, cart, sku)
    await assert_money(gateway, 10 * PRICE)


async def test_an_anonymous_caller_cannot_pay_by_account(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, 5 * PRICE)
    sku = await stock_up(gateway, price=PRICE)
    cart = (await anonymously(gateway, "createCart", {}))["cart"]["id"]
    await anonymously(gateway, "addItemToCart", add_input(cart, sku))

    outcome = await anonymously(gateway, "checkout", paid_by(cart, account))

    assert outcome["__typename"] == "NotFound"
    assert await balances(gateway.db, account) == [5 * PRICE]


async def test_a_free_cart_is_bought_without_money(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db)
    cart, _ = await full_cart(gateway, price=0)

    assert (await gateway.result("checkout", paid_by(cart, account)))["__typename"] == "CheckoutPayload"
    await assert_money(gateway, 0)


async def test_a_checkout_whose_cart_changes_before_the_lock_pays_for_the_changed_cart(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, 5 * PRICE)
    await open_shop_account(gateway.db, "USD", now=SystemClock().now())
    cart, sku = await full_cart(gateway)

    change = partial(gateway.payload, "addItemToCart", add_input(cart, sku))
    with meanwhile(gateway, change, "carts", "find_one_and_update"):
        done = await gateway.result("checkout", paid_by(cart, account))

    assert done["order"]["total"] == {"amount": 3 * PRICE}
    assert await balances(gateway.db, account, SHOP) == [2 * PRICE, 3 * PRICE]
    assert await stock_of(gateway, sku) == (7, 0, 3)
    await assert_nothing_in_flight(gateway.db)
    await assert_money(gateway, 5 * PRICE)


async def test_the_money_of_a_checkout_is_free_again_if_its_cart_is_bought_by_another_call(
    gateway: GatewayClient,
) -> None:
    rich, poor = await open_account(gateway.db, 5 * PRICE), await open_account(gateway.db, 2 * PRICE)
    await open_shop_account(gateway.db, "USD", now=SystemClock().now())
    cart, sku = await full_cart(gateway)

    buy = partial(gateway.payload, "checkout", paid_by(cart, rich))
    with meanwhile(gateway, buy, "carts", "find_one_and_update"):
        late = await gateway.result("checkout", paid_by(cart, poor))

    assert (late["__typename"], late["status"]) == ("CartInactive", "COMPLETE")
    stored = await gateway.stored("accounts", {"_id": key_in("Account", poor)})
    assert (stored["balance"], stored["pending"]) == (2 * PRICE, [])
    assert await balances(gateway.db, rich, SHOP) == [3 * PRICE, 2 * PRICE]
    assert await stock_of(gateway, sku) == (8, 0, 2)
    await assert_money(gateway, 7 * PRICE)


async def test_a_sold_cart_gets_its_order_before_the_stock_counts_the_sale(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, 5 * PRICE)
    await open_shop_account(gateway.db, "USD", now=SystemClock().now())
    cart, sku = await full_cart(gateway)
    given, other = paid_by(cart, account), paid_by(await new_cart(gateway, **{sku: 1}), account)
    with crashing(gateway, None) as faulty:
        await gateway.result("checkout", other)
    # The call crashes when the cart is sold, and its order is not written.
    last = faulty.changes.index(("orders", "insert_one"))
    assert faulty.changes[last - 1] == ("carts", "find_one_and_update")
    with crashing(gateway, last):
        await gateway.ask(MUTATIONS["checkout"], {"input": given})
    assert (await cart_of(gateway, cart))["status"] == "COMPLETE"
    assert await gateway.db["orders"].count_documents({}) == 1
    await assert_invariants(gateway)

    await gateway.run_jobs("finish-stock", seconds=6)

    assert await gateway.db["orders"].count_documents({}) == 2
    assert await stock_of(gateway, sku) == (7, 0, 3)
    await assert_invariants(gateway)
    await gateway.run_jobs("finish-checkouts")
    assert await gateway.db["carts"].find_one({"due": {"$exists": True}}) is None
    gateway.clock.advance(seconds=31)
    assert (await gateway.result("checkout", given))["__typename"] == "CheckoutPayload"


async def test_concurrent_checkouts_succeed_until_the_money_is_spent(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, 7 * PRICE)
    sku = await stock_up(gateway, units=20, price=PRICE)
    carts = [await new_cart(gateway, **{sku: 1}) for _ in range(12)]

    outcome = await asyncio.gather(*(gateway.result("checkout", paid_by(cart, account)) for cart in carts))

    assert sorted(one["__typename"] for one in outcome) == ["CheckoutPayload"] * 7 + ["InsufficientFunds"] * 5
    assert await balances(gateway.db, account, SHOP) == [0, 7 * PRICE]
    assert await stock_of(gateway, sku) == (8, 5, 7)
    await assert_nothing_in_flight(gateway.db)
    await assert_money(gateway, 7 * PRICE)


async def test_a_checkout_that_is_paid_pays_the_shop_when_its_account_that_disappeared_is_back(
    gateway: GatewayClient,
) -> None:
    account = await open_account(gateway.db, 5 * PRICE)
    cart, sku = await full_cart(gateway)
    given = paid_by(cart, account)
    stored = gateway.db["accounts"]
    removed: list[Any] = []

    async def remove() -> None:
        removed.append(await stored.find_one_and_delete({"_id": key_in("Account", SHOP)}))

    # The transfer is decided by then, and its notes are about to be removed.
    with meanwhile(gateway, remove, "accounts", "bulk_write", skip=1):
        outcome = await gateway.result("checkout", given)
    status = (await cart_of(gateway, cart))["status"]
    await stored.insert_many(removed)
    await gateway.run_jobs(*SHOP_JOBS, seconds=31)

    assert (outcome["__typename"], status) == ("CheckoutPayload", "COMPLETE")
    assert (await gateway.result("checkout", given))["__typename"] == "CheckoutPayload"
    assert await balances(gateway.db, account, SHOP) == [3 * PRICE, 2 * PRICE]
    assert await stock_of(gateway, sku) == (8, 0, 2)
    await assert_money(gateway, 5 * PRICE)
