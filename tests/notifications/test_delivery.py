"""Each notification is stored once: after crashes, with two workers, and if the change stream cannot be resumed."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from portico.gateway.clock import SystemClock
from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.gateway.work.jobs import Worker
from portico.resolvers import changes
from portico.resolvers.attachments import Hosts
from portico.resolvers.notifications import delivery
from portico.resolvers.notifications.delivery import Delivery
from portico.resolvers.notifications.settings import NotificationSettings
from portico.resolvers.notifying import Notifications
from portico.resolvers.writes.sweeps import SweepFailed
from tests.notifications.kit import KIT
from tests.notifications.support.news import JOB, begin, deliver, reasons_of, stored, write_news
from tests.social.support.posts import later, write_comment, write_post
from tests.social.support.social import circle, join
from tests.support.documents import only
from tests.support.domains import JOBS
from tests.support.harness import Commands, GatewayClient, SettableClock, assert_invariants, some_stops


@pytest.fixture(autouse=True)
async def _begun(gateway: GatewayClient) -> None:
    """Ann has joined, and the job has begun."""
    await join(gateway.db, "ann")
    await begin(gateway)


def another(gateway: GatewayClient, days: float = 90) -> Delivery:
    """The job of another process."""
    resources = gateway.state.resources
    return Delivery(resources.of(Notifications).sources, resources.of(Hosts), timedelta(days=days))


async def run(one: Delivery, db: Any) -> int:
    return await one.run(db, now=SystemClock().now(), patience=0)


async def crash(gateway: GatewayClient, stop: int) -> bool:
    """Runs the job of another process, which crashes after this many changes. Returns False if it ends before."""
    faulty, db = FaultyDatabase.around(gateway.db, stop)
    crashing = another(gateway)
    with contextlib.suppress(Crash):
        await run(crashing, db)
    await crashing.aclose()
    return faulty.has_crashed


async def write_some(gateway: GatewayClient, number: int) -> list[tuple[str, str | None]]:
    """Lets somebody follow and comment. Returns what ann is to be notified of."""
    name = f"m{number}"
    await join(gateway.db, name)
    await circle(gateway.db, name, "ann")
    written = await write_post(gateway.db, "ann", now=later(0))
    await write_comment(gateway.db, written, name, now=later(1))
    return [("FOLLOWED", name), ("POST_COMMENTED", name)]


async def test_a_job_that_crashes_anywhere_loses_nothing_and_repeats_nothing(gateway: GatewayClient) -> None:
    expected: list[tuple[str, str | None]] = []
    for stop in some_stops(2):
        expected += await write_some(gateway, stop)
        has_crashed = await crash(gateway, stop)

        await deliver(gateway)

        assert sorted(await reasons_of(gateway, "ann")) == sorted(expected), stop
        await assert_invariants(gateway)
        if not has_crashed:
            break
    assert stop >= 2


async def test_two_workers_at_once_store_each_notification_once(gateway: GatewayClient) -> None:
    workers = [another(gateway) for _ in range(3)]
    expected: list[tuple[str, str | None]] = []
    done = 0
    for number in range(5):
        expected += await write_some(gateway, number)
        done += sum(await asyncio.gather(*(run(worker, gateway.db) for worker in workers)))
    done += await deliver(gateway)
    for worker in workers:
        await worker.aclose()

    assert sorted(await reasons_of(gateway, "ann")) == sorted(expected)
    assert done == len(expected)
    await assert_invariants(gateway)


async def test_a_worker_that_resumes_late_does_not_move_the_position_back(gateway: GatewayClient) -> None:
    late = another(gateway)
    await run(late, gateway.db)
    await write_some(gateway, 1)
    await deliver(gateway)
    (before,) = await gateway.db["notification_positions"].find({}).to_list()

    assert await run(late, gateway.db) == 0

    (after,) = await gateway.db["notification_positions"].find({}).to_list()
    assert after == before
    await write_some(gateway, 2)
    assert await run(late, gateway.db) == 2
    await late.aclose()


async def test_what_has_happened_is_delivered_before_the_server_has_waited_for_more(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "AWAIT_MS", 600_000)
    one, expected = another(gateway), list[tuple[str, str | None]]()
    await run(one, gateway.db)
    async with asyncio.timeout(60):
        for number in range(3):
            expected += await write_some(gateway, number)
            while len(await stored(gateway.db)) < len(expected):
                await one.run(gateway.db, now=gateway.state.clock.now(), patience=60)
    await one.aclose()


async def lose(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the server refuse to resume the stream, as if it had no changes of that time any more."""
    opened = changes.open_stream

    async def refuse(db: Any, sources: Any, token: Any, await_ms: int) -> Any:
        if token is not None:
            monkeypatch.setattr(delivery, "open_stream", opened)
            raise OperationFailure("The resume point is gone.", 286)
        return await opened(db, sources, token, await_ms)

    await gateway.state.resources.of(Delivery).aclose()
    monkeypatch.setattr(delivery, "open_stream", refuse)


