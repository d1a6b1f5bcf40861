"""Workers over time: a slow job does not block the others, and a running job keeps its lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from portico.gateway.work import jobs
from portico.resolvers.declarations import Job, Resources
from portico.resolvers.documents import Database
from portico.resolvers.shop.payments import PaymentMethods, PaymentUnknown
from portico.resolvers.writes import leases
from tests.gateway.support.workers import at_work, worker
from tests.shop.support.shop import Provider, checkout_input, new_cart, stock_up
from tests.support.domains import JOBS
from tests.support.harness import GatewayClient, SettableClock
from tests.support.ids import key_in
from tests.support.sockets import until

MINUTE = timedelta(minutes=1)
# Every worker runs the other jobs, without a lease.
LEASED = [job for job in JOBS if not job.is_shared]


async def eventually(holds: Callable[[], Awaitable[object]]) -> None:
    end = time.monotonic() + 20
    while not await holds():
        # Not by asyncio.timeout, because the driver can swallow the cancellation.
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def cancelled(running: asyncio.Task[None]) -> None:
    """Stops a worker, and waits until it has stopped."""
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


class HangingProvider(Provider):
    """A payment provider that no longer answers."""

    async def charge(self, *_: Any, **__: Any) -> str:
        self.asked += 1
        await asyncio.sleep(60)
        raise PaymentUnknown


async def has_leases(gateway: GatewayClient, count: int, **which: Any) -> bool:
    return await gateway.db["leases"].count_documents(which) == count


async def status_of(gateway: GatewayClient, cart: str) -> Any:
    found = await gateway.db["carts"].find_one({"_id": key_in("Cart", cart)})
    return found and found["status"]


@pytest.mark.usefixtures("provider")
async def test_a_hanging_provider_blocks_no_other_job_and_gets_ten_calls_at_once(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long a stop waits for the release of the leases depends on the machine.
    monkeypatch.setattr(jobs, "RELEASE_SECONDS", None)
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
        await until(lambda: hanging.asked == 10)
        # Each job takes its own lease, at its own time.
        await eventually(lambda: has_leases(gateway, len(LEASED), until={"$gt": clock.now()}))
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

    async def run(_run: Job.Run) -> int:
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


class SlowServer:
    """Carries out the acquisitions of these leases only once `may_go` is set, also if their caller is cancelled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *slow: str) -> None:
        self.sent: dict[str, asyncio.Task[bool]] = {}
        self.may_go = asyncio.Event()
        self._slow = slow
        self._acquire = leases.acquire
        monkeypatch.setattr(leases, "acquire", self.acquire)

    async def acquire(self, db: Database, name: str, **given: Any) -> bool:
        if name not in self._slow:
            return await self._acquire(db, name, **given)
        self.sent[name] = asyncio.create_task(self._later(db, name, **given))
        return await asyncio.shield(self.sent[name])

    async def _later(self, db: Database, name: str, **given: Any) -> bool:
        await self.may_go.wait()
        return await self._acquire(db, name, **given)

    async def got_all(self) -> bool:
        return set(self.sent) == set(self._slow)


async def test_a_stopping_worker_releases_its_leases_and_then_those_that_it_is_acquiring(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = [job.name for job in LEASED]
    server = SlowServer(monkeypatch, *slow)
    # What is tested is the order. How long a stop waits for it depends on the machine.
    monkeypatch.setattr(jobs, "RELEASE_SECONDS", None)
    begun: list[str] = []
    one = worker(gateway, clock, jobs=[*LEASED, waiting(begun, asyncio.Event())])
    running = asyncio.create_task(one.run())
    await eventually(server.got_all)
    await eventually(lambda: lease_of(gateway))

    running.cancel()
    await eventually(lambda: has_leases(gateway, 0))
    assert not running.done()
    server.may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert await asyncio.gather(*server.sent.values()) == [True] * len(slow)
    assert await gateway.db["leases"].count_documents({}) == 0


async def test_a_stopping_worker_releases_leases_that_it_acquires_while_it_releases_the_others(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, release = SlowServer(monkeypatch, "wait"), leases.release
    one = worker(gateway, clock, jobs=[waiting([], asyncio.Event())])

    async def slowly(db: Database, names: Sequence[str], *, owner: str) -> None:
        # Over two connections, an acquisition takes effect after the release and is answered before it.
        monkeypatch.setattr(leases, "release", release)
        await release(db, names, owner=owner)
        server.may_go.set()
        while one._acquiring:  # noqa: ASYNC110 - ends as soon as the acquisition is answered
            await asyncio.sleep(0)

    monkeypatch.setattr(leases, "release", slowly)
    monkeypatch.setattr(jobs, "RELEASE_SECONDS", None)
    running = asyncio.create_task(one.run())
    await eventually(server.got_all)

    await cancelled(running)

    assert await server.sent["wait"]
    assert await gateway.db["leases"].count_documents({}) == 0


async def test_a_worker_stops_although_the_database_does_not_answer(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = SlowServer(monkeypatch, "wait")
    monkeypatch.setattr(jobs, "RELEASE_SECONDS", 0.05)
    running = asyncio.create_task(worker(gateway, clock, jobs=[waiting([], asyncio.Event())]).run())
    await eventually(server.got_all)

    await cancelled(running)

    assert not server.sent["wait"].done()
    server.may_go.set()
    await server.sent["wait"]
