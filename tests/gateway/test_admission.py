"""A bounded number of operations runs at a time, connections take turns, and what exceeds the queue is refused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Hashable

import pytest

from portico.gateway.operations import admission as admissions
from portico.gateway.operations.admission import Admission, Overloaded
from portico.resolvers.waiting import waiting
from tests.support.sockets import until


class Work:
    """Operations that run until the test ends them, in the order in which they got a slot."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.started: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def add(self, name: str, connection: Hashable = None, *, must_run: bool = False) -> asyncio.Task[None]:
        """Start an operation. Return when it has a slot or is in the queue."""
        self._ends[name] = asyncio.Event()
        task = asyncio.create_task(self._run(name, connection, must_run))
        await settled()
        return task

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await settled()

    async def _run(self, name: str, connection: Hashable, must_run: bool) -> None:
        async with self.admission.slot(connection, must_run=must_run):
            self.started.append(name)
            await self._ends[name].wait()


async def settled() -> None:
    """Let everything happen that needs no time."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def work() -> Work:
    """One slot, and a queue for four."""
    return Work(Admission(1, 4, 60.0))


async def test_connections_take_turns(work: Work) -> None:
    await work.add("first", "busy")
    for name in ("busy 1", "busy 2", "busy 3"):
        await work.add(name, "busy")
    await work.add("quiet", "quiet")

    for name in ("first", "busy 1", "quiet", "busy 2", "busy 3"):
        assert work.started[-1] == name
        await work.end(name)

    assert (work.admission.running, work.admission.queued) == (0, 0)


async def test_an_operation_is_refused_at_once_if_the_queue_is_full(work: Work) -> None:
    for name in "abcde":
        await work.add(name, name)
    assert work.admission.is_full

    refused = await work.add("f", "f")

    assert isinstance(refused.exception(), Overloaded)
    assert (work.admission.running, work.admission.queued, work.admission.refused) == (1, 4, 1)
    await work.end("a")
    assert not work.admission.is_full


async def test_an_operation_is_refused_after_it_has_waited_too_long() -> None:
    work = Work(Admission(1, 4, 0.05))
    await work.add("a")

    with pytest.raises(Overloaded):
        await (await work.add("b"))

    assert (work.admission.queued, work.admission.refused) == (0, 1)
    await work.end("a")
    await work.add("c")
    assert work.started == ["a", "c"]


async def test_what_must_run_waits_even_if_the_queue_is_full(work: Work) -> None:
    for name in "abcde":
        await work.add(name, "others")

    event = await work.add("event", "subscriber", must_run=True)
    await work.end("a")
    await work.end("b")

    assert work.started == ["a", "b", "event"]
    assert not event.done()
    assert work.admission.refused == 0


async def test_a_cancelled_operation_leaves_the_queue(work: Work) -> None:
    await work.add("a")
    gone = await work.add("b")
    await work.add("c")

    gone.cancel()
    await settled()

    assert work.admission.queued == 1
    await work.end("a")
    assert work.started == ["a", "c"]


async def test_a_slot_given_to_an_operation_that_is_cancelled_goes_to_the_next(work: Work) -> None:
    running = await work.add("a")
    gone = await work.add("b")
    await work.add("c")

    running.cancel()
    gone.cancel()
    await settled()

    assert work.started == ["a", "c"]


async def test_an_operation_that_waits_for_something_else_gives_its_slot_to_others(work: Work) -> None:
    answered = asyncio.Event()

    async def pay() -> None:
        async with work.admission.slot("payer"):
            async with waiting():
                await answered.wait()
            work.started.append("paid")

    payer = asyncio.create_task(pay())
    await settled()
    for name in "abcd":
        await work.add(name, name)
    assert work.started == ["a"]

    answered.set()
    await settled()
    assert work.started == ["a"]
    await work.end("a")

    await payer
    assert work.started == ["a", "paid", "b"]
    assert work.admission.refused == 0


async def test_operations_that_wait_for_something_else_are_bounded_too() -> None:
    admission = Admission(1, 2, 60.0)
    answered = asyncio.Event()

    async def pay() -> None:
        async with admission.slot("payer"), waiting():
            await answered.wait()

    payers = [asyncio.create_task(pay()) for _ in range(3)]
    await settled()

    assert (admission.running, admission.waiting, admission.refused) == (0, 2, 1)
    answered.set()
    outcomes = await asyncio.gather(*payers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), type(None), Overloaded]
    assert (admission.running, admission.waiting) == (0, 0)


async def test_an_operation_that_ends_while_a_task_of_it_waits_keeps_no_slot(work: Work) -> None:
    go_on = asyncio.Event()

    async def aside() -> None:
        async with waiting():
            await go_on.wait()

    async with work.admission.slot("a"):
        left = asyncio.create_task(aside())
        await settled()
    go_on.set()
    await left

    assert work.admission.running == 0


async def test_an_operation_that_runs_for_long_stops_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admissions, "SLOW_SECONDS", 0.01)
    work = Work(Admission(1, 4, 60.0))
    await work.add("slow")
    others = [await work.add(name, name) for name in ("a", "b")]

    await until(lambda: len(work.started) == 2)
    await asyncio.sleep(0.1)

    # There is one slot, so one slow operation runs beside.
    assert (work.started, work.admission.running) == (["slow", "a"], 2)
    await work.end("a")
    assert work.started == ["slow", "a", "b"]
    for name in ("slow", "b"):
        await work.end(name)
    await asyncio.gather(*others)
    assert work.admission.running == 0


async def test_nothing_is_lost_among_many_operations_that_are_cancelled_or_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However busy the machine is, no operation runs for so long that others run beside.
    monkeypatch.setattr(admissions, "SLOW_SECONDS", 60.0)
    rng = random.Random(11)
    admission = Admission(3, 20, 0.05)
    most = 0

    async def one(number: int) -> None:
        nonlocal most
        async with admission.slot(number % 7, must_run=rng.random() < 0.2):
            most = max(most, admission.running)
            await asyncio.sleep(rng.uniform(0, 0.003))
            if rng.random() < 0.3:
                async with waiting():
                    await asyncio.sleep(rng.uniform(0, 0.003))

    tasks = []
    for number in range(1_000):
        tasks.append(asyncio.create_task(one(number)))
        if number % 20 == 0:
            await asyncio.sleep(0.005)
    for task in tasks:
        if rng.random() < 0.2:
            task.cancel()
            await asyncio.sleep(0)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(outcome) for outcome in outcomes if outcome is not None} <= {Overloaded, asyncio.CancelledError}
    assert outcomes.count(None) > 100
    assert most == 3
    assert (admission.running, admission.queued) == (0, 0)
