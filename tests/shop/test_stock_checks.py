"""The problems of the stock and the carts that `portico doctor` reports, and the repairs."""

from __future__ import annotations

import asyncio
import io
import random
from functools import partial
from typing import cast

import pytest
from rich.console import Console

from portico.gateway.cli.data import check_invariant
from portico.gateway.mongo.faults import FaultyDatabase
from portico.resolvers.documents import Database
from portico.resolvers.problems import Problem
from portico.resolvers.shop import stock_checks
from portico.resolvers.shop.checkout import finish
from portico.resolvers.shop.payments import PaymentMethods
from portico.resolvers.shop.stock_checks import find_wrong_stocks
from tests.shop.support.shop import (
    Given,
    add_input,
    cart_of_nobody,
    checkout_input,
    full_cart,
    new_cart,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.domains import INVARIANTS
from tests.support.harness import IS_SOAK, MUTATIONS, GatewayClient, assert_invariants
from tests.support.interruptions import before_every_command, crashing, database_of, delayed, interrupted, stopping


async def problems(gateway: GatewayClient) -> list[Problem]:
    return await problems_of(gateway.db)


async def problems_of(db: Database) -> list[Problem]:
    return [problem for invariant in INVARIANTS async for problem in invariant.check(db)]


async def repair_all(gateway: GatewayClient) -> None:
    for problem in await problems(gateway):
        if problem.repair is not None:
            await problem.repair()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ({"reserved": 2, "available": -2}, "4 units are reserved, but 2 are in carts"),
        ({"reserved": -2, "available": 2}, "0 units are reserved, but 2 are in carts"),
        ({"sold": 1, "available": -1}, "4 units are sold, but 3 are in orders"),
        ({"available": 7}, "its counters do not add up to the 10 that were restocked"),
        ({"available": -6, "sold": 6}, "a counter is below zero"),
    ],
)
@pytest.mark.usefixtures("provider")
async def test_wrong_counters_are_reported_and_repaired(
    gateway: GatewayClient, damage: dict[str, int], text: str
) -> None:
    sku, other = await stock_up(gateway), await stock_up(gateway)
    await gateway.result("checkout", checkout_input(await new_cart(gateway, **{sku: 3})))
    await new_cart(gateway, **{sku: 2, other: 1})
    await gateway.db["stock"].update_one({"_id": sku}, {"$inc": damage})

    found = [(problem.subject, problem.text) for problem in await problems(gateway)]
    await repair_all(gateway)

    assert found == [(f"stock of {sku}", text)]
    assert await stock_of(gateway, sku) == (5, 2, 3)
    await assert_invariants(gateway)


async def test_a_repair_marks_a_sold_out_product(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=2)
    await new_cart(gateway, **{sku: 1})
    (cart,) = await gateway.db["carts"].find({}).to_list()
    await gateway.db["carts"].update_one({"_id": cart["_id"]}, {"$set": {"items.0.quantity": 2}})

    await repair_all(gateway)

    product = await gateway.stored("products", {"sku": sku})
    assert product["in_stock"] is False
    assert await stock_of(gateway, sku) == (0, 2, 0)
    await assert_invariants(gateway)


async def test_problems_without_a_certain_repair_are_not_repaired(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=2)
    await new_cart(gateway, **{sku: 1})
    await gateway.db["carts"].update_one({"items.sku": sku}, {"$set": {"items.0.quantity": 9}})
    await gateway.db["carts"].update_one({"items.sku": sku}, {"$push": {"items": {"sku": "lost", "quantity": 1}}})

    found = await problems(gateway)

    assert [problem.text for problem in found] == [
        "1 units are reserved, but 9 are in carts",
        "it holds units of lost, which has no stock",
    ]
    assert [problem.repair for problem in found] == [None, None]


async def test_a_repair_skips_a_stock_that_has_changed_since_the_check(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway)
    await gateway.db["stock"].update_one({"_id": sku}, {"$inc": {"reserved": 1, "available": -1}})
    (wrong,) = await problems(gateway)
    await gateway.result("addItemToCart", add_input(cart, sku, 3))

    assert wrong.repair is not None
    await wrong.repair()

    assert await stock_of(gateway, sku) == (4, 6, 0)
    await repair_all(gateway)
    assert await stock_of(gateway, sku) == (5, 5, 0)


