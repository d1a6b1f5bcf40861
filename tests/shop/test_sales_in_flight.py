"""What readers and the doctor see of moves that are decided, and that nobody has concluded yet."""

from __future__ import annotations

import pytest

from portico.resolvers.writes.settler import Settler
from portico.schema.kinds import Kind
from tests.accounts.support.accounts import balances, open_account
from tests.catalog.support.cases import id_and_nonce_of
from tests.shop.support.shop import (
    SHOP_JOBS,
    add_input,
    assert_settled,
    checkout_input,
    full_cart,
    new_cart,
    order_input,
    paid_by,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.harness import MUTATIONS, GatewayClient, assert_invariants, stops
from tests.support.ids import key_in
from tests.support.interruptions import crashing
from tests.support.settling import Never

DAYS = 200


async def test_a_unit_that_was_added_to_a_cart_counts_as_reserved_before_its_move_is_concluded(
    unsettled: GatewayClient,
) -> None:
    sku = await stock_up(unsettled, units=10)
    cart = await new_cart(unsettled)

    for _ in range(3):
        await unsettled.result("addItemToCart", add_input(cart, sku))

    stock = await unsettled.stored("stock", {"_id": sku})
    assert len(stock["under_way"]) == 3
    assert await stock_of(unsettled, sku) == (7, 3, 0)
    await assert_invariants(unsettled)
    await unsettled.run_jobs(*SHOP_JOBS, seconds=6)
    assert await stock_of(unsettled, sku) == (7, 3, 0)
    await assert_settled(unsettled)


@pytest.mark.usefixtures("provider")
async def test_a_sale_shows_in_the_stock_before_its_moves_are_concluded(unsettled: GatewayClient) -> None:
    one, other = [await stock_up(unsettled, units=5) for _ in range(2)]
    cart = await new_cart(unsettled, **{one: 2, other: 1})

    sold = await unsettled.result("checkout", checkout_input(cart))

    assert (sold["__typename"], sold["cart"]["status"]) == ("CheckoutPayload", "COMPLETE")
    assert await unsettled.db["stock"].count_documents({"under_way.kind": "sell"}) == 2
    assert [await stock_of(unsettled, sku) for sku in (one, other)] == [(3, 0, 2), (4, 0, 1)]
    await assert_invariants(unsettled)
    await unsettled.run_jobs(*SHOP_JOBS, seconds=6)
    assert [await stock_of(unsettled, sku) for sku in (one, other)] == [(3, 0, 2), (4, 0, 1)]
    await assert_settled(unsettled)


@pytest.mark.usefixtures("provider")
async def test_a_product_whose_units_are_sold_can_be_deleted_before_their_moves_are_concluded(
    unsettled: GatewayClient,
) -> None:
    cart, sku = await full_cart(unsettled, units=5)
    await unsettled.run_jobs(*SHOP_JOBS, seconds=6)
    await unsettled.result("checkout", checkout_input(cart))

    deleted = await unsettled.result("deleteProduct", await id_and_nonce_of(unsettled, sku))

    assert deleted["__typename"] == "DeletedPayload"
    await assert_invariants(unsettled)


async def test_a_product_whose_units_were_given_back_can_be_deleted_before_their_moves_are_concluded(
    unsettled: GatewayClient,
) -> None:
    cart, sku = await full_cart(unsettled, units=5)
    held = await unsettled.result("deleteProduct", await id_and_nonce_of(unsettled, sku))
    await unsettled.payload("updateCartItem", update_input(cart, sku, 2, 0))

    deleted = await unsettled.result("deleteProduct", await id_and_nonce_of(unsettled, sku))

    assert (held["__typename"], deleted["__typename"]) == ("ProductInUse", "DeletedPayload")
    await assert_invariants(unsettled)


async def test_a_change_to_the_same_quantity_is_the_same_for_every_call_with_the_key(unsettled: GatewayClient) -> None:
    cart, sku = await full_cart(unsettled, units=5)
    given = {**update_input(cart, sku, 2, 2), "idempotencyKey": "the same quantity"}
    assert (await unsettled.result("updateCartItem", given))["__typename"] == "CartPayload"
    await unsettled.result("updateCartItem", update_input(cart, sku, 2, 3))
    # The process of the first call has ended before it stored the outcome.
    unsettled.clock.advance(seconds=31)

    again = await unsettled.result("updateCartItem", given)

    assert again["__typename"] == "CartPayload"
    assert await stock_of(unsettled, sku) == (2, 3, 0)
    await assert_invariants(unsettled)


@pytest.mark.usefixtures("provider")
async def test_an_old_cart_stays_while_the_stock_lists_its_sale(unsettled: GatewayClient) -> None:
    cart, sku = await full_cart(unsettled, units=5)
    await unsettled.run_jobs(*SHOP_JOBS, seconds=6)
    await unsettled.result("checkout", checkout_input(cart))
    key = {"_id": key_in("Cart", cart)}

    await unsettled.run_jobs("delete-carts", hours=24 * DAYS)
    assert await unsettled.db["carts"].find_one(key) is not None
    await unsettled.run_jobs("finish-stock", "delete-carts")

    assert await unsettled.db["carts"].find_one(key) is None
    assert await stock_of(unsettled, sku) == (3, 0, 2)
    await assert_invariants(unsettled)


async def test_a_checkout_by_account_shows_all_its_effects_before_anything_is_settled(gateway: GatewayClient) -> None:
    account, (cart, sku) = await open_account(gateway.db, 5_000), await full_cart(gateway, units=5)
    gateway.state.resources[Settler] = Never()

    await gateway.payload("checkout", paid_by(cart, account))

    assert await stock_of(gateway, sku) == (3, 0, 2)
    assert (await balances(gateway.db, account))[0] < 5_000
    await assert_invariants(gateway)
    await gateway.run_jobs(seconds=40)
    await assert_settled(gateway)


@pytest.mark.sample(2)
@pytest.mark.parametrize("settles", [True, False])
async def test_an_order_can_be_cancelled_wherever_its_checkout_has_stopped(
    gateway: GatewayClient, *, settles: bool
) -> None:
    if not settles:
        gateway.state.resources[Settler] = Never()
    cancelled = 0
    for stop in stops():
        account, (cart, sku) = await open_account(gateway.db, 5_000), await full_cart(gateway, units=5)
        with crashing(gateway, stop) as faulty:
            await gateway.ask(MUTATIONS["checkout"], {"input": paid_by(cart, account)})
        order = await gateway.db["orders"].find_one({"cart_id": key_in("Cart", cart)})
        if order is not None:
            await gateway.payload("cancelOrder", order_input(Kind.encode_id("Order", order["_id"])))
            cancelled += 1
            await assert_invariants(gateway)

        await gateway.run_jobs(seconds=40)
        await gateway.run_jobs(seconds=40)

        left = (await balances(gateway.db, account))[0]
        sold = [one["status"] async for one in gateway.db["orders"].find({"cart_id": key_in("Cart", cart)})]
        expected = (5, 0, 0) if order is not None else (3, 0, 2) if sold else (3, 2, 0)
        assert (await stock_of(gateway, sku), left) == (expected, 3_000 if sold == ["PLACED"] else 5_000), stop
        await assert_settled(gateway)
        if not faulty.has_crashed:
            break
    assert cancelled > 1
