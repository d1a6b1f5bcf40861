"""Concurrent trades, some of which crash: items are neither lost nor doubled. The kit has the crashes of each call."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from portico.gateway.clock import SystemClock
from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.documents import Database
from portico.resolvers.errors import Conflict
from portico.resolvers.game.inventories import stack_checks, stack_edits, stack_jobs, trade_edits
from portico.resolvers.game.inventories.stack_refusals import NotEnough
from portico.resolvers.game.inventories.stacks import Place, Viewer, Wanted
from portico.resolvers.writes.marks import derived_id, random_operation_id
from tests.game.support.stacks import assert_items, call, give, goods, held, keyed, moved, offer, used
from tests.game.support.trades_stage import CASES, Trades
from tests.support.domains import INVARIANTS
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, some_stops
from tests.support.interruptions import crashing

RACES = 1_000 if IS_SOAK else 20
OWNERS = 12
TRADES = 1_500 if IS_SOAK else 40
AT_ONCE = 32
# Every so many trades, one of them looks at a snapshot.
LOOK_EVERY = 8


def kinds(results: list[Any]) -> Counter[str]:
    return Counter(result["__typename"] for result in results)


async def test_a_trade_that_is_accepted_and_cancelled_at_once_has_one_outcome(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "sword", RACES)
    await give(gateway.db, "jonas", "coin", RACES)
    line = asyncio.Semaphore(8)

    async def race() -> tuple[str, str]:
        async with line:
            trade = await offer(gateway, "mara", "jonas", [goods("sword")], [goods("coin")])
            accepted, cancelled = await asyncio.gather(
                call(gateway, "acceptTrade", "jonas", keyed(id=trade)),
                call(gateway, "cancelTrade", "mara", keyed(id=trade)),
            )
        return accepted["__typename"], cancelled["__typename"]

    found = Counter(await asyncio.gather(*(race() for _ in range(RACES))))

    assert found.keys() <= {("TradePayload", "Conflict"), ("Conflict", "TradePayload")}
    done = found["TradePayload", "Conflict"]
    expected = {"sword": RACES - done, "coin": done}
    assert await held(gateway.db, "mara") == {item: count for item, count in expected.items() if count}
    await assert_items(gateway)


async def test_of_many_acceptances_of_a_trade_one_succeeds_and_the_others_learn_of_it(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "sword")
    await give(gateway.db, "jonas", "coin")
    trade = await offer(gateway, "mara", "jonas", [goods("sword")], [goods("coin")])

    results = await asyncio.gather(*(call(gateway, "acceptTrade", "jonas", keyed(id=trade)) for _ in range(12)))

    assert kinds(results) == {"TradePayload": 1, "Conflict": 11}
    assert (await held(gateway.db, "mara"), await held(gateway.db, "jonas")) == ({"coin": 1}, {"sword": 1})
    await assert_items(gateway)


async def test_consumption_and_offers_at_once_use_exactly_what_is_there(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "potion", 20)

    results = await asyncio.gather(
        *(call(gateway, "consume", "mara", used("potion")) for _ in range(15)),
        *(call(gateway, "transferStack", "mara", moved("potion")) for _ in range(15)),
    )

    assert kinds(results) == {"StackPayload": 20, "NotEnough": 10}
    assert await held(gateway.db, "mara") == {}
    await assert_items(gateway)


async def test_a_ring_of_trades_gives_everybody_what_both_neighbors_gave(gateway: GatewayClient) -> None:
    ring = [f"owner {number}" for number in range(OWNERS)]
    for owner in ring:
        await give(gateway.db, owner, f"item of {owner}", 2)
    pairs = list(zip(ring, [*ring[1:], ring[0]], strict=True))

    async def trade(owner: str, to: str) -> Any:
        made = await offer(gateway, owner, to, [goods(f"item of {owner}")], [goods(f"item of {to}")])
        return await call(gateway, "acceptTrade", to, keyed(id=made))

    results = await asyncio.gather(*(trade(*pair) for pair in pairs))

    assert kinds(results) == {"TradePayload": OWNERS}
    for before, (owner, after) in zip([ring[-1], *ring], pairs, strict=False):
        assert await held(gateway.db, owner) == {f"item of {before}": 1, f"item of {after}": 1}
    await assert_items(gateway)


class Market:
    """Owners who trade with each other at random. Each process can crash anywhere, or cancel its trade.

    What a trade tries depends on its number alone, and not on the order in which the trades go on.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self.owners = [f"owner {number}" for number in range(OWNERS)]
        self.items = ["sword", "coin", "gem"]
        self.ended: Counter[str] = Counter()

    async def open(self) -> None:
        for owner in self.owners:
            for item in self.items:
                await give(self.db, owner, item, 6)

    async def trade(self, number: int) -> None:
        db: Any = self.db
        rng = random.Random(f"a trade {number}")
        if number % 3 == 0:
            db, _ = FaultyDatabase.around(self.db, rng.randrange(12))
        one, other = rng.sample(self.owners, 2)
        offered, wanted = rng.sample(self.items, 2)
        goods_, price = Wanted("thing", offered, rng.randint(1, 4)), Wanted("thing", wanted, rng.randint(1, 4))
        try:
            self.ended[await self._trade(db, one, other, goods_, price, rng.random())] += 1
        except (Conflict, NotEnough, Crash) as error:
            self.ended[type(error).__name__] += 1

    async def _trade(self, db: Any, one: str, other: str, offered: Wanted, wanted: Wanted, roll: float) -> str:
        made = await trade_edits.offer_trade(
            db,
            viewer=Viewer(one, is_game_master=False),
            source=Place(one, "bag"),
            to=Place(other, "bag"),
            offers=[offered],
            wants=[wanted],
            **_operation(),
        )
        try:
            if roll < 0.6:
                viewer = Viewer(other, is_game_master=False)
                await trade_edits.accept_trade(db, viewer=viewer, trade_id=made["_id"], **_operation())
                return "accepted"
        except NotEnough:
            pass
        if roll < 0.9:
            viewer = Viewer(one, is_game_master=False)
            await trade_edits.cancel_trade(db, viewer=viewer, trade_id=made["_id"], **_operation())
            return "cancelled"
        return "left open"


