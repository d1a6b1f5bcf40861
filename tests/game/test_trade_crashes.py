"""Of two answers to an offer one wins, and the doctor finds wrong stacks. The kit has the crashes and pauses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.game.support.trades_stage import CASES, Trades
from tests.support.harness import GatewayClient, SettableClock, some_stops
from tests.support.interruptions import crashing


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


async def problems(gateway: GatewayClient) -> list[Any]:
    return [
        problem.text
        for domain in gateway.domains.all
        for invariant in domain.invariants
        async for problem in invariant.check(gateway.db)
    ]


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
