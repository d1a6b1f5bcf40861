"""What `portico doctor` says of the stock and the carts, and how it mends them."""

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
from portico.resolvers.domains import Problem
from portico.resolvers.payments import PaymentMethods
from portico.resolvers.shop import stock_checks
from portico.resolvers.shop.checkout import finish
from portico.resolvers.shop.stock_checks import find_wrong_stocks
from tests.support.domains import INVARIANTS
from tests.support.harness import IS_SOAK, MUTATIONS, GatewayClient, SettableClock, assert_invariants, run_jobs
from tests.support.interruptions import before_every_command, crashing, database_of, delayed, interrupted, stopping
from tests.support.shop import (
    Given,
    add_input,
    cart_of_nobody,
    checkout_input,
    new_cart,
    stock_of,
    stock_up,
    update_input,
)


async def problems(gateway: GatewayClient) -> list[Problem]:
    return await problems_of(gateway.db)


async def problems_of(db: Database) -> list[Problem]:
    return [problem for invariant in INVARIANTS async for problem in invariant.check(db)]


async def mend(gateway: GatewayClient) -> None:
    for problem in await problems(gateway):
        if problem.repair is not None:
            await problem.repair()


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ({"reserved": 2, "available": -2}, "4 are reserved, and 2 in carts"),
        ({"reserved": -2, "available": 2}, "0 are reserved, and 2 in carts"),
        ({"sold": 1, "available": -1}, "4 are sold, and 3 in orders"),
        ({"available": 7}, "its counters do not add up to the 10 that were restocked"),
        ({"available": -6, "sold": 6}, "a counter is below zero"),
    ],
)
@pytest.mark.usefixtures("provider")
async def test_counters_that_are_wrong_are_found_and_mended(
    gateway: GatewayClient, damage: dict[str, int], text: str
) -> None:
    sku, other = await stock_up(gateway), await stock_up(gateway)
    await gateway.result("checkout", checkout_input(await new_cart(gateway, **{sku: 3})))
    await new_cart(gateway, **{sku: 2, other: 1})
    await gateway.db["stock"].update_one({"_id": sku}, {"$inc": damage})

    found = [(problem.subject, problem.text) for problem in await problems(gateway)]
    await mend(gateway)

    assert found == [(f"stock of {sku}", text)]
    assert await stock_of(gateway, sku) == (5, 2, 3)
    await assert_invariants(gateway)


async def test_mending_tells_the_product_that_it_has_sold_out(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=2)
    await new_cart(gateway, **{sku: 1})
    (cart,) = await gateway.db["carts"].find({}).to_list()
    await gateway.db["carts"].update_one({"_id": cart["_id"]}, {"$set": {"items.0.quantity": 2}})

    await mend(gateway)

    product = await gateway.db["products"].find_one({"sku": sku})
    assert product is not None
    assert product["in_stock"] is False
    assert await stock_of(gateway, sku) == (0, 2, 0)
    await assert_invariants(gateway)


async def test_what_nobody_can_know_is_not_mended(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=2)
    await new_cart(gateway, **{sku: 1})
    await gateway.db["carts"].update_one({"items.sku": sku}, {"$set": {"items.0.quantity": 9}})
    await gateway.db["carts"].update_one({"items.sku": sku}, {"$push": {"items": {"sku": "lost", "quantity": 1}}})

    found = await problems(gateway)

    assert [problem.text for problem in found] == [
        "1 are reserved, and 9 in carts",
        "it holds units of lost, which has no stock",
    ]
    assert [problem.repair for problem in found] == [None, None]


