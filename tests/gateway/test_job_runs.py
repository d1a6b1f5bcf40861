"""What a failure of one job, number or check leaves alone, and what the log and `/metrics` say about it."""

from __future__ import annotations

import asyncio
import io
import itertools
import time
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from datetime import datetime
from typing import Any

import pytest
from pymongo.errors import AutoReconnect
from rich.console import Console
from structlog.testing import capture_logs

from portico.gateway.cli.data import check_invariant
from portico.gateway.logs import configure
from portico.gateway.metrics import JobMetrics, Metrics
from portico.gateway.settings import Settings
from portico.gateway.work import job_runs
from portico.gateway.work.job_runs import LONGEST_PAUSE, AllRuns, JobRuns
from portico.gateway.work.jobs import Worker
from portico.gateway.work.loop_watch import LoopWatch
from portico.resolvers.declarations import Counter, Gauge, Job, Resources
from portico.resolvers.documents import Database
from portico.resolvers.problems import Invariant, Problem
from portico.resolvers.writes.sweeps import SweepFailed, each
from tests.gateway.support.workers import at_work
from tests.support.fixtures import settings_with
from tests.support.harness import GatewayClient, SettableClock
from tests.support.sockets import until

settings = settings_with(log_level="warning")


@pytest.fixture(autouse=True)
def _warnings(settings: Settings) -> None:
    configure(settings)


Log = Sequence[MutableMapping[str, Any]]


async def fail(_: Job.Run) -> int:
    raise RuntimeError("no such table")


async def succeed(_: Job.Run) -> int:
    return 2


def a_worker(gateway: GatewayClient, clock: SettableClock, runs: AllRuns, *jobs: Job, pause: float = 0.01) -> Worker:
    return Worker(gateway.db, clock, pause, gateway.state.resources, jobs, runs=runs)


def of_event(log: Log, event: str) -> Log:
    return [entry for entry in log if entry["event"] == event]


async def test_a_job_that_always_fails_has_one_traceback_and_grows_its_pauses(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runs, "_FIRST_INTERVAL", 0.0)
    runs, failing = AllRuns(), Job("failing", fail)
    with capture_logs() as log:
        async with at_work(a_worker(gateway, clock, runs, failing)):
            await until(lambda: runs.of(failing).failures == 5)

    assert len(of_event(log, "job failed")) == 1
    again = of_event(log, "job fails again")
    assert [(entry["job"], entry["error"]) for entry in again] == [("failing", "RuntimeError: no such table")] * 4
    assert all("exc_info" not in entry for entry in again)
    assert runs.of(failing).pause(0.01) == pytest.approx(0.32)


async def remind(_: object) -> Any:
    """A job that does not say how much it did."""


async def remind_each(_: Job.Run) -> int:
    return await each([1, 2], remind)


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("job", [remind, remind_each])
async def test_a_job_that_returns_no_number_is_named(
    gateway: GatewayClient, clock: SettableClock, job: Callable[[Any], Any], is_shared: bool
) -> None:
    runs, reminding = AllRuns(), Job("remind", job, is_shared=is_shared)
    with capture_logs() as log:
        assert await a_worker(gateway, clock, runs, reminding).run_once() == 0

    (failed,) = of_event(log, "job failed")
    (error,) = getattr(failed["exc_info"], "exceptions", [failed["exc_info"]])[:1]
    assert repr(error) == "TypeError('remind must return how much it did, as a whole number; it returned None.')"
    assert runs.of(reminding).failures == 1


async def test_another_failure_of_the_job_has_its_own_traceback(gateway: GatewayClient, clock: SettableClock) -> None:
    errors: list[Exception] = [RuntimeError("1"), RuntimeError("2"), KeyError("3"), RuntimeError("4")]

    async def run(_: Job.Run) -> int:
        error = errors.pop(0)
        if not errors:
            raise error
        raise error

    one = a_worker(gateway, clock, AllRuns(), Job("failing", run))
    with capture_logs() as log:
        for _ in range(4):
            await one.run_once()

    # The second one is the same failure: it has another text, but the same type and place.
    assert [str(entry["exc_info"]) for entry in of_event(log, "job failed")] == ["1", "'3'", "4"]


