"""Transfers and deposits that crash or pause anywhere: the sum of the money is right, and a retry succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from portico.gateway.mongo.faults import Crash
from portico.resolvers.domains import Problem
from portico.schema.roles import Role
from tests.accounts.support.accounts import assert_money, balances, deposit_input, open_account, transfer_input
from tests.support.domains import INVARIANTS
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

Outcome = tuple[str, list[int]]


class Scene(Stage):
    """Two accounts, the first of which holds 100, and the operations on them."""

    collections = ("accounts", "transfers", "operations")

    async def build(self) -> None:
        db = self.gateway.db
        self.accounts = [await open_account(db, 100), await open_account(db, owner="another")]

    async def set(self, name: str) -> Given:
        """Restore the accounts, and return the input of the call."""
        await self.restore()
        return INPUTS[name](*self.accounts)

    async def ask(self, mutation: str, given: Given) -> Answer:
        token = self.gateway.token(roles=[Role.SERVICE])
        return await self.gateway.ask(MUTATIONS[mutation], {"input": given}, token=token)

    async def run_jobs(self, *, seconds: int = 6) -> None:
        self.clock.advance(seconds=seconds)
        await run_jobs(self.gateway, self.clock, "finish-transfers")

    async def assert_settled(self, *expected: list[int]) -> None:
        """Assert that the balances are one of the expected pairs, and that nothing is in flight."""
        found = await balances(self.gateway.db, *self.accounts)
        assert found in expected
        await assert_money(self.gateway, sum(found))


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Scene:
    return Scene(gateway, clock)


INPUTS: dict[str, Callable[[str, str], Given]] = {
    "a deposit": lambda mine, _: deposit_input(mine, 50),
    "a transfer": lambda mine, theirs: transfer_input(mine, theirs, 30),
    "a transfer of too much": lambda mine, theirs: transfer_input(mine, theirs, 101),
}
BEFORE = [100, 0]
AFTER: dict[str, Outcome] = {
    "a deposit": ("AccountPayload", [150, 0]),
    "a transfer": ("TransferPayload", [70, 30]),
    "a transfer of too much": ("InsufficientFunds", BEFORE),
}


def mutation_of(name: str) -> str:
    return "deposit" if name == "a deposit" else "transfer"


@pytest.mark.parametrize("jobs_first", [True, False], ids=["after the jobs", "before the jobs"])
@pytest.mark.parametrize("name", INPUTS)
async def test_a_call_that_crashes_anywhere_and_is_retried_with_its_key_happens_once(
    scene: Scene, name: str, *, jobs_first: bool
) -> None:
    mutation, (answer, after) = mutation_of(name), AFTER[name]
    for stop in stops_of(jobs_first=jobs_first):
        given = await scene.set(name)
        if not await scene.crash(mutation, given, stop):
            break
        if jobs_first:
            await scene.run_jobs()
            await scene.assert_settled(BEFORE, after)
        # The crashed call holds the key for 30 seconds.
        scene.clock.advance(seconds=31)

        outcome = [await scene.typename_of(mutation, given) for _ in range(2)]

        assert outcome == [answer] * 2, stop
        await scene.assert_settled(after)
    assert stop > 4


async def test_an_opening_that_crashes_anywhere_and_is_retried_with_its_key_happens_once(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    for stop in stops():
        given = {"name": "Savings", "idempotencyKey": f"key-{stop}"}
        with crashing(gateway, stop) as faulty:
            await gateway.ask(MUTATIONS["openAccount"], {"input": given})
        clock.advance(seconds=31)

        opened = [await gateway.result("openAccount", given) for _ in range(2)]

        assert opened[0]["__typename"] == "AccountPayload"
        assert opened[0] == opened[1]
        assert await gateway.db["accounts"].count_documents({}) == stop + 1
        if not faulty.has_crashed:
            break
    assert stop > 2


@pytest.mark.parametrize("name", INPUTS)
async def test_jobs_that_crash_anywhere_finish_in_their_next_run(scene: Scene, name: str) -> None:
    mutation, (_, after) = mutation_of(name), AFTER[name]
    given = await scene.set(name)
    # Combine each place where the call may crash with each place where the jobs may.
    calls = await _unfinished(scene, mutation, name)
    for call in calls:
        for stop in half_of_stops(odd=call % 2 == 1):
            given = await scene.set(name)
            assert await scene.crash(mutation, given, call)
            scene.clock.advance(seconds=6)

            with crashing(scene.gateway, stop) as faulty:
                try:
                    await run_jobs(scene.gateway, scene.clock, "finish-transfers")
                except Crash:
                    assert faulty.has_crashed
            await scene.run_jobs(seconds=0)

            await scene.assert_settled(BEFORE, after)
            if not faulty.has_crashed:
                break
    assert len(calls) > 1


async def _unfinished(scene: Scene, mutation: str, name: str) -> list[int]:
    """Return after which numbers of changes a crash of the call leaves an unfinished transfer."""
    found: list[int] = []
    for stop in stops():
        if not await scene.crash(mutation, await scene.set(name), stop):
            break
        if await scene.gateway.db["transfers"].find_one({"open_since": {"$exists": True}}) is not None:
            found.append(stop)
    return found


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
    found = await balances(scene.gateway.db, *scene.accounts)
    await assert_money(scene.gateway, sum(found))


async def _retry(scene: Scene, mutation: str, given: Given) -> None:
    """Retry the call with its key, and carry it out."""
    scene.clock.advance(seconds=31)
    await scene.typename_of(mutation, given)


async def _both(scene: Scene, mutation: str, given: Given) -> None:
    await _jobs(scene, mutation, given)
    await _retry(scene, mutation, given)


async def _others(scene: Scene, mutation: str, given: Given) -> None:
    """Run the jobs, then spend everything that is in the source."""
    await _jobs(scene, mutation, given)
    (first, second) = await balances(scene.gateway.db, *scene.accounts)
    if first:
        mine, theirs = scene.accounts
        assert await scene.typename_of("transfer", transfer_input(mine, theirs, first)) == "TransferPayload"
    await scene.run_jobs()
    assert await balances(scene.gateway.db, *scene.accounts) == [0, first + second]


MEANWHILE: list[Callable[[Scene, str, Given], Awaitable[None]]] = [_jobs, _retry, _both]


@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=["the jobs", "a retry", "the jobs and a retry"])
@pytest.mark.parametrize("name", INPUTS)
async def test_a_process_that_pauses_before_any_command_moves_the_money_once(
    scene: Scene, name: str, meanwhile: Callable[[Scene, str, Given], Awaitable[None]]
) -> None:
    mutation, (answer, after) = mutation_of(name), AFTER[name]
    for command in half_of_stops(odd=meanwhile is _jobs):
        given = await scene.set(name)
        call, wake = await asleep(scene, mutation, given, command)
        if call.done():
            break

        await meanwhile(scene, mutation, given)
        wake()

        assert await call == answer, command
        assert await scene.typename_of(mutation, given) == answer
        await scene.assert_settled(after)
    assert command > 6


async def test_a_process_that_resumes_after_the_money_is_spent_takes_none(scene: Scene) -> None:
    for command in stops():
        given = await scene.set("a transfer")
        call, wake = await asleep(scene, "transfer", given, command)
        if call.done():
            break

        await _others(scene, "transfer", given)
        wake()

        assert await call in {"InsufficientFunds", "TransferPayload"}, command
        await scene.assert_settled([0, 100])
    assert command > 6


async def test_a_transfer_succeeds_if_another_transfer_of_its_accounts_is_cancelled_meanwhile(scene: Scene) -> None:
    for command in stops():
        given = await scene.set("a transfer")
        call, wake = await asleep(scene, "transfer", given, command)
        if call.done():
            break

        # The cancellation of a transfer that an account has not noted advances the fence of the account.
        await scene.gateway.db["accounts"].update_many({}, {"$inc": {"fence": 1}})
        wake()

        assert await call == "TransferPayload", command
        await scene.assert_settled([70, 30])
        assert await scene.gateway.db["transfers"].count_documents({"source": {"$ne": None}}) == 1
    assert command > 6


@pytest.mark.parametrize("first", range(3, 9))
async def test_two_processes_that_pause_at_different_commands_move_the_money_once(scene: Scene, first: int) -> None:
    for second in range(3, 12):
        given = await scene.set("a transfer")
        one, wake_one = await asleep(scene, "transfer", given, first)
        scene.clock.advance(seconds=31)
        other, wake_other = await asleep(scene, "transfer", given, second)

        await scene.run_jobs(seconds=31)
        wake_one()
        assert await one == "TransferPayload"
        await scene.run_jobs()
        wake_other()

        assert await other == "TransferPayload"
        await scene.assert_settled([70, 30])


# ------------------------------------------------------------------ the doctor


async def problems(gateway: GatewayClient) -> list[str]:
    """Return the problems of the accounts, after the repair of those that have one."""
    found: list[Problem] = []
    for invariant in INVARIANTS:
        found += [problem async for problem in invariant.check(gateway.db)]
    for problem in found:
        if problem.repair is not None:
            await problem.repair()
    return [problem.text for problem in found]


async def test_the_checks_pass_at_any_moment_of_a_transfer(scene: Scene) -> None:
    for name in INPUTS:
        for stop in stops():
            if not await scene.crash(mutation_of(name), await scene.set(name), stop):
                break
            await assert_invariants(scene.gateway)


async def test_an_unexplained_balance_is_reported_and_not_repaired(scene: Scene) -> None:
    await scene.set("a transfer")
    await scene.gateway.db["accounts"].update_many({"owner": "another"}, {"$inc": {"balance": 5}})

    wrong = "its balance is 5, but its transfers add up to 0"
    assert await problems(scene.gateway) == [wrong]
    assert await problems(scene.gateway) == [wrong]


async def test_a_negative_balance_is_reported(scene: Scene) -> None:
    await scene.set("a transfer")
    await scene.gateway.db["accounts"].update_many({"owner": "another"}, {"$inc": {"balance": -5}})

    assert await problems(scene.gateway) == [
        "its balance is -5",
        "its balance is -5, but its transfers add up to 0",
    ]


async def test_a_pending_entry_of_a_cancelled_transfer_is_reported_and_removed(scene: Scene) -> None:
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
    await scene.assert_settled(BEFORE)


async def test_a_pending_entry_of_a_finished_transfer_is_reported(scene: Scene) -> None:
    given = await scene.set("a transfer")
    await scene.typename_of("transfer", given)
    (record,) = await scene.gateway.db["transfers"].find({"source": {"$ne": None}}).to_list()
    note = {"id": record["_id"], "amount": -30}
    await scene.gateway.db["accounts"].update_many({"owner": {"$ne": "another"}}, {"$push": {"pending": note}})

    assert await problems(scene.gateway) == ["it has a note of a transfer that is settled or missing"]
