"""Transfers that resume late, and what the doctor finds. The kit has the crashes and pauses of each call."""

from __future__ import annotations

import pytest

from portico.resolvers.problems import Problem
from tests.accounts.support.stages import Transfers
from tests.support.domains import INVARIANTS
from tests.support.harness import GatewayClient, SettableClock, some_stops


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Transfers:
    return Transfers(gateway, clock)


async def _others(scene: Transfers) -> None:
    """Run the jobs, then spend everything that is in the source."""
    await scene.run_jobs()
    await scene.assert_settled()
    (first, second) = await scene.state()
    if first:
        assert await scene.typename_of("transfer", scene.transfer(first)) == "TransferPayload"
    await scene.run_jobs()
    assert await scene.state() == [0, first + second]


async def test_a_process_that_resumes_after_the_money_is_spent_takes_none(scene: Transfers) -> None:
    for command in some_stops(2):
        given = await scene.set("a transfer")
        call, wake = await scene.asleep("transfer", given, command)
        if call.done():
            break

        await _others(scene)
        wake()

        assert (await call).data["transfer"]["__typename"] in {"InsufficientFunds", "TransferPayload"}, command
        await scene.assert_is([0, 100])
    assert command > 4


@pytest.mark.sample(3)
@pytest.mark.parametrize("first", range(3, 9))
async def test_two_processes_that_pause_at_different_commands_move_the_money_once(scene: Transfers, first: int) -> None:
    for second in range(3, 12):
        given = await scene.set("a transfer")
        one, wake_one = await scene.asleep("transfer", given, first)
        scene.clock.advance(seconds=31)
        other, wake_other = await scene.asleep("transfer", given, second)

        await scene.run_jobs(seconds=31)
        wake_one()
        assert (await one).data["transfer"]["__typename"] == "TransferPayload"
        await scene.run_jobs()
        wake_other()

        assert (await other).data["transfer"]["__typename"] == "TransferPayload"
        await scene.assert_is([70, 30])


async def problems(gateway: GatewayClient) -> list[str]:
    """Return the problems of the accounts, after the repair of those that have one."""
    found: list[Problem] = []
    for invariant in INVARIANTS:
        found += [problem async for problem in invariant.check(gateway.db)]
    for problem in found:
        if problem.repair is not None:
            await problem.repair()
    return [problem.text for problem in found]


async def test_an_unexplained_balance_is_reported_and_not_repaired(scene: Transfers) -> None:
    await scene.set("a transfer")
    await scene.gateway.db["accounts"].update_many({"owner": "another"}, {"$inc": {"balance": 5}})

    wrong = "its balance is 5, but its transfers add up to 0"
    assert await problems(scene.gateway) == [wrong]
    assert await problems(scene.gateway) == [wrong]


async def test_a_negative_balance_is_reported(scene: Transfers) -> None:
    await scene.set("a transfer")
    await scene.gateway.db["accounts"].update_many({"owner": "another"}, {"$inc": {"balance": -5}})

    assert await problems(scene.gateway) == ["its balance is -5", "its balance is -5, but its transfers add up to 0"]


async def test_a_pending_entry_of_a_cancelled_transfer_is_reported_and_removed(scene: Transfers) -> None:
    given = await scene.set("a transfer")
    await scene.typename_of("transfer", given)
    db = scene.gateway.db
    await db["transfers"].update_many({"source": {"$ne": None}}, {"$set": {"state": "CANCELLED"}})
    (record,) = await db["transfers"].find({"source": {"$ne": None}}).to_list()
    await db["accounts"].update_many({"owner": "another"}, {"$set": {"balance": 0}})
    note = {"id": record["_id"], "amount": -30}
    await db["accounts"].update_many({"owner": {"$ne": "another"}}, {"$push": {"pending": note}})

    assert await problems(scene.gateway) == ["it has a note of a transfer that was rolled back"]
    assert await problems(scene.gateway) == []
    await scene.assert_is([100, 0])


async def test_a_pending_entry_of_a_finished_transfer_is_reported(scene: Transfers) -> None:
    given = await scene.set("a transfer")
    await scene.typename_of("transfer", given)
    (record,) = await scene.gateway.db["transfers"].find({"source": {"$ne": None}}).to_list()
    note = {"id": record["_id"], "amount": -30}
    await scene.gateway.db["accounts"].update_many({"owner": {"$ne": "another"}}, {"$push": {"pending": note}})

    assert await problems(scene.gateway) == ["it has a note of a transfer that is settled or missing"]
