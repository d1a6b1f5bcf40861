"""Reads wait in a queue for a connection, in the order of their arrival, and never hang if the connections are lost."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from pymongo.errors import AutoReconnect, NetworkTimeout, PyMongoError
from structlog.testing import capture_logs

from portico.gateway.logs import configure
from portico.gateway.mongo import embedded
from portico.gateway.mongo.direct import DirectCursor
from portico.gateway.mongo.links import CONNECTIONS, Link, Links, Primary
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database
from tests.gateway.support.direct import opened, reader_of

SOON = 10.0


@pytest.fixture
async def db(settings: Settings) -> AsyncIterator[Database]:
    async with opened(settings) as database:
        yield database


@pytest.fixture
async def links(db: Database) -> AsyncIterator[Links]:
    own = Links(db.client)
    yield own
    await own.close()
    for link in tuple(own._busy):
        link.close()


def deadline(seconds: float = SOON) -> float:
    return time.monotonic() + seconds


async def take_all(links: Links) -> list[Link]:
    """Open all connections and take them, so that the next read must wait."""
    async with asyncio.timeout(SOON):
        while (first := await links.take(deadline())) is None:  # noqa: ASYNC110 - the pool signals nothing
            await asyncio.sleep(0.01)
    taken = [first]
    while len(taken) < CONNECTIONS:
        link = await links.take(deadline())
        assert link is not None
        taken.append(link)
    return taken


async def waiting(links: Links, seconds: float = SOON) -> asyncio.Task[Link | None]:
    """Start to wait for a connection. Return when the read is in the queue."""
    task = asyncio.create_task(links.take(deadline(seconds)))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_free_connection_goes_to_the_read_that_has_waited_longest(links: Links) -> None:
    taken = await take_all(links)
    reads = [await waiting(links) for _ in range(3)]

    for number, link in enumerate(taken[:3]):
        links.give_back(link)
        assert await reads[number] is link
        assert [read.done() for read in reads] == [other <= number for other in range(3)]

    assert links.connections == CONNECTIONS


async def test_a_cancelled_read_leaves_the_queue(links: Links) -> None:
    first, *_ = await take_all(links)
    reads = [await waiting(links) for _ in range(3)]

    reads[0].cancel()
    links.give_back(first)

    assert await reads[1] is first
    assert reads[0].cancelled()
    assert not reads[2].done()
    reads[2].cancel()


async def test_a_connection_given_to_a_read_that_is_cancelled_goes_to_the_next_read(links: Links) -> None:
    first, *_ = await take_all(links)
    reads = [await waiting(links) for _ in range(2)]

    links.give_back(first)
    reads[0].cancel()

    assert await reads[1] is first
    with pytest.raises(asyncio.CancelledError):
        await reads[0]


async def test_a_read_that_gets_no_connection_in_time_times_out(links: Links) -> None:
    first, *_ = await take_all(links)
    late, patient = await waiting(links, 0.1), await waiting(links)

    with pytest.raises(NetworkTimeout, match="in use for too long"):
        await late

    links.give_back(first)
    assert await patient is first


async def test_reads_do_not_wait_for_connections_that_are_lost(links: Links) -> None:
    taken = await take_all(links)
    read = await waiting(links)

    for link in taken:
        link.close()
        links.give_back(link)

    assert await asyncio.wait_for(read, SOON) is None


async def test_connections_that_cannot_be_opened_are_logged_once(links: Links, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: Links, __: Primary) -> Link:
        raise AutoReconnect("Connection refused")

    monkeypatch.setattr(Links, "_connected", refuse)
    configure(Settings(log_level="info"))
    with capture_logs() as log:
        assert [await links.take(deadline()) for _ in range(CONNECTIONS)] == [None] * CONNECTIONS
        await asyncio.sleep(0)

    configure(Settings(log_level="error"))
    assert [entry["event"] for entry in log] == ["cannot open a direct connection"]


async def test_closing_ends_the_wait(links: Links) -> None:
    await take_all(links)
    read = await waiting(links)

    await links.close()

    assert await asyncio.wait_for(read, SOON) is None


async def test_reads_wait_instead_of_using_the_driver_while_all_connections_are_in_use(db: Database) -> None:
    def by_driver() -> None:
        raise AssertionError("a read went by the driver")

    def one(number: int) -> DirectCursor:
        return DirectCursor(reader_of(db), {"find": "rows", "filter": {"_id": number % 300}}, by_driver)

    found = await asyncio.gather(*(one(number).to_list() for number in range(2_000)))

    assert [rows[0]["_id"] for rows in found] == [number % 300 for number in range(2_000)]


async def test_reads_in_the_queue_are_answered_after_a_step_down(tmp_path: Path) -> None:
    hold = embedded.attach(Settings(data_dir=tmp_path))
    try:
        settings = Settings(data_dir=tmp_path, database="stepping", mongodb_uri=Secret(hold.uri))
        async with opened(settings) as db:
            slow = [asyncio.create_task(db["rows"].find({"$where": "sleep(5) || true"}).to_list()) for _ in range(20)]
            reads = [asyncio.create_task(db["rows"].find_one({"_id": number})) for number in range(100)]
            await asyncio.sleep(0)

            with contextlib.suppress(PyMongoError):
                await db.client["admin"].command("replSetStepDown", 1, secondaryCatchUpPeriodSecs=0, force=True)

            assert [row["_id"] for row in await asyncio.gather(*reads) if row is not None] == list(range(100))
            assert [len(rows) for rows in await asyncio.gather(*slow)] == [300] * 20
    finally:
        hold.close()


async def test_a_read_waits_and_runs_for_as_long_as_one_command_may_take(settings: Settings) -> None:
    async with opened(replace(settings, database_seconds=1)) as db:
        slow = [asyncio.create_task(db["rows"].find({"$where": "sleep(20) || true"}).to_list()) for _ in range(40)]

        outcomes = await asyncio.wait_for(asyncio.gather(*slow, return_exceptions=True), SOON)

        assert all(isinstance(outcome, PyMongoError) and outcome.timeout for outcome in outcomes), outcomes
        assert await db["rows"].find_one({"_id": 1}) == {"_id": 1, "parity": 1}
