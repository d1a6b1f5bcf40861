"""Background jobs: which worker runs them, when, and what happens if they fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from portico.gateway.settings import Settings
from portico.gateway.work.jobs import Worker
from portico.resolvers.catalog import category_jobs, product_jobs
from portico.resolvers.catalog.vocabulary import store_words
from portico.resolvers.declarations import Job, Wakeups
from portico.resolvers.texts import words
from tests.gateway.support.workers import worker
from tests.support.domains import DOMAINS, JOBS
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


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings of a gateway that has run each job once, and pauses."""
    return replace(settings, jobs=True, job_seconds=3600.0)


@pytest.fixture
async def idle(settings: Settings, clock: SettableClock) -> AsyncIterator[GatewayClient]:
    """A gateway without jobs, for tests that run a job themselves. The first run of all jobs takes most of a test."""
    async with running(replace(settings, jobs=False), clock=clock) as client:
        yield client


# Marks of interrupted writes


async def leave_pending(gateway: GatewayClient) -> None:
    parent = await create_category(gateway)
    await stop(gateway, "createCategory", category_input(parentId=parent["id"]), 1)


async def leave_refresh(gateway: GatewayClient) -> None:
    one = await create_category(gateway)
    await create_category(gateway, parentId=one["id"])
    await stop(gateway, "renameCategory", {"id": one["id"], "name": "New"}, 1)


async def leave_moving(gateway: GatewayClient) -> None:
    one, place = await create_category(gateway), await create_category(gateway)
    await stop(gateway, "moveCategory", {"id": one["id"], "newParentId": place["id"]}, 1)


async def leave_deleting(gateway: GatewayClient) -> None:
    one = await create_category(gateway)
    await stop(gateway, "deleteCategory", {"id": one["id"]}, 1)


async def leave_intent(gateway: GatewayClient) -> None:
    one = await create_category(gateway)
    await stop(gateway, "createProduct", product_input(categoryIds=[one["id"]]), 2)


async def leave_incoming(gateway: GatewayClient) -> None:
    one, product = await create_category(gateway), await create_product(gateway)
    given = {"id": product["id"], "nonce": product["nonce"], "categoryIds": [one["id"]]}
    await stop(gateway, "updateProduct", given, 1)


async def stop(gateway: GatewayClient, mutation: str, given: dict[str, Any], after: int) -> None:
    # Known already, so that the write stores no words before its first step.
    texts = (given.get("name"), given.get("title"), given.get("details", {}).get("artist"))
    await store_words(gateway.db, words(" ".join(text for text in texts if text)))
    with crashing(gateway, after):
        answer = await gateway.ask(MUTATIONS[mutation], {"input": given})
    assert answer.codes == ["INTERNAL"]


# For each mark: the function that leaves it, the collection, and the path of its time.
FINISH_PRODUCTS = partial(product_jobs.finish_changes, attachments=DOMAINS.attachments)
LEFT: dict[str, tuple[Callable[[GatewayClient], Any], str, str]] = {
    "pending": (leave_pending, "categories", "pending.at"),
    "refresh": (leave_refresh, "categories", "refresh.0.at"),
    "moving": (leave_moving, "categories", "moving.at"),
    "deleting": (leave_deleting, "categories", "deleting.at"),
    "intent": (leave_intent, "intents", "at"),
    "incoming": (leave_incoming, "products", "incoming.0.at"),
}


def left(gateway: GatewayClient, name: str) -> Any:
    _, collection, path = LEFT[name]
    return gateway.db[collection].count_documents({path: {"$exists": True}})


@pytest.mark.parametrize("name", LEFT)
async def test_a_mark_is_settled_after_five_seconds_and_not_before(idle: GatewayClient, name: str) -> None:
    leave, collection, path = LEFT[name]
    await leave(idle)
    (document,) = await idle.db[collection].find({path: {"$exists": True}}).to_list()
    at: Any = document
    for step in path.split("."):
        at = at[int(step)] if isinstance(at, list) else at[step]
    finish: Any = category_jobs.finish_changes if collection == "categories" else FINISH_PRODUCTS

    early = await finish(idle.db, now=at + timedelta(seconds=4, milliseconds=999))
    left_early = await left(idle, name)
    in_time = await finish(idle.db, now=at + timedelta(seconds=5))
    again = await finish(idle.db, now=at + timedelta(days=1))

    assert (early, left_early, in_time, again) == (0, 1, 1, 0)
    assert await left(idle, name) == 0
    await assert_invariants(idle)


async def test_an_announced_product_may_be_written_for_a_minute(idle: GatewayClient) -> None:
    one = await create_category(idle)
    await stop(idle, "createProduct", product_input(categoryIds=[one["id"]]), 1)
    at = (await idle.db["intents"].find({}).to_list())[0]["at"]

    settled = [await FINISH_PRODUCTS(idle.db, now=at + timedelta(seconds=age)) for age in (59, 60, 61)]

    assert settled == [0, 1, 0]