async def test_a_repair_leaves_alone_what_has_changed_since_it_was_found(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    cart = await new_cart(gateway, **{sku: 2})
    await gateway.db["stock"].update_one({"_id": sku}, {"$inc": {"reserved": 1, "available": -1}})
    (wrong,) = await problems(gateway)
    await gateway.result("addItemToCart", add_input(cart, sku, 3))

    assert wrong.repair is not None
    await wrong.repair()

    assert await stock_of(gateway, sku) == (4, 6, 0)
    await mend(gateway)
    assert await stock_of(gateway, sku) == (5, 5, 0)


async def test_what_a_crash_has_left_is_no_problem_but_what_is_wrong_beside_it_is(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    sku = await stock_up(gateway)
    cart = await new_cart(gateway, **{sku: 2})
    calls: list[tuple[str, Given]] = [
        ("addItemToCart", add_input(cart, sku)),
        ("updateCartItem", update_input(cart, sku, 2, 1)),
    ]
    for stop in (3, 4, 5):
        for mutation, given in calls:
            with crashing(gateway, stop):
                await gateway.ask(MUTATIONS[mutation], {"input": given})
    left = await gateway.db["stock"].find_one({"_id": sku})
    assert left is not None
    assert len(left["under_way"]) > 1

    before = await problems(gateway)
    await gateway.db["stock"].update_one({"_id": sku}, {"$inc": {"sold": 1, "available": -1}})
    found = await problems(gateway)

    assert before == []
    assert [(problem.text, problem.repair) for problem in found] == [("1 are sold, and 0 in orders", None)]
    clock.advance(seconds=6)
    await run_jobs(gateway, clock)
    await mend(gateway)
    await assert_invariants(gateway)


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("stop", range(3, 10))
async def test_a_checkout_that_stopped_anywhere_is_no_problem(gateway: GatewayClient, stop: int) -> None:
    sku = await stock_up(gateway)
    cart = await new_cart(gateway, **{sku: 2})

    with crashing(gateway, stop):
        await gateway.ask(MUTATIONS["checkout"], {"input": checkout_input(cart)})

    await assert_invariants(gateway)


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("until", [1, 2, 3, 4, 5, 6, None] if IS_SOAK else [2, None])
async def test_a_checkout_that_goes_on_while_the_stock_is_looked_at_is_no_problem(
    gateway: GatewayClient, clock: SettableClock, until: int | None
) -> None:
    sku = await stock_up(gateway, units=1_000)

    async def go_on(steps: int | None) -> None:
        locked = await gateway.db["carts"].find_one({"status": "PENDING"})
        assert locked is not None
        with stopping():
            db = cast("Database", FaultyDatabase(gateway.db, steps))
            await finish(db, gateway.state.resources.of(PaymentMethods), locked, now=clock.now())

    for stop in range(4, 9):
        for skip in range(11) if IS_SOAK else range(stop % 2, 11, 2):
            given = checkout_input(await new_cart(gateway, **{sku: 2}))
            with crashing(gateway, stop):
                await gateway.ask(MUTATIONS["checkout"], {"input": given})
            watched = interrupted(gateway.db, None, None, partial(go_on, until), skip=skip)
            assert [wrong async for wrong in find_wrong_stocks(watched)] == []
            if await gateway.db["carts"].find_one({"status": "PENDING"}):
                await go_on(None)
    await assert_invariants(gateway)


async def test_a_stock_that_never_stands_still_is_told_of_and_no_problem(
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
    (told,) = await problems_of(restless)

    assert (told.subject, told.repair, told.is_open) == (f"stock of {sku}", None, True)
    assert sum(lefts) == 0
    assert f"stock of {sku}: it changed whenever it was looked at\n" in printed.getvalue()
    assert "1 changed during the check: check again when there are fewer writes.\n" in printed.getvalue()
    assert {line[:4] for line in printed.getvalue().splitlines() if line[:1] != " "} == {"ok  "}


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("pace", [0, 0.005])
async def test_a_shop_in_use_is_no_problem(gateway: GatewayClient, pace: float) -> None:
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
            for _ in range(20 if IS_SOAK else 2):
                assert [problem for problem in await problems_of(slow) if not problem.is_open] == []
        finally:
            is_over = True
            await asyncio.gather(*buyers)
    await assert_invariants(gateway)
