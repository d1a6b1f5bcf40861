"""Concurrent buyers: no unit is sold twice or lost, and each answer is true."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest

from portico.gateway.mongo.faults import FaultyDatabase
from portico.resolvers.documents import Database
from portico.resolvers.shop import cart_jobs, moves, stock_jobs
from portico.schema.kinds import Kind
from tests.catalog.support.cases import id_and_nonce_of
from tests.shop.support.shop import (
    Provider,
    add_input,
    anonymously,
    assert_nothing_in_flight,
    assert_settled,
    cart_of,
    cart_of_nobody,
    checkout_input,
    full_cart,
    new_cart,
    quantities,
    restock,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.domains import DOMAINS
from tests.support.harness import IS_SOAK, GatewayClient, assert_invariants, create_product, new_key
from tests.support.interruptions import before_every_command, database_of, delayed, interrupted
from tests.support.outcomes import kinds
from tests.support.selections import shortest

# The number of concurrent calls, and of the buyers of the last units.
AT_ONCE, BUYERS = (200, 500) if IS_SOAK else (30, 100)


async def all_of(calls: list[Awaitable[Any]]) -> list[Any]:
    """Return the answers to the calls, of which at most AT_ONCE run concurrently."""
    line = asyncio.Semaphore(AT_ONCE)

    async def in_line(call: Awaitable[Any]) -> Any:
        async with line:
            return await call

    return list(await asyncio.gather(*map(in_line, calls)))


async def test_10_of_many_buyers_get_the_10_units_and_all_others_are_refused(
    gateway: GatewayClient, provider: Provider
) -> None:
    sku = await stock_up(gateway, units=10)

    async def buy() -> str:
        cart = await cart_of_nobody(gateway)
        added = await anonymously(gateway, "addItemToCart", add_input(cart, sku))
        if added["__typename"] != "CartPayload":
            return str(added["__typename"])
        return str((await anonymously(gateway, "checkout", checkout_input(cart)))["__typename"])

    outcome = Counter(await all_of([buy() for _ in range(BUYERS)]))

    assert outcome == {"CheckoutPayload": 10, "InadequateInventory": BUYERS - 10}
    assert await stock_of(gateway, sku) == (0, 0, 10)
    assert len(provider.taken) == 10
    assert await gateway.db["orders"].count_documents({}) == 10
    await assert_settled(gateway)


async def test_concurrent_changes_of_one_line_keep_cart_and_stock_consistent(gateway: GatewayClient) -> None:
    cart, sku = await full_cart(gateway, 5, units=50)
    rng = random.Random(11)
    for _ in range(30 if IS_SOAK else 10):
        present = quantities(await cart_of(gateway, cart)).get(sku, 0)
        wanted = [rng.choice([number for number in range(12) if number != present]) for _ in range(2)]

        answers = await asyncio.gather(
            *(gateway.result("updateCartItem", update_input(cart, sku, present, number)) for number in wanted)
        )

        left = quantities(await cart_of(gateway, cart)).get(sku, 0)
        kinds = [answer["__typename"] for answer in answers]
        # The second change finds another quantity than its `oldQuantity`.
        assert sorted(kinds) == ["CartPayload", "Conflict"]
        assert left == wanted[kinds.index("CartPayload")]
        assert await stock_of(gateway, sku) == (50 - left, left, 0)
    await assert_settled(gateway)


async def test_concurrent_additions_to_one_cart_all_count(gateway: GatewayClient) -> None:
    skus = [await stock_up(gateway, units=40) for _ in range(2)]
    cart = await new_cart(gateway)

    answers = await asyncio.gather(
        *(gateway.result("addItemToCart", add_input(cart, skus[number % 2])) for number in range(40))
    )

    assert {answer["__typename"] for answer in answers} == {"CartPayload"}
    assert quantities(await cart_of(gateway, cart)) == dict.fromkeys(skus, 20)
    assert [await stock_of(gateway, sku) for sku in skus] == [(20, 20, 0)] * 2
    await assert_nothing_in_flight(gateway.db)


async def test_a_cart_that_changes_during_its_checkout_is_sold_as_it_was_paid(
    gateway: GatewayClient, provider: Provider
) -> None:
    sku = await stock_up(gateway, units=100)
    for _ in range(10 if IS_SOAK else 5):
        cart = await new_cart(gateway, **{sku: 2})

        *_, done = await asyncio.gather(
            *(gateway.result("addItemToCart", add_input(cart, sku)) for _ in range(3)),
            gateway.result("checkout", checkout_input(cart)),
        )

        assert quantities(await cart_of(gateway, cart)) == {
            line["sku"]: line["quantity"] for line in done["order"]["items"]
        }
    assert sum(provider.taken.values()) == 1000 * (await stock_of(gateway, sku))[2]
    await assert_settled(gateway)


async def test_concurrent_restocks_all_count_and_never_remove_more_than_available(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=0)
    await asyncio.gather(*(restock(gateway, sku, 3) for _ in range(20)))

    answers = await asyncio.gather(*(restock(gateway, sku, -7) for _ in range(20)))

    outcome = kinds(answers)
    assert outcome == {"StockPayload": 8, "InadequateInventory": 12}
    assert await stock_of(gateway, sku) == (4, 0, 0)
    await assert_invariants(gateway)


async def test_a_product_is_either_deleted_or_put_into_a_cart(gateway: GatewayClient) -> None:
    for _ in range(15 if IS_SOAK else 8):
        product = await create_product(gateway)
        await restock(gateway, product["sku"], 1)
        cart = await new_cart(gateway)

        added, deleted = await asyncio.gather(
            gateway.result("addItemToCart", add_input(cart, product["sku"])),
            gateway.result("deleteProduct", {"id": product["id"], "nonce": product["nonce"]}),
        )

        in_cart = quantities(await cart_of(gateway, cart))
        is_there = await gateway.db["products"].find_one({"sku": product["sku"]}) is not None
        assert (added["__typename"] == "CartPayload") == bool(in_cart) == is_there
        assert deleted["__typename"] == ("ProductInUse" if in_cart else "DeletedPayload")
        stock = await gateway.stored("stock", {"_id": product["sku"]})
        assert (stock["available"], stock["reserved"]) == ((0, 1) if in_cart else (0, 0))
    await assert_settled(gateway)


@pytest.mark.usefixtures("provider")
async def test_in_a_busy_shop_every_unit_ends_in_one_place(gateway: GatewayClient) -> None:
    rng = random.Random(5)
    skus = [await stock_up(gateway, units=30) for _ in range(4)]
    carts = [await new_cart(gateway) for _ in range(12)]
    outcome: Counter[str] = Counter()

    async def run_jobs_meanwhile() -> None:
        for _ in range(6):
            await gateway.run_jobs(hours=rng.choice([0, 0, 5]), seconds=31)
            await asyncio.sleep(0.1)

    tokens = ("accept", "decline", "lost")
    shoppers = [shop_at_random(gateway, rng, skus, carts, outcome, tokens) for _ in range(12)]
    await asyncio.gather(*shoppers, run_jobs_meanwhile())
    for _ in range(3):
        await gateway.run_jobs(hours=5)

    for sku in skus:
        assert (await stock_of(gateway, sku))[1] == 0
    assert await gateway.db["carts"].find_one({"holding": True, "items": {"$ne": []}}) is None
    await assert_settled(gateway)


async def shop_at_random(
    gateway: GatewayClient,
    rng: random.Random,
    skus: list[str],
    carts: list[str],
    outcome: Counter[str],
    tokens: tuple[str, ...] = ("accept", "decline"),
) -> None:
    """Change carts and stock, and check out. A cart that is paid is replaced by a new one in `carts`."""
    for _ in range(60 if IS_SOAK else 8):
        place, sku = rng.randrange(len(carts)), rng.choice(skus)
        cart = carts[place]
        match rng.randrange(6):
            case 0 | 1:
                given = add_input(cart, sku, rng.randrange(1, 4), idempotencyKey=new_key())
                answer = await gateway.result("addItemToCart", given)
            case 2 | 3:
                present = quantities(await cart_of(gateway, cart)).get(sku, 0)
                given = update_input(cart, sku, present, rng.randrange(4), idempotencyKey=new_key())
                answer = await gateway.result("updateCartItem", given)
            case 4:
                answer = await restock(gateway, sku, rng.choice([-3, -1, 2, 5]))
            case _:
                answer = await gateway.result("checkout", checkout_input(cart, rng.choice(tokens)))
                if answer["__typename"] in {"CheckoutPayload", "PaymentPending"}:
                    carts[place] = await new_cart(gateway)
        outcome[answer["__typename"]] += 1


async def test_jobs_that_take_live_calls_for_crashed_ones_do_no_harm(
    gateway: GatewayClient, provider: Provider
) -> None:
    """Every command is delayed, and the jobs refuse, finish and undo calls that are still in flight."""
    rng = random.Random(13)
    skus = [await stock_up(gateway, units=12) for _ in range(3)]
    carts = [await new_cart(gateway) for _ in range(4)]
    is_over = False
    outcome: Counter[str] = Counter()

    async def eager_jobs(late: Database) -> None:
        while not is_over:
            now = gateway.clock.now() + timedelta(seconds=31)
            await cart_jobs.finish_moves(late, now=now)
            await stock_jobs.finish_changes(late, DOMAINS.attachments, now=now)
            await cart_jobs.finish_checkouts(late, provider, now=now)
            await cart_jobs.finish_expiries(late, now=now)

    late = delayed(gateway.db, rng, 0.02)
    with database_of(gateway, late):
        jobs = [asyncio.create_task(eager_jobs(late)) for _ in range(2)]
        await asyncio.gather(*(shop_at_random(gateway, rng, skus, carts, outcome) for _ in range(10)))
        is_over = True
        await asyncio.gather(*jobs)
    await gateway.run_jobs(seconds=31)

    assert outcome["CartPayload"] > 0
    assert outcome["CheckoutPayload"] == await gateway.db["orders"].count_documents({}) == len(provider.taken)
    await assert_settled(gateway)


async def test_products_are_found_by_their_current_availability(gateway: GatewayClient) -> None:
    text = "query ($in: Boolean!) { products(filter: { inStock: $in }) { nodes { sku stock { available } } } }"
    plenty, last, none = [await stock_up(gateway, units=units) for units in (5, 1, 0)]

    async def found() -> list[set[str]]:
        answers = [await gateway.data(text, {"in": wanted}) for wanted in (True, False)]
        return [{node["sku"] for node in answer["products"]["nodes"]} for answer in answers]

    first = await found()
    cart = await new_cart(gateway, **{last: 1})
    taken = await found()
    await gateway.result("updateCartItem", update_input(cart, last, 1, 0))
    await restock(gateway, none, 1)
    await restock(gateway, plenty, -5)
    back = await found()
    await gateway.result("updateProduct", {**await id_and_nonce_of(gateway, last), "title": "New"})

    assert first == [{plenty, last}, {none}]
    assert taken == [{plenty}, {last, none}]
    assert back == [{last, none}, {plenty}]
    assert await found() == back
    await assert_invariants(gateway)


async def test_a_move_that_was_refused_before_the_cart_is_read_is_not_taken(gateway: GatewayClient) -> None:
    sku, db = await stock_up(gateway, units=100), gateway.db
    cart = await new_cart(gateway)

    async def refuse() -> None:
        """Settle the move of the call, as a job does after five seconds. The cart forgets the refusal."""
        stock: Any = None
        async with asyncio.timeout(10):
            while stock is None:
                stock = await db["stock"].find_one({"_id": sku, "under_way.0": {"$exists": True}})
        await moves.settle(db, stock["under_way"][0], now=gateway.clock.now())
        refused = await db["carts"].find_one({"refused_until": {"$exists": True}})
        assert refused is not None
        assert refused["decided"] == []

    with database_of(gateway, interrupted(db, "carts", "find_one", refuse)):
        added = await gateway.result("addItemToCart", add_input(cart, sku))

    assert added["__typename"] == "CartPayload"
    assert quantities(await cart_of(gateway, cart)) == {sku: 1}
    assert await stock_of(gateway, sku) == (99, 1, 0)
    await assert_nothing_in_flight(db)
    await assert_invariants(gateway)


async def test_a_repeated_addition_of_the_last_unit_finds_that_the_first_one_has_taken_it(
    gateway: GatewayClient,
) -> None:
    """The first call pauses for longer than its lease, and decides when the second one has read the cart."""
    sku, cart, own = await stock_up(gateway, units=1), await new_cart(gateway), gateway.db
    given = add_input(cart, sku, idempotencyKey=new_key())
    is_reached, goes_on = asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        is_reached.set()
        await goes_on.wait()

    async def go_on() -> None:
        goes_on.set()
        await first

    # It crashes when it has decided.
    faulty, database = FaultyDatabase.around(own, 6)
    with database_of(gateway, interrupted(database, "carts", "update_one", pause)):
        first = asyncio.create_task(gateway.ask(shortest("addItemToCart"), {"input": given}))
        await is_reached.wait()
    gateway.clock.advance(seconds=31)
    with database_of(gateway, interrupted(own, "stock", "find_one_and_update", go_on)):
        second = await gateway.result("addItemToCart", given)
    assert (faulty.changes[-1], faulty.has_crashed) == (("carts", "update_one"), True)

    assert (second["__typename"], await gateway.result("addItemToCart", given)) == ("CartPayload", second)
    await gateway.run_jobs(seconds=6)
    assert await stock_of(gateway, sku) == (0, 1, 0)
    await assert_settled(gateway)


@pytest.mark.parametrize(("units", "quantity"), [(1_001, 1_001), (5, 1)])
async def test_an_addition_that_is_refused_does_not_take_what_others_may_want(
    gateway: GatewayClient, units: int, quantity: int
) -> None:
    sku, cart = await stock_up(gateway, units=units), await new_cart(gateway)
    unknown = Kind.encode_id("Cart", "0" * 32)
    own, found = gateway.db, set[int]()

    async def look() -> None:
        found.update(one["available"] for one in await own["stock"].find({"_id": sku}).to_list())

    for given in (add_input(unknown, sku, quantity), add_input(cart, "no such product", quantity)):
        with database_of(gateway, before_every_command(own, look)):
            refused = await gateway.result("addItemToCart", given)
        assert refused["__typename"] == "NotFound"

    assert found == {units}


async def test_an_addition_that_is_refused_leaves_no_unit_reserved(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=100)
    full = await new_cart(gateway, **{await stock_up(gateway, units=1_000): 1_000})
    unknown = Kind.encode_id("Cart", "0" * 32)

    answers = [
        await gateway.result("addItemToCart", given)
        for given in (add_input(unknown, sku), add_input(full, "no such product"), add_input(full, sku, 1_000))
    ]

    assert [answer["__typename"] for answer in answers] == ["NotFound", "NotFound", "InadequateInventory"]
    assert await stock_of(gateway, sku) == (100, 0, 0)
    await assert_settled(gateway)