async def test_damage_of_another_document_has_its_own_traceback(gateway: GatewayClient, clock: SettableClock) -> None:
    damaged = ["a", "a", "b"]

    async def run(_: Job.Run) -> int:
        error = ValueError(f"seen at {time.monotonic()}")
        error.add_note(f"In carts: {damaged.pop(0)!r}")
        raise SweepFailed.of([error], done=0)

    one = a_worker(gateway, clock, AllRuns(), Job("sweeping", run))
    with capture_logs() as log:
        for _ in range(3):
            await one.run_once()

    found = [entry["exc_info"].exceptions[0].__notes__ for entry in of_event(log, "job failed")]
    assert found == [["In carts: 'a'"], ["In carts: 'b'"]]


async def test_a_failing_job_delays_no_other_and_both_are_counted(gateway: GatewayClient, clock: SettableClock) -> None:
    runs, failing, other = AllRuns(), Job("failing", fail), Job("other", succeed)
    with capture_logs():
        await a_worker(gateway, clock, runs, failing, other).run_once()

    shown = await numbers(Metrics([JobMetrics(runs)]), gateway)
    assert shown['portico_job_runs_total{job="failing"}'] == shown['portico_job_failures_total{job="failing"}'] == 1
    assert (shown['portico_job_runs_total{job="other"}'], shown['portico_job_failures_total{job="other"}']) == (1, 0)
    assert shown['portico_job_done_total{job="other"}'] == 2
    assert shown['portico_job_running_seconds{job="other"}'] == 0


async def test_the_gateway_shows_the_runs_of_its_jobs(gateway: GatewayClient) -> None:
    # The jobs of this gateway are off, so it has no runs to show.
    text = (await gateway.http.get("/metrics")).text
    assert "# TYPE portico_job_failures_total counter" in text


async def test_damaged_documents_do_not_slow_down_the_job(gateway: GatewayClient, clock: SettableClock) -> None:
    async def run(_: Job.Run) -> int:
        raise SweepFailed.of([KeyError("amount")], done=3)

    runs, sweeping = AllRuns(), Job("sweeping", run)
    one = a_worker(gateway, clock, runs, sweeping)
    with capture_logs() as log:
        for _ in range(5):
            await one.run_once()

    assert (runs.of(sweeping).failures, runs.of(sweeping).done) == (5, 15)
    assert runs.of(sweeping).pause(1.0) == 1.0
    assert len(of_event(log, "job failed")) == 1


async def test_an_outage_lengthens_no_pause(gateway: GatewayClient, clock: SettableClock) -> None:
    async def run(_: Job.Run) -> int:
        raise AutoReconnect("connection closed")

    runs, cut_off = AllRuns(), Job("cut off", run)
    with capture_logs() as log:
        await a_worker(gateway, clock, runs, cut_off).run_once()

    assert (runs.of(cut_off).failures, runs.of(cut_off).pause(1.0)) == (1, 1.0)
    assert of_event(log, "job failed") == []


def test_pauses_have_a_longest_and_a_success_ends_them() -> None:
    runs = JobRuns("failing")
    with capture_logs():
        for _ in range(2_000):
            runs.failed(RuntimeError("again"))
    assert runs.pause(1.0) == LONGEST_PAUSE
    assert runs.pause(3_600.0) == 3_600.0

    runs.succeeded(0)
    assert runs.pause(1.0) == 1.0


@pytest.mark.parametrize("is_shared", [False, True], ids=["leased", "shared"])
async def test_the_log_says_where_a_hanging_job_waits(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, *, is_shared: bool
) -> None:
    monkeypatch.setattr(job_runs, "HANGS_AFTER", 0.05)
    ends = asyncio.Event()

    async def wait_for_the_provider(_: Job.Run) -> int:
        await ends.wait()
        return 0

    runs, hanging = AllRuns(), Job("hanging", wait_for_the_provider, is_shared=is_shared)
    with capture_logs() as log:
        turn = asyncio.create_task(a_worker(gateway, clock, runs, hanging).run_once())
        await until(lambda: len(of_event(log, "job is still running")) >= 2)
        assert runs.of(hanging).running_seconds > 0.05
        ends.set()
        await turn

    entry = of_event(log, "job is still running")[0]
    assert entry["job"] == "hanging"
    assert any(line.endswith(" wait_for_the_provider") for line in entry["waits_at"])
    assert runs.of(hanging).running_seconds == 0


