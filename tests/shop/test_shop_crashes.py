"""Writes of the shop that crash or pause anywhere: no unit is lost or sold twice, and a retry succeeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from portico.gateway.mongo.faults import Crash
from portico.resolvers.shop import cart_jobs
from portico.schema.nodes import encode_id
from tests.shop.support.shop import (
    SHOP_JOBS,
    Provider,
    add_input,
    assert_nothing_in_flight,
    new_cart,
    stock_up,
    update_input,
)
from tests.support.harness import (
    GatewayClient,
    SettableClock,
    assert_invariants,
    half_of_stops,
    run_jobs,
    stops,
    stops_of,
)
from tests.support.ids import key_in
from tests.support.interruptions import crashing, database_of, interrupted
from tests.support.scenes import Given, Stage

# The counters of `plenty` and `last`, the status and the lines of the cart, and the number of orders.
State = tuple[tuple[int, int, int], tuple[int, int, int], str, dict[str, int], int]


class Scene(Stage):
    """A cart with two units of a product, and another product with one unit."""

    collections = ("products", "stock", "carts", "orders", "operations", "intents")

    def __init__(self, gateway: GatewayClient, clock: SettableClock, provider: Provider) -> None:
        super().__init__(gateway, clock)
        self.provider = provider

    async def build(self) -> None:
        await stock_up(self.gateway, "plenty", 10)
        await stock_up(self.gateway, "last", 1)
        await stock_up(self.gateway, "unstocked", 0)
        self.cart = await new_cart(self.gateway, plenty=2)

    async def set(self, name: str) -> tuple[str, Given]:
        """Restore the shop, and return the mutation and its input."""
        await self.restore()
        self.provider.outcomes.clear()
        self.provider.taken.clear()
        mutation, given = CALLS[name](self.cart)
        if mutation == "deleteProduct":
            product = await self.gateway.db["products"].find_one({"sku": given["sku"]})
            assert product is not None
            given = {"id": encode_id("Product", given["sku"]), "nonce": product["nonce"]}
        return mutation, {**given, "idempotencyKey": "the key"}

    async def jobs(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)
        await run_jobs(self.gateway, self.clock, *SHOP_JOBS)

    async def state(self) -> State:
        counters = {}
        for sku in ("plenty", "last"):
            stock = await self.gateway.db["stock"].find_one({"_id": sku})
            assert stock is not None
            counters[sku] = (stock["available"], stock["reserved"], stock["sold"])
        cart = await self.gateway.db["carts"].find_one({"_id": key_in("Cart", self.cart)})
        assert cart is not None
        lines = {line["sku"]: line["quantity"] for line in cart["items"]}
        orders = await self.gateway.db["orders"].count_documents({})
        return counters["plenty"], counters["last"], cart["status"], lines, orders

    async def assert_settled(self) -> None:
        await assert_nothing_in_flight(self.gateway.db)
        assert await self.gateway.db["products"].find_one({"deleting": {"$exists": True}}) is None
        assert await self.gateway.db["stock"].find_one({"closed.is_final": False}) is None
        await assert_invariants(self.gateway)
        assert len(self.provider.taken) == await self.gateway.db["orders"].count_documents({})
        in_stock = {one["sku"]: one.get("in_stock", False) async for one in self.gateway.db["products"].find({})}
        stocked = {one["_id"]: one["available"] > 0 async for one in self.gateway.db["stock"].find({})}
        assert {sku: stocked.get(sku, False) for sku in in_stock} == in_stock


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock, provider: Provider) -> Scene:
    return Scene(gateway, clock, provider)


CALLS: dict[str, Callable[[str], tuple[str, Given]]] = {
    "a first restock": lambda _: ("restock", {"sku": "unstocked", "quantity": 5}),
    "a restock": lambda _: ("restock", {"sku": "plenty", "quantity": 5}),
    "a removal from stock": lambda _: ("restock", {"sku": "last", "quantity": -1}),
    "a removal of too much": lambda _: ("restock", {"sku": "plenty", "quantity": -9}),
    "adding to a line": lambda cart: ("addItemToCart", add_input(cart, "plenty", 3)),
    "adding the last unit": lambda cart: ("addItemToCart", add_input(cart, "last")),
    "adding too much": lambda cart: ("addItemToCart", add_input(cart, "last", 2)),
    "more of a line": lambda cart: ("updateCartItem", update_input(cart, "plenty", 2, 5)),
    "less of a line": lambda cart: ("updateCartItem", update_input(cart, "plenty", 2, 1)),
    "removing a line": lambda cart: ("updateCartItem", update_input(cart, "plenty", 2, 0)),
    "claiming": lambda cart: ("claimCart", {"cartId": cart}),
    "a checkout": lambda cart: ("checkout", {"cartId": cart, "payment": {"token": "accept"}}),
    "a checkout that is refused": lambda cart: ("checkout", {"cartId": cart, "payment": {"token": "decline"}}),
    "deleting what is available": lambda _: ("deleteProduct", {"sku": "last"}),
    "deleting what a cart holds": lambda _: ("deleteProduct", {"sku": "plenty"}),
}
BEFORE: State = ((8, 2, 0), (1, 0, 0), "ACTIVE", {"plenty": 2}, 0)
AFTER: dict[str, tuple[str, State]] = {
    "a first restock": ("StockPayload", BEFORE),
    "a restock": ("StockPayload", ((13, 2, 0), (1, 0, 0), "ACTIVE", {"plenty": 2}, 0)),
    "a removal from stock": ("StockPayload", ((8, 2, 0), (0, 0, 0), "ACTIVE", {"plenty": 2}, 0)),
    "a removal of too much": ("InadequateInventory", BEFORE),
    "adding to a line": ("CartPayload", ((5, 5, 0), (1, 0, 0), "ACTIVE", {"plenty": 5}, 0)),
    "adding the last unit": ("CartPayload", ((8, 2, 0), (0, 1, 0), "ACTIVE", {"plenty": 2, "last": 1}, 0)),
    "adding too much": ("InadequateInventory", BEFORE),
    "more of a line": ("CartPayload", ((5, 5, 0), (1, 0, 0), "ACTIVE", {"plenty": 5}, 0)),
    "less of a line": ("CartPayload", ((9, 1, 0), (1, 0, 0), "ACTIVE", {"plenty": 1}, 0)),
    "removing a line": ("CartPayload", ((10, 0, 0), (1, 0, 0), "ACTIVE", {}, 0)),
    "claiming": ("CartPayload", BEFORE),
    "a checkout": ("CheckoutPayload", ((8, 0, 2), (1, 0, 0), "COMPLETE", {"plenty": 2}, 1)),
    "a checkout that is refused": ("PaymentDeclined", BEFORE),
    "deleting what is available": ("DeletedPayload", ((8, 2, 0), (0, 0, 0), "ACTIVE", {"plenty": 2}, 0)),
    "deleting what a cart holds": ("ProductInUse", BEFORE),
}


@pytest.mark.parametrize("jobs_first", [True, False], ids=["after the jobs", "before the jobs"])
@pytest.mark.parametrize("name", CALLS)
async def test_a_write_that_crashes_anywhere_is_finished_or_undone_and_its_retry_succeeds(
    scene: Scene, name: str, *, jobs_first: bool
) -> None:
    kind, after = AFTER[name]
    for stop in stops_of(jobs_first=jobs_first):
        mutation, given = await scene.set(name)
        if not await scene.crash(mutation, given, stop):
            break

        # The crashed call holds the key for 30 seconds, and the checkout for as long.
        if jobs_first:
            await scene.jobs(31)
            assert await scene.state() in (BEFORE, after), stop
            await scene.assert_settled()
        else:
            scene.clock.advance(seconds=31)
        again = await scene.typename_of(mutation, given)
        once_more = await scene.typename_of(mutation, given)
        await scene.jobs(31)

        assert (again, once_more) == (kind, kind), stop
        assert await scene.state() == after, stop
        await scene.assert_settled()
    assert stop > 1


@pytest.mark.parametrize("is_repeated", [True, False], ids=["with a retry", "without a retry"])
@pytest.mark.parametrize("name", CALLS)
async def test_a_write_that_pauses_anywhere_while_the_jobs_run_has_one_effect(
    scene: Scene, name: str, *, is_repeated: bool
) -> None:
    kind, after = AFTER[name]
    db = scene.gateway.db
    for skip in half_of_stops(odd=is_repeated):
        mutation, given = await scene.set(name)
        meanwhile: list[str] = []

        async def others(mutation: str = mutation, given: Given = given, result: list[str] = meanwhile) -> None:
            with database_of(scene.gateway, db):
                await scene.jobs(31)
                result.append(await scene.typename_of(mutation, given) if is_repeated else kind)
                await scene.jobs(31)

        with database_of(scene.gateway, interrupted(db, None, None, others, skip=skip)):
            result = await scene.typename_of(mutation, given)
        await scene.jobs(31)

        if not meanwhile:
            break
        assert (meanwhile, result) == ([kind], kind), skip
        assert await scene.state() == after, skip
        await scene.assert_settled()
    assert skip > 3


@pytest.mark.parametrize(
    ("name", "stop_call"),
    [
        ("adding the last unit", 1),
        ("adding the last unit", 2),
        ("removing a line", 2),
        ("removing a line", 4),
        ("a checkout", 2),
        ("a checkout", 4),
        ("deleting what is available", 1),
        ("deleting what is available", 3),
    ],
)
async def test_jobs_that_crash_anywhere_finish_in_their_next_run(scene: Scene, name: str, stop_call: int) -> None:
    for stop in stops():
        mutation, given = await scene.set(name)
        assert await scene.crash(mutation, given, stop_call)
        scene.clock.advance(seconds=31)

        with crashing(scene.gateway, stop) as faulty:
            try:
                await run_jobs(scene.gateway, scene.clock, *SHOP_JOBS)
            except Crash:
                assert faulty.has_crashed
        await scene.jobs(31)

        assert await scene.state() in (BEFORE, AFTER[name][1]), stop
        await scene.assert_settled()
        if not faulty.has_crashed:
            break
    assert stop > 0


async def test_an_expiry_that_crashes_anywhere_is_finished_by_the_next_run(scene: Scene) -> None:
    for stop in stops():
        await scene.set("claiming")
        scene.clock.advance(hours=5)

        with crashing(scene.gateway, stop) as faulty:
            try:
                await run_jobs(scene.gateway, scene.clock, *SHOP_JOBS)
            except Crash:
                assert faulty.has_crashed
        await scene.jobs(31)

        assert await scene.state() == ((10, 0, 0), (1, 0, 0), "EXPIRED", {"plenty": 2}, 0), stop
        await scene.assert_settled()
        if not faulty.has_crashed:
            break
    assert stop > 3


async def test_an_expiry_that_pauses_anywhere_returns_no_unit_twice(scene: Scene) -> None:
    db = scene.gateway.db
    for skip in stops():
        await scene.set("claiming")
        scene.clock.advance(hours=5)
        turns: list[int] = []

        async def others(turns: list[int] = turns) -> None:
            turns.append(1)
            await scene.jobs(31)
            await scene.jobs(31)

        await cart_jobs.expire_idle(interrupted(db, None, None, others, skip=skip), now=scene.clock.now())
        await scene.jobs(31)

        assert await scene.state() == ((10, 0, 0), (1, 0, 0), "EXPIRED", {"plenty": 2}, 0), skip
        await scene.assert_settled()
        if not turns:
            break
    assert skip > 3
