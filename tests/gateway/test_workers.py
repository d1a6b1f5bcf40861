"""Workers over time: a slow job does not block the others, and a running job keeps its lease."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from portico.gateway.work import jobs
from portico.gateway.work.jobs import Worker
from portico.resolvers.domains import Job, Resources, Turn
from portico.resolvers.payments import PaymentMethods, PaymentUnknown
from portico.resolvers.writes import leases
from tests.support.domains import JOBS
from tests.support.harness import GatewayClient, SettableClock
from tests.support.ids import key_in
from tests.support.shop import Provider, checkout_input, new_cart, stock_up

from .test_leases_and_jobs import worker

MINUTE = timedelta(minutes=1)
# Every worker runs the other jobs, without a lease.
LEASED = [job for job in JOBS if not job.is_shared]


@contextlib.asynccontextmanager
async def at_work(worker: Worker) -> AsyncIterator[None]:
    """Run the worker during the block."""
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def eventually(holds: Callable[[], Awaitable[object]]) -> None:
    end = time.monotonic() + 20
    while not await holds():
        # Not by asyncio.timeout, because the driver can swallow the cancellation.
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


class HangingProvider(Provider):
    """A payment provider that no longer answers."""

    async def charge(self, *_: Any, **__: Any) -> str:
        self.asked += 1
        await asyncio.sleep(60)
        raise PaymentUnknown


async def _asked(provider: Provider, times: int) -> bool:
    return provider.asked == times


async def _leased(gateway: GatewayClient, clock: SettableClock, times: int) -> bool:
    return await gateway.db["leases"].count_documents({"until": {"$gt": clock.now()}}) == times


async def status_of(gateway: GatewayClient, cart: str) -> Any:
    found = await gateway.db["carts"].find_one({"_id": key_in("Cart", cart)})
    return found and found["status"]


@pytest.mark.usefixtures("provider")
async def test_a_hanging_provider_blocks_no_other_job_and_gets_ten_calls_at_once(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    sku, hanging = await stock_up(gateway, units=20), HangingProvider()
    for _ in range(12):
        await gateway.result("checkout", checkout_input(await new_cart(gateway, **{sku: 1}), "hang"))
    idle = await new_cart(gateway, **{sku: 1})
    clock.advance(hours=5)

    async with at_work(
        worker(gateway, clock, resources=Resources({**gateway.state.resources, PaymentMethods: hanging}))
    ):
        await eventually(lambda: gateway.db["carts"].find_one({"status": "EXPIRED"}))

        assert await status_of(gateway, idle) == "EXPIRED"
        await eventually(lambda: _asked(hanging, 10))
        # Each job takes its own lease, at its own time.
        await eventually(lambda: _leased(gateway, clock, len(LEASED)))
    assert hanging.asked == 10
    assert await gateway.db["leases"].count_documents({"owner": {"$ne": None}, "until": {"$gt": clock.now()}}) == 0


async def test_a_cart_that_cannot_be_finished_does_not_stop_the_others(
    gateway: GatewayClient, clock: SettableClock, provider: Provider
) -> None:
    sku = await stock_up(gateway)
    carts = [await new_cart(gateway, **{sku: 1}) for _ in range(6)]
    for cart in carts[:3]:
        await gateway.result("checkout", checkout_input(cart, "hang"))
    damaged = [key_in("Cart", cart) for cart in (carts[0], carts[3])]
    await gateway.db["carts"].update_one({"_id": damaged[0]}, {"$unset": {"checkout.reference": ""}})
    await gateway.db["carts"].update_one({"_id": damaged[1]}, {"$unset": {"items.0.sku": ""}})
    clock.advance(hours=5)
    provider.is_back = True

    await worker(gateway, clock).run_once()
    clock.advance(seconds=6)
    await worker(gateway, clock).run_once()

    left = ["PENDING", "COMPLETE", "COMPLETE", "EXPIRING", "EXPIRED", "EXPIRED"]
    assert [await status_of(gateway, cart) for cart in carts] == left


SHORT = timedelta(seconds=3)


def waiting(begun: list[str], end: asyncio.Event) -> Job:
    """A job that runs until `end` is set."""

    async def run(_turn: Turn) -> int:
        begun.append("begun")
        await end.wait()
        begun.append("done")
        return 1

    return Job("wait", run)


async def lease_of(gateway: GatewayClient) -> Any:
    return await gateway.db["leases"].find_one({"_id": "wait"})


async def test_a_lease_is_renewed_while_its_job_runs(gateway: GatewayClient, clock: SettableClock) -> None:
    begun: list[str] = []
    end = asyncio.Event()
    one, other = (worker(gateway, clock, jobs=[waiting(begun, end)], lease=SHORT) for _ in range(2))

    at_it = asyncio.create_task(one.run_once())
    await eventually(lambda: lease_of(gateway))
    first = await lease_of(gateway)
    later = {"_id": "wait", "owner": first["owner"], "until": {"$gt": first["until"]}}
    await eventually(lambda: gateway.db["leases"].find_one(later))

    assert await other.run_once() == 0
    end.set()
    assert await at_it == 1
    assert begun == ["begun", "done"]


async def test_a_job_that_loses_its_lease_stops(gateway: GatewayClient, clock: SettableClock) -> None:
    begun: list[str] = []
    one = worker(gateway, clock, jobs=[waiting(begun, asyncio.Event())], lease=SHORT)

    at_it = asyncio.create_task(one.run_once())
    await eventually(lambda: lease_of(gateway))
    # Another worker has taken the lease, as if this one had been suspended.
    taken = {"owner": "other", "until": clock.now() + MINUTE}
    await gateway.db["leases"].update_one({"_id": "wait"}, {"$set": taken})

    assert await at_it == 0
    assert begun == ["begun"]


async def test_a_stopping_worker_releases_a_lease_that_it_is_taking(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = leases.acquire
    sent: list[asyncio.Task[bool]] = []

    async def late(*args: Any, **given: Any) -> bool:
        await asyncio.sleep(0.05)
        return await acquire(*args, **given)

    async def to_a_slow_server(*args: Any, **given: Any) -> bool:
        # The server carries out a command even if its caller is cancelled.
        sent.append(asyncio.create_task(late(*args, **given)))
        return await asyncio.shield(sent[-1])

    monkeypatch.setattr(leases, "acquire", to_a_slow_server)
    # A stop waits for two seconds at most; a busy machine may need longer for all leases.
    monkeypatch.setattr(jobs, "RELEASE_SECONDS", 60.0)
    async with at_work(worker(gateway, clock)):
        await asyncio.sleep(0.02)

    assert await asyncio.gather(*sent) == [True] * len(LEASED)
    assert await gateway.db["leases"].count_documents({}) == 0