async def test_what_a_lost_stream_has_not_delivered_is_found_in_the_collections(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await write_some(gateway, 1)
    await deliver(gateway)
    missed = await write_some(gateway, 2)
    await lose(gateway, monkeypatch)

    await deliver(gateway)
    later_on = await write_some(gateway, 3)
    for _ in range(20):
        await deliver(gateway)

    (position,) = await gateway.db["notification_positions"].find({}).to_list()
    assert "missed" not in position
    assert sorted(await reasons_of(gateway, "ann")) == sorted([*known, *missed, *later_on])
    await assert_invariants(gateway)


async def test_a_job_that_was_behind_finds_all_that_it_has_not_read(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = await write_some(gateway, 1)
    # The position was stored later than what it is the position of has happened.
    stored_at = SystemClock().now() + timedelta(hours=1)
    await gateway.db["notification_positions"].update_one({}, {"$set": {"at": stored_at}})
    await lose(gateway, monkeypatch)

    for _ in range(20):
        await deliver(gateway)

    assert sorted(await reasons_of(gateway, "ann")) == sorted(missed)


async def test_a_position_ahead_of_a_restored_database_loses_nothing(gateway: GatewayClient) -> None:
    """The clocks of the servers before were an hour ahead of those on which the backup was restored."""
    missed = await write_some(gateway, 1)
    await gateway.state.resources.of(Delivery).aclose()
    positions = gateway.db["notification_positions"]
    token = (await only(positions))["token"]
    ahead = f"{token[:2]}{int(token[2:10], 16) + 3600:08X}{token[10:]}"
    await positions.update_one({}, {"$set": {"token": ahead, "at": SystemClock().now() + timedelta(hours=1)}})

    for _ in range(20):
        await deliver(gateway)
    later_on = await write_some(gateway, 2)
    await deliver(gateway)

    assert sorted(await reasons_of(gateway, "ann")) == sorted([*missed, *later_on])


async def test_a_crash_in_the_search_for_what_was_missed_loses_nothing(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await write_some(gateway, 1)
    await lose(gateway, monkeypatch)
    for stop in (0, 1, 2, 1, 2, 3, 1, 2, 3, 1, 2, 3, *[2] * 12):
        await crash(gateway, stop)
    for _ in range(20):
        await deliver(gateway)

    assert sorted(await reasons_of(gateway, "ann")) == sorted(expected)
    (position,) = await gateway.db["notification_positions"].find({}).to_list()
    assert "missed" not in position


async def test_a_damaged_document_keeps_nobody_elses_notification_back(gateway: GatewayClient) -> None:
    await join(gateway.db, "bob", "cem")
    damaged = await write_post(gateway.db, "ann", now=later(0))
    healthy = await write_post(gateway.db, "ann", now=later(0))
    await write_comment(gateway.db, damaged, "bob", now=later(1))
    await gateway.db["social.posts"].update_one({"_id": damaged["_id"]}, {"$unset": {"by": ""}})
    await write_comment(gateway.db, healthy, "cem", now=later(2))

    with pytest.raises(SweepFailed, match="1 could not be finished"):
        await deliver(gateway)

    assert await reasons_of(gateway, "ann") == [("POST_COMMENTED", "cem")]
    assert await deliver(gateway) == 0


async def test_what_is_older_than_notifications_are_kept_does_not_come_back(gateway: GatewayClient) -> None:
    await join(gateway.db, "bob", "cem")
    (position,) = await gateway.db["notification_positions"].find({}).to_list()
    old = SystemClock().now() - timedelta(days=91)
    await circle(gateway.db, "bob", "ann", now=old)
    await circle(gateway.db, "cem", "ann")
    assert await deliver(gateway) == 1
    await gateway.db["notification_positions"].replace_one({}, position)

    assert await deliver(gateway) == 0
    assert await reasons_of(gateway, "ann") == [("FOLLOWED", "cem")]


async def test_mongodb_forgets_notifications_after_the_setting(gateway: GatewayClient) -> None:
    assert NotificationSettings().kept == timedelta(days=90)
    await join(gateway.db, "bob")
    await circle(gateway.db, "bob", "ann")
    short = another(gateway, days=2)
    await run(short, gateway.db)
    await short.aclose()

    (document,) = await stored(gateway.db)
    assert document["forget_at"] - document["created_at"] == timedelta(days=2)
    indexes = dict(await gateway.db["notifications"].index_information())
    assert indexes["forget_at_1"]["expireAfterSeconds"] == 0


async def test_a_worker_stores_a_notification_while_it_waits(gateway: GatewayClient, clock: SettableClock) -> None:
    """The pause between two runs is a minute."""
    await join(gateway.db, "bob")
    (job,) = [job for job in JOBS if job.name == JOB]
    worker = Worker(gateway.db, clock, 60, gateway.state.resources, [job])
    working = asyncio.create_task(worker.run())
    try:
        async with gateway.as_caller("ann").subscription(
            "subscription { notificationReceived { reason } }"
        ) as received:
            await circle(gateway.db, "bob", "ann")
            async with asyncio.timeout(20):
                assert await anext(received) == {"notificationReceived": {"reason": "FOLLOWED"}}
    finally:
        working.cancel()
        await asyncio.wait({working})


async def test_the_commands_of_a_batch(gateway: GatewayClient, commands: Commands) -> None:
    await join(gateway.db, *(f"m{number}" for number in range(20)))
    for number in range(20):
        await circle(gateway.db, f"m{number}", "ann")
    for _ in range(3):
        await write_news(gateway)
    await circle(gateway.db, "m0", "ann", name="another")
    for number in range(20, 40):
        await join(gateway.db, f"m{number}")
        await circle(gateway.db, f"m{number}", "ann")
    commands.clear()

    done = await write_news(gateway)

    assert done == 20
    found = sorted(commands.names())
    assert [name for name in found if not name.startswith("getMore")] == [
        name for name in KIT.budgets["write notifications of a batch"] if name != "getMore"
    ]