async def numbers(metrics: Metrics, gateway: GatewayClient) -> dict[str, float]:
    """Returns what `/metrics` shows, by name and labels."""
    response = await metrics.response(gateway.db, gateway.state.clock.now(), gateway.state.resources)
    lines = [line for line in bytes(response.body).decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


async def test_a_number_that_fails_is_left_out_named_and_counted(gateway: GatewayClient) -> None:
    async def broken(_db: Database, _now: datetime) -> float:
        raise KeyError("lag")

    async def ten(_db: Database, _now: datetime) -> float:
        return 10

    def uncounted(_: Resources) -> float:
        raise TypeError("no counter")

    metrics = Metrics(
        [],
        [Gauge("portico_broken", "Breaks.", broken), Gauge("portico_ten", "Is ten.", ten)],
        [Counter("portico_uncounted", "Breaks.", uncounted), Counter("portico_four", "Is four.", lambda _: 4)],
    )
    with capture_logs() as log:
        shown = await numbers(metrics, gateway)

    assert (shown["portico_ten"], shown["portico_four_total"]) == (10, 4)
    assert "portico_broken" not in shown
    assert "portico_uncounted_total" not in shown
    assert shown['portico_metric_failures_total{metric="portico_broken"}'] == 1
    assert shown['portico_metric_failures_total{metric="portico_uncounted"}'] == 1
    assert {entry["metric"] for entry in of_event(log, "metric failed")} == {"portico_broken", "portico_uncounted"}


async def test_a_check_that_fails_is_named_and_the_database_is_not_blamed(gateway: GatewayClient) -> None:
    async def check(_: Database) -> AsyncIterator[Problem]:
        yield Problem("one", "it is wrong", repair)
        raise RuntimeError("not today")

    async def repair() -> None:
        raise RuntimeError("nor tomorrow")

    printed = io.StringIO()
    left = await check_invariant(gateway.db, Invariant("All is well.", check), Console(file=printed), repair=True)

    assert left == 2
    assert printed.getvalue().splitlines() == [
        "  one: it is wrong",
        "  the check: it stopped: RuntimeError: not today",
        "FAIL All is well. 2 wrong, 0 repaired.",
    ]


async def test_a_repair_that_changes_nothing_is_not_counted(gateway: GatewayClient) -> None:
    wrong = ["one", "two"]

    async def check(_: Database) -> AsyncIterator[Problem]:
        for name in [*wrong]:
            yield Problem(name, "it is wrong", repair)

    async def repair() -> None:
        if "one" in wrong:
            wrong.remove("one")

    printed = io.StringIO()
    left = await check_invariant(gateway.db, Invariant("All is well.", check), Console(file=printed), repair=True)

    assert left == 1
    assert printed.getvalue().splitlines()[-1] == "FAIL All is well. 2 wrong, 1 repaired."


async def test_a_check_that_yields_something_else_is_named(gateway: GatewayClient) -> None:
    async def check(_: Database) -> AsyncIterator[Any]:
        yield "loan 7 is late"

    printed = io.StringIO()
    left = await check_invariant(gateway.db, Invariant("All is well.", check), Console(file=printed), repair=True)

    assert left == 1
    assert printed.getvalue().splitlines() == [
        "  the check: it stopped: NoProblem: the check yielded 'loan 7 is late'. Yield a `portico.jobs.Problem`.",
        "FAIL All is well. 1 wrong, 0 repaired.",
    ]


async def test_a_check_ends_with_the_outage_that_it_meets(gateway: GatewayClient) -> None:
    async def check(_: Database) -> AsyncIterator[Problem]:
        yield Problem("one", "it is wrong")
        raise AutoReconnect("connection closed")

    with pytest.raises(AutoReconnect):
        await check_invariant(gateway.db, Invariant("All is well.", check), Console(file=io.StringIO()), repair=False)


def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)


def blocks_in(log: Log) -> Sequence[tuple[MutableMapping[str, Any], MutableMapping[str, Any]]]:
    """Returns each entry whose stack has `block_the_loop`, with the next entry."""
    return [pair for pair in itertools.pairwise(log) if "block_the_loop" in pair[0].get("stack", "")]


async def test_a_blocked_event_loop_is_logged_with_its_stack() -> None:
    with capture_logs() as log:
        watch = LoopWatch(patience=0.1, interval=0.01)
        await asyncio.sleep(0.05)
        block_the_loop(1.5)
        # A busy machine may block it before and afterwards, too.
        await until(lambda: bool(blocks_in(log)))
        await watch.aclose()

    blocked, continues = blocks_in(log)[0]
    assert (blocked["event"], continues["event"]) == ("event loop blocked", "event loop continues")
    assert continues["seconds"] >= blocked["seconds"]
    assert continues["seconds"] > 1


async def test_a_waiting_event_loop_is_not_blocked() -> None:
    with capture_logs() as log:
        watch = LoopWatch(interval=0.01)
        await asyncio.sleep(0.3)
        await watch.aclose()

    assert log == []