async def test_remains_of_a_crash_are_not_reported_but_problems_beside_them_are(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway)
    calls: list[tuple[str, Given]] = [
        ("addItemToCart", add_input(cart, sku)),
        ("updateCartItem", update_input(cart, sku, 2, 1)),
    ]
    for stop in (1, 2, 3, 4):
        for mutation, given in calls:
            with crashing(gateway, stop):
                await gateway.ask(MUTATIONS[mutation], {"input": given})
    left = await gateway.stored("stock", {"_id": sku})
    assert len(left["under_way"]) > 1

    before = await problems(gateway)
    await gateway.db["stock"].update_one({"_id": sku}, {"$inc": {"sold": 1, "available": -1}})
    found = await problems(gateway)

    assert before == []
    assert [(problem.text, problem.repair) for problem in found] == [("1 units are sold, but 0 are in orders", None)]
    await gateway.run_jobs(seconds=6)
    await repair_all(gateway)
    await assert_invariants(gateway)


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("until", [1, 2, 3, 4, 5, 6, None] if IS_SOAK else [2, None])
async def test_a_checkout_that_proceeds_during_a_check_is_not_reported(
    gateway: GatewayClient, until: int | None
) -> None:
    sku = await stock_up(gateway, units=1_000)

    async def go_on(steps: int | None) -> None:
        locked = await gateway.stored("carts", {"status": "PENDING"})
        with stopping():
            db = cast("Database", FaultyDatabase(gateway.db, steps))
            await finish(db, gateway.state.resources.of(PaymentMethods), locked, now=gateway.clock.now())

    # The next change completes the cart.
    for stop in range(2, 5):
        for skip in range(11) if IS_SOAK else range(stop % 2, 11, 2):
            given = checkout_input(await new_cart(gateway, **{sku: 2}))
            with crashing(gateway, stop):
                await gateway.ask(MUTATIONS["checkout"], {"input": given})
            watched = interrupted(gateway.db, None, None, partial(go_on, until), skip=skip)
            assert [wrong async for wrong in find_wrong_stocks(watched)] == []
            if await gateway.db["carts"].find_one({"status": "PENDING"}):
                await go_on(None)
    await assert_invariants(gateway)


async def test_a_stock_that_changes_constantly_is_reported_as_open(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stock_checks, "_LOOKS", 3)
    sku = await stock_up(gateway)
    await gateway.db["stock"].update_one({"_id": sku}, {"$inc": {"reserved": 1}})

    async def change() -> None:
        await gateway.db["stock"].update_one({"_id": sku}, {"$inc": {"version": 1}})

    printed = io.StringIO()
    restless = before_every_command(gateway.db, change)
    lefts = [await check_invariant(restless, invariant, Console(file=printed), repair=True) for invariant in INVARIANTS]
    (outcome,) = await problems_of(restless)

    assert (outcome.subject, outcome.repair, outcome.is_open) == (f"stock of {sku}", None, True)
    assert sum(lefts) == 0
    assert f"stock of {sku}: it changed during every check\n" in printed.getvalue()
    assert "1 changed during the check: check again when there are fewer writes.\n" in printed.getvalue()
    assert {line[:4] for line in printed.getvalue().splitlines() if line[:1] != " "} == {"ok  "}


@pytest.mark.sample(2)
@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("pace", [0, 0.005])
async def test_a_shop_in_use_has_no_problems(gateway: GatewayClient, pace: float) -> None:
    skus = [await stock_up(gateway, units=10_000) for _ in range(2)]
    is_over = False

    async def buy(number: int) -> None:
        while not is_over:
            cart = await cart_of_nobody(gateway, **{skus[number % 2]: 2})
            await gateway.result("updateCartItem", update_input(cart, skus[number % 2], 2, 1))
            await gateway.result("checkout", checkout_input(cart))

    slow = delayed(gateway.db, random.Random(7), pace)
    with database_of(gateway, slow):
        buyers = [asyncio.create_task(buy(number)) for number in range(6)]
        try:
            for _ in range(20 if IS_SOAK else 1):
                assert [problem for problem in await problems_of(slow) if not problem.is_open] == []
        finally:
            is_over = True
            await asyncio.gather(*buyers)
    await assert_invariants(gateway)