async def test_many_marks_are_settled_in_one_run(idle: GatewayClient, clock: SettableClock) -> None:
    for leave, _, _ in [*LEFT.values()] * 3:
        await leave(idle)
    clock.advance(seconds=6)

    run = Job.Run(idle.db, clock.now(), idle.state.resources)
    done = [await job.run(run) for job in JOBS]

    assert dict(zip((job.name for job in JOBS), done, strict=True)) == {
        "finish-categories": 12,
        "finish-products": 6,
        "settle-slugs": 0,
        "settle-images": 0,
        "collect-words": 0,
        "finish-content": 0,
        "finish-stock": 0,
        "expire-carts": 0,
        "delete-carts": 0,
        "finish-checkouts": 0,
        "finish-orders": 0,
        "relate-products": 0,
        "finish-transfers": 0,
        "finish-comments": 0,
        "finish-uploads": 0,
        "finish-relations": 0,
        "deliver-posts": 0,
        "finish-posts": 0,
        "copy-names": 0,
        "finish-turns": 0,
        "settle-rooms": 0,
        "finish-trades": 0,
        "expire-trades": 0,
        "prune-trades": 0,
        "rest-characters": 0,
        "settle-ads": 0,
        "settle-ad-claims": 0,
        "forget-ad-events": 0,
        "forget-ad-images": 0,
        "forget-log-events": 0,
        "roll-up-log-days": 0,
        "settle-hits": 0,
        "forget-hit-ids": 0,
        "roll-up-sessions": 0,
        "write-notifications": 0,
        "upgrade-documents": 0,
    }
    assert [await left(idle, name) for name in LEFT] == [0] * 6
    await assert_invariants(idle)


# Workers


async def test_two_workers_do_not_run_one_job_at_once(gateway: GatewayClient, clock: SettableClock) -> None:
    for _ in range(6):
        await leave_moving(gateway)
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
        worker(gateway, clock, interrupted(gateway.db, "categories", "find", look), jobs=jobs),
        worker(gateway, clock, interrupted(gateway.db, "categories", "find", look), jobs=jobs),
    )

    assert sum(await asyncio.gather(one.run_once(), other.run_once())) == 6
    assert most == 1
    assert await left(gateway, "moving") == 0


async def test_a_worker_keeps_its_jobs_until_its_lease_expires(gateway: GatewayClient, clock: SettableClock) -> None:
    clock.stop()
    clock.advance(seconds=61)
    one, other = worker(gateway, clock), worker(gateway, clock)
    await leave_moving(gateway)
    await one.run_once()
    clock.advance(seconds=6)

    assert await other.run_once() == 0
    # The first worker does not renew its leases, as if it were killed.
    clock.advance(seconds=4)
    assert await other.run_once() == 1
    await leave_moving(gateway)
    clock.advance(seconds=6)
    assert await one.run_once() == 0


async def test_a_stopped_worker_releases_its_jobs(gateway: GatewayClient, clock: SettableClock) -> None:
    leased = len([job for job in JOBS if not job.is_shared])
    clock.advance(seconds=61)
    task = asyncio.create_task(worker(gateway, clock).run())
    held = 0
    async with asyncio.timeout(10):
        while held < leased:
            held = await gateway.db["leases"].count_documents({"until": {"$gt": clock.now()}})
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await leave_moving(gateway)
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


async def test_a_failed_job_does_not_stop_the_others_and_is_retried(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    await leave_moving(gateway)
    await leave_incoming(gateway)
    clock.advance(seconds=61)

    finish = next(job for job in JOBS if job.name == "finish-categories")
    lost = [AutoReconnect("the connection is gone")]

    async def run(given: Job.Run) -> int:
        if lost:
            raise lost.pop()
        return await finish.run(given)

    # Other jobs look for categories, too, so a failing command could be theirs.
    ours = worker(gateway, clock, jobs=[replace(job, run=run) if job is finish else job for job in JOBS])

    assert await ours.run_once() == 1
    assert [await left(gateway, name) for name in ("moving", "incoming")] == [1, 0]
    assert await ours.run_once() == 1
    assert await left(gateway, "moving") == 0


async def test_a_running_gateway_settles_marks_and_releases_its_leases(
    settings: Settings, clock: SettableClock
) -> None:
    async with running(replace(settings, job_seconds=0.05), clock=clock) as gateway:
        for leave, _, _ in LEFT.values():
            await leave(gateway)
        clock.advance(seconds=6)
        async with asyncio.timeout(60):
            while sum([await left(gateway, name) for name in LEFT]):  # noqa: ASYNC110 - a job signals nothing
                await asyncio.sleep(0.05)
        await assert_invariants(gateway)
        (owner,) = await gateway.db["leases"].distinct("owner")
    async with running(settings, clock=clock) as gateway:
        (successor,) = await gateway.db["leases"].distinct("owner")
    assert successor != owner


async def test_a_gateway_without_jobs_leaves_them_to_other_workers(settings: Settings, clock: SettableClock) -> None:
    async with running(replace(settings, jobs=False, job_seconds=0.01), clock=clock) as gateway:
        await leave_moving(gateway)
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


async def test_a_woken_job_runs_at_once_and_once_more_if_woken_during_its_run(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    runs: asyncio.Queue[int] = asyncio.Queue()
    wakeups = gateway.state.resources.of(Wakeups)

    async def run(_run: Job.Run) -> int:
        if not runs.qsize():
            wakeups.wake("slow")
        runs.put_nowait(1)
        return 0

    slow = Worker(gateway.db, clock, 3600.0, gateway.state.resources, [Job("slow", run)])
    task = asyncio.create_task(slow.run())
    for _ in range(2):
        await asyncio.wait_for(runs.get(), 20)
    wakeups.wake("slow")
    await asyncio.wait_for(runs.get(), 20)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
