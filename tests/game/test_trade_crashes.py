"""Changes of stacks and trades that crash or pause anywhere: items are conserved at every moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from portico.gateway.mongo.faults import Crash
from tests.game.support.stacks import assert_items, bag, give, goods, held, keyed, offer
from tests.support.harness import (
    MUTATIONS,
    Answer,
    GatewayClient,
    SettableClock,
    assert_invariants,
    half_of_stops,
    run_jobs,
    stops,
    stops_of,
)
from tests.support.interruptions import crashing, database_of, interrupted
from tests.support.scenes import Given, Stage

Bags = tuple[dict[str, int], dict[str, int], dict[str, int]]


class Scene(Stage):
    """Mara has five swords and has offered two of them to Jonas, for six of his ten coins."""

    collections = ("game.stacks", "game.trades", "game.trade_pairs", "operations")

    async def build(self) -> None:
        await give(self.gateway.db, "mara", "sword", 5)
        await give(self.gateway.db, "jonas", "coin", 10)
        self.trade = await offer(self.gateway, "mara", "jonas", [goods("sword", 2)], [goods("coin", 6)])
        self.empty_offer = await offer(self.gateway, "jonas", "mara", [], [goods("sword", 1)])

    async def set(self, name: str) -> Given:
        await self.restore()
        return self.input_of(name)

    def input_of(self, name: str) -> Given:
        between = {"from": bag("mara"), "to": bag("jonas")}
        return {
            "a move": keyed(**{"from": bag("mara"), "to": bag("mara", "bank"), "stack": goods("sword", 2)}),
            "an offer": keyed(**between, offers=[goods("sword", 3)], wants=[goods("coin", 1)]),
            "an offer of too much": keyed(**between, offers=[goods("sword", 4)], wants=[]),
            "an acceptance": keyed(id=self.trade),
            "a cancellation": keyed(id=self.trade),
            "a consumption": keyed(**{"from": bag("jonas"), "stack": goods("coin", 4)}),
        }[name]

    async def ask(self, mutation: str, given: Given) -> Answer:
        subject = "jonas" if mutation in {"acceptTrade", "consume"} else "mara"
        return await self.gateway.ask(MUTATIONS[mutation], {"input": given}, token=self.gateway.token(subject, []))

    async def run_jobs(self, *, seconds: int = 6) -> None:
        self.clock.advance(seconds=seconds)
        await run_jobs(self.gateway, self.clock, "finish-trades")

    async def bags(self) -> Bags:
        db = self.gateway.db
        return await held(db, "mara"), await held(db, "mara", "bank"), await held(db, "jonas")

    async def assert_settled(self, *expected: Bags) -> None:
        """Assert that the items are where one of the outcomes puts them, and that nothing is in flight."""
        assert await self.bags() in expected
        await assert_items(self.gateway)


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Scene:
    return Scene(gateway, clock)


BEFORE: Bags = ({"sword": 3}, {}, {"coin": 10})
# The mutation, its answer, and where the items are then.
CASES: dict[str, tuple[str, str, Bags]] = {
    "a move": ("transferStack", "StackPayload", ({"sword": 1}, {"sword": 2}, {"coin": 10})),
    "an offer": ("offerTrade", "TradePayload", ({}, {}, {"coin": 10})),
    "an offer of too much": ("offerTrade", "NotEnough", BEFORE),
    "an acceptance": ("acceptTrade", "TradePayload", ({"sword": 3, "coin": 6}, {}, {"coin": 4, "sword": 2})),
    "a cancellation": ("cancelTrade", "TradePayload", ({"sword": 5}, {}, {"coin": 10})),
    "a consumption": ("consume", "StackPayload", ({"sword": 3}, {}, {"coin": 6})),
}


@pytest.mark.parametrize("jobs_first", [True, False], ids=["after the jobs", "before the jobs"])
@pytest.mark.parametrize("name", CASES)
async def test_a_call_that_crashes_anywhere_and_is_retried_with_its_key_happens_once(
    scene: Scene, name: str, *, jobs_first: bool
) -> None:
    mutation, answer, after = CASES[name]
    for stop in stops_of(jobs_first=jobs_first):
        given = await scene.set(name)
        if not await scene.crash(mutation, given, stop):
            break
        # The items are conserved at this moment, too.
        await assert_invariants(scene.gateway)
        if jobs_first:
            await scene.run_jobs()
            await scene.assert_settled(BEFORE, after)
        # The crashed call holds the key for 30 seconds.
        scene.clock.advance(seconds=31)

        outcome = [await scene.typename_of(mutation, given) for _ in range(2)]

        assert outcome == [answer] * 2, stop
        if not jobs_first:
            await assert_invariants(scene.gateway)
            await scene.run_jobs()
        await scene.assert_settled(after)
    assert stop > 2


@pytest.mark.parametrize("name", ["a move", "an acceptance", "a cancellation"])
async def test_jobs_that_crash_anywhere_finish_in_their_next_run(scene: Scene, name: str) -> None:
    mutation, _, after = CASES[name]
    for call in stops():
        if not await scene.crash(mutation, await scene.set(name), call):
            break
        if await scene.gateway.db["game.stacks"].find_one({"notes": {"$ne": []}}) is None:
            continue
        for stop in half_of_stops(odd=call % 2 == 1):
            assert await scene.crash(mutation, await scene.set(name), call)
            scene.clock.advance(seconds=6)

            with crashing(scene.gateway, stop) as faulty:
                try:
                    await run_jobs(scene.gateway, scene.clock, "finish-trades")
                except Crash:
                    assert faulty.has_crashed
            await assert_invariants(scene.gateway)
            await scene.run_jobs(seconds=0)

            await scene.assert_settled(BEFORE, after)
            if not faulty.has_crashed:
                break
    assert call > 4


# ---------------------------------------------------------- paused processes


async def asleep(
    scene: Scene, mutation: str, given: Given, command: int
) -> tuple[asyncio.Task[str], Callable[[], None]]:
    """Start a call that pauses before this command. Return the call and the function that resumes it. The call may end
    without a pause.
    """
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def sleep() -> None:
        reached.set()
        await asyncio.wait_for(go_on.wait(), 60)

    with database_of(scene.gateway, interrupted(scene.gateway.db, None, None, sleep, skip=command)):
        call = asyncio.create_task(scene.typename_of(mutation, given))
        fallen = asyncio.create_task(reached.wait())
        await asyncio.wait({call, fallen}, return_when=asyncio.FIRST_COMPLETED)
        fallen.cancel()
    return call, go_on.set


async def _jobs(scene: Scene, _mutation: str, _given: Given) -> None:
    """Run the jobs, which find what the paused call has left."""
    await scene.run_jobs()
    await assert_items(scene.gateway)


async def _retry(scene: Scene, mutation: str, given: Given) -> None:
    """Retry the call with its key, and carry it out."""
    scene.clock.advance(seconds=31)
    await scene.typename_of(mutation, given)
    await assert_invariants(scene.gateway)


async def _both(scene: Scene, mutation: str, given: Given) -> None:
    await _jobs(scene, mutation, given)
    await _retry(scene, mutation, given)


MEANWHILE: list[Callable[[Scene, str, Given], Awaitable[None]]] = [_jobs, _retry, _both]


@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=["the jobs", "a retry", "the jobs and a retry"])
@pytest.mark.parametrize("name", CASES)
async def test_a_process_that_pauses_before_any_command_moves_the_items_once(
    scene: Scene, name: str, meanwhile: Callable[[Scene, str, Given], Awaitable[None]]
) -> None:
    mutation, answer, after = CASES[name]
    # After the jobs alone, the call itself must find out that it can no longer decide.
    for command in stops() if meanwhile is _jobs else half_of_stops(odd=meanwhile is _both):
        given = await scene.set(name)
        call, wake = await asleep(scene, mutation, given, command)
        if call.done():
            break

        await meanwhile(scene, mutation, given)
        wake()

        assert await call == answer, command
        assert await scene.typename_of(mutation, given) == answer
        await assert_invariants(scene.gateway)
        await scene.run_jobs()
        await scene.assert_settled(after)
    assert command > 3


@pytest.mark.parametrize(("name", "other"), [("an acceptance", "a cancellation"), ("a cancellation", "an acceptance")])
async def test_of_an_acceptance_and_a_cancellation_one_wins_wherever_the_other_pauses(
    scene: Scene, name: str, other: str
) -> None:
    for command in stops():
        given = await scene.set(name)
        call, wake = await asleep(scene, CASES[name][0], given, command)
        if call.done():
            break

        answer = await scene.typename_of(CASES[other][0], scene.input_of(other))
        wake()

        assert {answer, await call} == {"TradePayload", "Conflict"}, command
        await scene.run_jobs()
        await scene.assert_settled(CASES[name if answer == "Conflict" else other][2])
    assert command > 5


# ------------------------------------------------------------------ the doctor


async def problems(gateway: GatewayClient) -> list[Any]:
    return [
        problem.text
        for domain in gateway.domains.all
        for invariant in domain.invariants
        async for problem in invariant.check(gateway.db)
    ]


async def test_an_item_too_many_or_too_few_is_reported(scene: Scene) -> None:
    await scene.set("a move")
    await scene.gateway.db["game.stacks"].update_many({"item_id": "sword"}, {"$inc": {"quantity": 1}})
    await scene.gateway.db["game.stacks"].update_many({"item_id": "coin"}, {"$inc": {"quantity": -11}})

    assert await problems(scene.gateway) == [
        "there are -1, but 10 were granted and not consumed",
        "there are 6, but 5 were granted and not consumed",
        "its quantity is -1",
    ]


async def test_a_stack_under_the_id_of_another_item_is_reported(scene: Scene) -> None:
    await scene.set("a move")
    await scene.gateway.db["game.stacks"].update_many({"item_id": "sword"}, {"$set": {"item_id": "axe"}})

    assert "its `_id` is not that of its item" in await problems(scene.gateway)
