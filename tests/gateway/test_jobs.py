"""Background jobs: which worker runs them, when, and what happens if they fail. A lease has one owner at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import pytest
from pymongo.errors import AutoReconnect

from portico.gateway.settings import Settings
from portico.gateway.work.jobs import Worker
from portico.resolvers.catalog import category_jobs, product_jobs
from portico.resolvers.catalog.vocabulary import store_words
from portico.resolvers.declarations import Job, Wakeups
from portico.resolvers.documents import Database
from portico.resolvers.texts import words
from portico.resolvers.writes import leases
from tests.catalog.support.cases import id_and_nonce
from tests.gateway.support.workers import at_work, worker
from tests.support.documents import only
from tests.support.domains import DOMAINS, JOBS
from tests.support.fixtures import gateway_with, settings_with
from tests.support.harness import (
    MUTATIONS,
    GatewayClient,
    SettableClock,
    assert_invariants,
    category_input,
    create_category,
    create_product,
    product_input,
    running,
)
from tests.support.interruptions import crashing, interrupted

pytestmark = pytest.mark.both_drivers
# The gateway has run each job once, and pauses.
settings = settings_with(jobs=True, job_seconds=3600.0)
# A gateway without jobs, for tests that run a job themselves. The first run of all jobs takes most of a test.
idle = gateway_with(jobs=False)


class Mark(NamedTuple):
    """A mark, and the call that leaves it if it crashes after some changes."""

    collection: str
    # The path of its time.
    path: str
    mutation: str
    # Makes the input of a category, of one below it, and of a product.
    given: Callable[[Any, Any, Any], dict[str, Any]]
    after: int = 1


FINISH_PRODUCTS = partial(product_jobs.finish_changes, attachments=DOMAINS.attachments)
MARKS = {
    "pending": Mark("categories", "pending.at", "createCategory", lambda one, *_: category_input(parentId=one["id"])),
    "refresh": Mark("categories", "refresh.0.at", "renameCategory", lambda one, *_: {"id": one["id"], "name": "New"}),
    "moving": Mark("categories", "moving.at", "moveCategory", lambda _, below, __: {"id": below["id"]}),
    "deleting": Mark("categories", "deleting.at", "deleteCategory", lambda _, below, __: {"id": below["id"]}),
    "intent": Mark("intents", "at", "createProduct", lambda one, *_: product_input(categoryIds=[one["id"]]), after=2),
    "incoming": Mark(
        "products",
        "incoming.0.at",
        "updateProduct",
        lambda one, _, made: id_and_nonce(made) | {"categoryIds": [one["id"]]},
    ),
}


async def leave(gateway: GatewayClient, name: str, after: int | None = None) -> None:
    """Crashes the call that leaves the mark, after this number of changes instead of its own if given."""
    mark, one = MARKS[name], await create_category(gateway)
    below, made = await create_category(gateway, parentId=one["id"]), await create_product(gateway)
    given = mark.given(one, below, made)
    # Known already, so that the write stores no words before its first step.
    texts = (given.get("name"), given.get("title"), given.get("details", {}).get("artist"))
    await store_words(gateway.db, words(" ".join(text for text in texts if text)))
    with crashing(gateway, after or mark.after):
        answer = await gateway.ask(MUTATIONS[mark.mutation], {"input": given})
    assert answer.codes == ["INTERNAL"]


async def left(gateway: GatewayClient, name: str) -> int:
    mark = MARKS[name]
    return await gateway.db[mark.collection].count_documents({mark.path: {"$exists": True}})


@pytest.mark.parametrize("name", MARKS)
async def test_a_mark_is_settled_after_five_seconds_and_not_before(idle: GatewayClient, name: str) -> None:
    mark = MARKS[name]
    await leave(idle, name)
    at: Any = await only(idle.db[mark.collection], {mark.path: {"$exists": True}})
    for step in mark.path.split("."):
        at = at[int(step)] if isinstance(at, list) else at[step]
    finish: Any = category_jobs.finish_changes if mark.collection == "categories" else FINISH_PRODUCTS

    early = await finish(idle.db, now=at + timedelta(seconds=4, milliseconds=999))
    left_early = await left(idle, name)
    in_time = await finish(idle.db, now=at + timedelta(seconds=5))
    again = await finish(idle.db, now=at + timedelta(days=1))

    assert (early, left_early, in_time, again) == (0, 1, 1, 0)
    assert await left(idle, name) == 0
    await assert_invariants(idle)


async def test_an_announced_product_may_be_written_for_a_minute(idle: GatewayClient) -> None:
    await leave(idle, "intent", after=1)
    at = (await only(idle.db["intents"]))["at"]

    settled = [await FINISH_PRODUCTS(idle.db, now=at + timedelta(seconds=age)) for age in (59, 60, 61)]

    assert settled == [0, 1, 0]


async def test_many_marks_are_settled_in_one_run(idle: GatewayClient, clock: SettableClock) -> None:
    for name in [*MARKS] * 3:
        await leave(idle, name)
    clock.advance(seconds=6)

    run = Job.Run(idle.db, clock.now(), idle.state.resources)
    done = {job.name: await job.run(run) for job in JOBS}

    assert {name: number for name, number in done.items() if number} == {"finish-categories": 12, "finish-products": 6}
    assert [await left(idle, name) for name in MARKS] == [0] * 6
    await assert_invariants(idle)


async def test_two_workers_do_not_run_one_job_at_once(gateway: GatewayClient, clock: SettableClock) -> None:
    for _ in range(6):
        await leave(gateway, "moving")
    # The paused worker of the gateway has held the leases until now.
    clock.advance(seconds=61)
    inside: list[str] = []
    most = 0

    async def look() -> None:
        nonlocal most
        inside.append("at work")
        most = max(most, len(inside))
        await asyncio.sleep(0.1)
        inside.pop()

    # Other jobs look for categories, too, and run beside this one.
    jobs = [job for job in JOBS if job.name == "finish-categories"]
    one, other = (
        worker(gateway, clock, interrupted(gateway.db, "categories", "find", look), jobs=jobs) for _ in range(2)
    )

    assert sum(await asyncio.gather(one.run_once(), other.run_once())) == 6
    assert most == 1
    assert await left(gateway, "moving") == 0


async def test_a_worker_keeps_its_jobs_until_its_lease_expires(gateway: GatewayClient, clock: SettableClock) -> None:
    clock.stop()
    clock.advance(seconds=61)
    one, other = worker(gateway, clock), worker(gateway, clock)
    await leave(gateway, "moving")
    await one.run_once()
    clock.advance(seconds=6)

    assert await other.run_once() == 0
    # The first worker does not renew its leases, as if it were killed.
    clock.advance(seconds=4)
    assert await other.run_once() == 1
    await leave(gateway, "moving")
    clock.advance(seconds=6)
    assert await one.run_once() == 0


async def test_a_stopped_worker_releases_its_jobs(gateway: GatewayClient, clock: SettableClock) -> None:
    leased = len([job for job in JOBS if not job.is_shared])
    clock.advance(seconds=61)
    async with at_work(worker(gateway, clock)), asyncio.timeout(10):
        while await gateway.db["leases"].count_documents({"until": {"$gt": clock.now()}}) < leased:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    await leave(gateway, "moving")
    clock.advance(seconds=6)
    assert await worker(gateway, clock).run_once() == 1


async def test_a_worker_stops_even_if_the_driver_swallows_the_cancellation(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    clock.advance(seconds=61)
    reached = asyncio.Event()

    async def swallow() -> None:
        reached.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        raise AutoReconnect("the connection was cancelled")

    task = asyncio.create_task(worker(gateway, clock, interrupted(gateway.db, "categories", "find", swallow)).run())
    await reached.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)


async def test_a_failed_job_does_not_stop_the_others_and_is_retried(gateway: GatewayClient) -> None:
    await leave(gateway, "moving")
    await leave(gateway, "incoming")
    gateway.clock.advance(seconds=61)

    finish = next(job for job in JOBS if job.name == "finish-categories")
    lost = [AutoReconnect("the connection is gone")]

    async def run(given: Job.Run) -> int:
        if lost:
            raise lost.pop()
        return await finish.run(given)

    # Other jobs look for categories, too, so a failing command could be theirs.
    ours = worker(gateway, gateway.clock, jobs=[replace(job, run=run) if job is finish else job for job in JOBS])

    assert await ours.run_once() == 1
    assert [await left(gateway, name) for name in ("moving", "incoming")] == [1, 0]
    assert await ours.run_once() == 1
    assert await left(gateway, "moving") == 0


async def test_a_running_gateway_settles_marks_and_releases_its_leases(
    settings: Settings, clock: SettableClock
) -> None:
    async with running(replace(settings, job_seconds=0.05), clock=clock) as gateway:
        for name in MARKS:
            await leave(gateway, name)
        clock.advance(seconds=6)
        async with asyncio.timeout(60):
            while sum([await left(gateway, name) for name in MARKS]):  # noqa: ASYNC110 - a job signals nothing
                await asyncio.sleep(0.05)
        await assert_invariants(gateway)
        (owner,) = await gateway.db["leases"].distinct("owner")
    async with running(settings, clock=clock) as gateway:
        (successor,) = await gateway.db["leases"].distinct("owner")
    assert successor != owner


async def test_a_gateway_without_jobs_leaves_them_to_other_workers(settings: Settings, clock: SettableClock) -> None:
    async with running(replace(settings, jobs=False, job_seconds=0.01), clock=clock) as gateway:
        await leave(gateway, "moving")
        clock.advance(seconds=61)
        await asyncio.sleep(0.2)

        assert await gateway.db["leases"].count_documents({}) == 0
        assert await left(gateway, "moving") == 1
        assert await worker(gateway, clock).run_once() == 1


async def test_all_workers_run_a_shared_job_at_once(gateway: GatewayClient, clock: SettableClock) -> None:
    together = asyncio.Barrier(2)

    async def meet(_run: Job.Run) -> int:
        await asyncio.wait_for(together.wait(), 20)
        return 1

    jobs = [Job("meet", meet, is_shared=True)]
    one, other = worker(gateway, clock, jobs=jobs), worker(gateway, clock, jobs=jobs)

    assert list(await asyncio.gather(one.run_once(), other.run_once())) == [1, 1]
    assert await gateway.db["leases"].find_one({"_id": "meet"}) is None


async def test_a_woken_job_runs_at_once_and_once_more_if_woken_during_its_run(gateway: GatewayClient) -> None:
    runs: asyncio.Queue[int] = asyncio.Queue()
    wakeups = gateway.state.resources.of(Wakeups)

    async def run(_run: Job.Run) -> int:
        if not runs.qsize():
            wakeups.wake("slow")
        runs.put_nowait(1)
        return 0

    slow = Worker(gateway.db, gateway.clock, 3600.0, gateway.state.resources, [Job("slow", run)])
    async with at_work(slow):
        assert [await asyncio.wait_for(runs.get(), 20) for _ in range(2)] == [1, 1]
        wakeups.wake("slow")
        assert await asyncio.wait_for(runs.get(), 20) == 1


NOON = datetime(2026, 11, 21, 12)  # noqa: DTZ001 - as the driver returns it, UTC without a zone
MINUTE = timedelta(minutes=1)


async def acquire(db: Database, owner: str, *, after: float = 0, name: str = "work") -> bool:
    return await leases.acquire(db, name, owner=owner, now=NOON + timedelta(seconds=after), duration=MINUTE)


async def test_a_lease_excludes_others_until_it_expires(db: Database) -> None:
    assert await acquire(db, "one")

    assert not await acquire(db, "other", after=0)
    assert not await acquire(db, "other", after=59.999)
    assert await acquire(db, "other", after=60)
    assert not await acquire(db, "one", after=61)


async def test_an_owner_can_renew_its_lease(db: Database) -> None:
    assert await acquire(db, "one")
    assert await acquire(db, "one", after=59)

    assert not await acquire(db, "other", after=118)
    assert await acquire(db, "other", after=119)


async def test_only_its_owner_can_release_a_lease(db: Database) -> None:
    assert await acquire(db, "one")

    await leases.release(db, ["work"], owner="other")
    assert not await acquire(db, "other")
    await leases.release(db, ["work"], owner="one")
    assert await acquire(db, "other")


async def test_leases_with_different_names_are_independent(db: Database) -> None:
    assert await acquire(db, "one", name="work")
    assert await acquire(db, "other", name="other work")


async def test_exactly_one_of_many_concurrent_requests_gets_a_lease(db: Database) -> None:
    for after in (0, 60, 120):
        taken = await asyncio.gather(*(acquire(db, f"owner {n} after {after}", after=after) for n in range(20)))
        assert sorted(taken) == [False] * 19 + [True]
