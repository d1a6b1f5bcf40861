"""Of the workers of a machine, one looks for the work of the jobs. The others send nothing while nothing happens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from portico.gateway.mongo.faults import FaultyDatabase
from portico.gateway.work.duty import Duty
from portico.gateway.work.jobs import Worker
from portico.resolvers.declarations import Job, Resources, Wakeups
from tests.gateway.support.times import Time
from tests.gateway.support.workers import at_work
from tests.support.harness import GatewayClient, SettableClock
from tests.support.sockets import until

PATIENCE = 30.0


@pytest.fixture
def duty(request: pytest.FixtureRequest, time: Time) -> Iterator[Callable[..., Duty]]:
    opened: list[Duty] = []

    def open_(work: str = "", wake: Callable[[str], None] = lambda _: None) -> Duty:
        opened.append(Duty(f"{request.node.nodeid} {work}", PATIENCE, wake, time))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


async def are_on_duty(time: Time, *asked: Duty) -> list[set[bool]]:
    """Asks them for longer than an answer counts, and lets the one on duty answer. Returns the answers of each."""
    found: list[set[bool]] = [set() for _ in asked]
    for _ in range(10):
        for one, answers in zip(asked, found, strict=True):
            answers.add(one.is_ours())
        # A message within a process needs an iteration of the event loop to arrive, and one to be answered.
        for _ in range(5):
            await asyncio.sleep(0)
        time.now += PATIENCE / 4
    return found


async def test_one_of_several_is_on_duty(duty: Callable[..., Duty], time: Time) -> None:
    first, second, third = duty(), duty(), duty()
    assert first.is_ours()

    assert await are_on_duty(time, first, second, third) == [{True}, {False}, {False}]


async def test_the_end_of_the_one_on_duty_is_seen_at_once(duty: Callable[..., Duty], time: Time) -> None:
    first, second, third = duty(), duty(), duty()
    assert [one.is_ours() for one in (first, second, third)] == [True, False, False]

    first.close()

    assert [one.is_ours() for one in (second, third)] == [True, False]
    assert await are_on_duty(time, third) == [{False}]


async def test_others_look_for_work_while_the_one_on_duty_is_suspended(duty: Callable[..., Duty], time: Time) -> None:
    first, second = duty(), duty()
    assert (first.is_ours(), second.is_ours()) == (True, False)
    loop = asyncio.get_running_loop()
    assert first._socket is not None
    loop.remove_reader(first._socket)

    while_suspended = await are_on_duty(time, second)
    loop.add_reader(first._socket, first._receive, first._socket)
    await until(lambda: not second.is_ours())

    assert while_suspended == [{False, True}]
    assert await are_on_duty(time, second) == [{False}]


async def test_other_work_has_a_duty_of_its_own(duty: Callable[..., Duty]) -> None:
    assert duty("one").is_ours()
    assert duty("other").is_ours()


async def test_others_help_with_shared_jobs_that_have_work(duty: Callable[..., Duty], time: Time) -> None:
    woken: list[str] = []
    first, second = duty(), duty(wake=woken.append)
    assert first.is_ours()
    await are_on_duty(time, second)
    assert woken == []

    first.at_work |= {"deliver", "send"}
    await are_on_duty(time, second)

    assert set(woken) == {"deliver", "send"}


async def test_a_second_worker_sends_nothing_while_idle_and_takes_over_when_the_first_one_ends(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    ran: list[str] = []
    databases = [FaultyDatabase.around(gateway.db) for _ in range(2)]

    def job(name: str, number: int) -> Job:
        async def run(_: Job.Run) -> int:
            ran.append(f"{name} {number}")
            return 0

        return Job(name, run, is_shared=name == "shared")

    def worker(number: int) -> Worker:
        jobs = [job("alone", number), job("shared", number)]
        resources = Resources({Wakeups: wakeups[number]})
        # So long that the first one is not taken for suspended while the machine is busy.
        lease = timedelta(seconds=60)
        _, database = databases[number]
        return Worker(database, clock, 0.05, resources, jobs, lease=lease, database=gateway.state.settings.database)

    wakeups = [Wakeups(), Wakeups()]
    async with contextlib.AsyncExitStack() as second:
        async with at_work(worker(0)):
            await until(lambda: set(ran) == {"alone 0", "shared 0"})
            await second.enter_async_context(at_work(worker(1)))
            # For a good while, only the first one looks for work.
            runs = len(ran)
            await until(lambda: len(ran) >= runs + 20)
            idle, sent = set(ran), list(databases[1][0].commands)
            wakeups[1].wake("shared")
            await until(lambda: "shared 1" in ran)
            woken = set(ran)
        await until(lambda: "alone 1" in ran)

    assert (idle, sent) == ({"alone 0", "shared 0"}, [])
    assert woken == {*idle, "shared 1"}


async def test_a_request_in_another_process_wakes_a_job_that_is_not_shared(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    ran: asyncio.Queue[int] = asyncio.Queue()
    wakeups = [Wakeups(), Wakeups()]

    def worker(number: int) -> Worker:
        async def run(_: Job.Run) -> int:
            ran.put_nowait(number)
            return 0

        resources = Resources({Wakeups: wakeups[number]})
        # Long enough that no job runs again by itself.
        return Worker(gateway.db, clock, 600, resources, [Job("alone", run)], database=gateway.state.settings.database)

    async with asyncio.timeout(30), at_work(worker(0)):
        assert await ran.get() == 0
        async with at_work(worker(1)):
            await asyncio.sleep(0.1)
            wakeups[1].wake("alone")
            assert await ran.get() == 0