def _operation() -> dict[str, Any]:
    return {"now": SystemClock().now(), "operation_id": random_operation_id()}


async def test_items_are_conserved_in_every_snapshot_while_owners_trade_and_processes_crash(
    gateway: GatewayClient,
) -> None:
    market = Market(gateway.db)
    await market.open()
    line = asyncio.Semaphore(AT_ONCE)

    async def trade(number: int) -> None:
        async with line:
            await market.trade(number)
        # Beside the trades of others, however fast they are.
        if number % LOOK_EVERY == 0:
            await look()

    async def look() -> None:
        assert [wrong async for wrong in stack_checks.find_unbalanced_items(gateway.db)] == []

    await asyncio.gather(*(trade(number) for number in range(TRADES)))
    await stack_jobs.finish_trades(gateway.db, now=SystemClock().now() + timedelta(seconds=6))

    assert min(market.ended[end] for end in ("accepted", "cancelled", "left open", "Crash")) > 0
    await assert_items(gateway)


async def test_a_move_whose_goods_are_held_by_a_call_that_gives_up_waits_for_them(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "potion", 5)
    note = {
        "key": "another",
        "delta": -5,
        "at": SystemClock().now() - timedelta(seconds=4),
        "record": derived_id("another", "settlement 0"),
        "round": None,
    }
    await gateway.db["game.stacks"].update_one({}, {"$set": {"quantity": 0, "notes": [note]}})

    received = await stack_edits.transfer_stack(
        gateway.db,
        viewer=Viewer("mara", is_game_master=False),
        source=Place("mara", "bag"),
        to=Place("mara", "bank"),
        wanted=Wanted("thing", "potion", 5),
        **_operation(),
    )

    assert received["quantity"] == 5
    await assert_items(gateway)


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Trades:
    return Trades(gateway, clock)


@pytest.mark.parametrize(("name", "other"), [("an acceptance", "a cancellation"), ("a cancellation", "an acceptance")])
async def test_of_an_acceptance_and_a_cancellation_one_wins_wherever_the_other_pauses(
    scene: Trades, name: str, other: str
) -> None:
    for command in some_stops(2):
        given = await scene.set(name)
        call, wake = await scene.asleep(CASES[name].mutation, given, command)
        if call.done():
            break

        answer = await scene.typename_of(CASES[other].mutation, CASES[other].given(scene))
        wake()

        assert {answer, (await call).data[CASES[name].mutation]["__typename"]} == {"TradePayload", "Conflict"}, command
        await scene.run_jobs()
        await scene.assert_is(CASES[name if answer == "Conflict" else other].after)
    assert command > 5


@pytest.mark.parametrize("name", ["an offer", "a move"])
async def test_a_retry_of_what_a_record_has_decided_does_not_wait_for_the_lease_of_the_crashed_call(
    scene: Trades, name: str
) -> None:
    mutation, given = CASES[name].mutation, await scene.set(name)
    with crashing(scene.gateway, None) as faulty:
        answered = await scene.typename_of(mutation, given)
    decided = faulty.changes.index(("game.trades", "insert_one")) + 1
    given = await scene.set(name)
    with crashing(scene.gateway, decided):
        await scene.ask(mutation, given)

    answers = [await scene.typename_of(mutation, given) for _ in range(2)]

    assert answers == [answered] * 2
    await scene.run_jobs()
    await scene.assert_is(CASES[name].after)


async def problems(gateway: GatewayClient) -> list[str]:
    return [problem.text for invariant in INVARIANTS async for problem in invariant.check(gateway.db)]


async def test_an_item_too_many_or_too_few_is_reported(scene: Trades) -> None:
    await scene.set("a move")
    await scene.gateway.db["game.stacks"].update_many({"item_id": "sword"}, {"$inc": {"quantity": 1}})
    await scene.gateway.db["game.stacks"].update_many({"item_id": "coin"}, {"$inc": {"quantity": -11}})

    assert await problems(scene.gateway) == [
        "there are -1, but 10 were granted and not consumed",
        "there are 6, but 5 were granted and not consumed",
        "its quantity is -1",
    ]


async def test_a_stack_under_the_id_of_another_item_is_reported(scene: Trades) -> None:
    await scene.set("a move")
    await scene.gateway.db["game.stacks"].update_many({"item_id": "sword"}, {"$set": {"item_id": "axe"}})

    assert "its `_id` is not that of its item" in await problems(scene.gateway)


@pytest.mark.parametrize("name", ["quantity", "granted", "consumed"])
async def test_a_stack_with_an_invalid_counter_is_named_and_stops_no_check(scene: Trades, name: str) -> None:
    await scene.set("a move")
    await scene.gateway.db["game.stacks"].update_many({"item_id": "sword"}, {"$set": {name: "many"}})
    await scene.gateway.db["game.stacks"].update_many({"item_id": "coin"}, {"$inc": {"quantity": -11}})

    found = await problems(scene.gateway)

    assert f"a field is missing or invalid (TypeError: {name!r} is no whole number)" in found
    assert {"there are -1, but 10 were granted and not consumed", "its quantity is -1"} <= {*found}
