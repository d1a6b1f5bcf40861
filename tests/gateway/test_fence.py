"""The look before each answer from the cache, and what an affected answer leaves to the next run of its query."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from typing import Any

import bson
import pytest
from bson import Timestamp

from portico.gateway.cache import fence as fences
from portico.gateway.cache.kept_answers import _MOST_FORMER, CacheCounts, CachedAnswers, KeptAnswer, Recording
from portico.gateway.mongo import pings
from portico.gateway.mongo.direct import Reader
from portico.gateway.mongo.links import Link, Lost
from portico.gateway.mongo.messages import message
from portico.gateway.mongo.pings import Then
from portico.gateway.reads.read_sets import ReadSet
from tests.support.harness import GatewayClient
from tests.support.kept_answers import (
    JAZZ,
    NAME,
    bound_looks,
    cache_of,
    counts_of,
    create_jazz,
    follow_changes,
    hold_pings,
    keep,
    with_cache,
)
from tests.support.sockets import until

pytestmark = pytest.mark.usefixtures("patient")
settings = with_cache(cache_bytes=5_000_000)


@pytest.fixture
async def jazz(gateway: GatewayClient) -> str:
    """A category whose name is kept, after a look that found no newer write."""
    made = await create_jazz(gateway)
    await keep(gateway, NAME, JAZZ)
    while not cache_of(gateway).fence._is_quiet:
        await gateway.data(NAME, JAZZ)
    return made


@pytest.fixture
def counts(gateway: GatewayClient, jazz: str) -> CacheCounts:
    """The counts of the cache after the name of the category is kept."""
    assert jazz
    return counts_of(gateway)


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Link, bytes]]:
    """Pings that do not reach the database, as if it stalled."""
    return hold_pings(monkeypatch)


async def test_requests_that_come_together_share_a_look(gateway: GatewayClient, counts: CacheCounts) -> None:
    hits, looks = counts.hits, counts.looks
    await asyncio.gather(*(gateway.data(NAME, JAZZ) for _ in range(10)))
    assert counts.hits == hits + 10
    assert 1 <= counts.looks - looks <= 3


async def test_while_a_look_takes_too_long_queries_run(
    gateway: GatewayClient, jazz: str, counts: CacheCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = cache_of(gateway).fence
    look, goes_on = fence._look, asyncio.Event()

    async def slow() -> bool:
        await goes_on.wait()
        return await look()

    bound_looks(gateway, monkeypatch)
    monkeypatch.setattr(fence, "_look", slow)
    before = counts.hits
    await gateway.result("renameCategory", {"id": jazz, "name": "Blues"})
    for _ in range(3):
        assert (await gateway.data(NAME, JAZZ))["category"]["name"] == "Blues"
    assert (counts.hits, counts.late) == (before, 1)
    goes_on.set()
    assert (await keep(gateway, NAME, JAZZ))["category"]["name"] == "Blues"


async def test_while_a_ping_takes_too_long_queries_run(
    gateway: GatewayClient, counts: CacheCounts, monkeypatch: pytest.MonkeyPatch, stalled: list[tuple[Link, bytes]]
) -> None:
    bound_looks(gateway, monkeypatch)
    hits = counts.hits
    for _ in range(3):
        assert (await gateway.data(NAME, JAZZ))["category"]["name"] == "Jazz"
    assert (counts.hits, counts.late, len(stalled)) == (hits, 1, 1)

    monkeypatch.undo()
    link, ping = stalled.pop()
    link._transport.write(ping)
    await keep(gateway, NAME, JAZZ)
    assert counts.losses == 0


async def test_if_the_connection_of_a_ping_closes_the_query_runs(
    gateway: GatewayClient, counts: CacheCounts, monkeypatch: pytest.MonkeyPatch, stalled: list[tuple[Link, bytes]]
) -> None:
    monkeypatch.setattr(fences, "PAUSE_SECONDS", 0.05)
    hits = counts.hits
    asked = asyncio.create_task(gateway.data(NAME, JAZZ))
    await until(lambda: bool(stalled))
    link, _ = stalled.pop()
    link.close()
    assert (await asked)["category"]["name"] == "Jazz"
    assert (counts.hits, counts.losses, counts.answers) == (hits, 1, 0)
    assert not link.is_open
    # A reply that was on its way changes nothing.
    link.data_received(message({"ok": 1.0, "operationTime": Timestamp(1, 1)}))
    monkeypatch.undo()
    await keep(gateway, NAME, JAZZ)
    assert counts.losses == 1


async def test_a_ping_of_another_primary_counts_for_nothing(
    gateway: GatewayClient, jazz: str, counts: CacheCounts
) -> None:
    fence = cache_of(gateway).fence
    assert fence._primary is not None
    fence._primary = fence._primary._replace(address=("elsewhere", 1))
    await gateway.result("renameCategory", {"id": jazz, "name": "Blues"})
    assert (await gateway.data(NAME, JAZZ))["category"]["name"] == "Blues"
    assert (counts.losses, counts.answers) == (1, 0)


@pytest.mark.usefixtures("jazz")
async def test_a_cancelled_request_does_not_stop_the_look_of_the_others(
    gateway: GatewayClient, stalled: list[tuple[Link, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = cache_of(gateway).fence
    first, second = asyncio.create_task(fence.passed()), asyncio.create_task(fence.passed())
    await until(lambda: bool(stalled))
    first.cancel()
    monkeypatch.undo()
    link, ping = stalled.pop()
    link._transport.write(ping)
    assert await second
    assert first.cancelled()


@pytest.mark.usefixtures("jazz")
async def test_a_fault_of_one_request_does_not_stop_the_look_of_the_others(gateway: GatewayClient) -> None:
    fence = cache_of(gateway).fence

    def fails(_passed: bool) -> None:
        raise ZeroDivisionError

    assert fence.ask(fails)
    assert await fence.passed()
    assert await fence.passed()


async def test_a_fault_of_a_look_does_not_stop_the_next_ones(
    gateway: GatewayClient, jazz: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {"category": {"id": jazz, "name": "Jazz"}}
    ping, faults = Reader.ping, [RuntimeError("a listener fails")]

    def fail_once(reader: Reader, then: Then) -> bool:
        if faults:
            raise faults.pop()
        return ping(reader, then)

    monkeypatch.setattr(Reader, "ping", fail_once)
    while faults:
        assert await gateway.data(NAME, JAZZ) == expected
    await follow_changes(gateway)

    assert await keep(gateway, NAME, JAZZ) == expected


def test_times_of_the_database_keep_their_order_as_numbers() -> None:
    times = [Timestamp(0, 0), Timestamp(0, 9), Timestamp(1, 0), Timestamp(1, 2**32 - 1), Timestamp(2**32 - 1, 0)]
    assert sorted(times, key=pings.ordered) == sorted(times) == times


@pytest.mark.parametrize(
    "answer",
    [
        {"ok": 1.0, "$clusterTime": {"clusterTime": Timestamp(9, 9)}, "operationTime": Timestamp(7, 2**31)},
        {"ok": 1.0, "operationTime": Timestamp(7, 2**31), "$clusterTime": {"clusterTime": Timestamp(9, 9)}},
        {"operationTime": Timestamp(7, 2**31), "ok": 1.0},
        {"ok": 1, "operationTime": Timestamp(7, 2**31)},
        {"operationTime": Timestamp(7, 2**31), "ok": 1.0, "text": "operationTime"},
    ],
)
def test_the_newest_write_is_read_from_replies_of_any_form(answer: dict[str, Any]) -> None:
    assert pings.newest_write(message(answer)) == pings.ordered(Timestamp(7, 2**31))


def test_a_reply_without_a_time_is_none() -> None:
    failed = {"ok": 0.0, "errmsg": "stopping", "operationTime": Timestamp(7, 1)}
    with pytest.raises(Lost, match="stopping"):
        pings.newest_write(message(failed))
    with pytest.raises(KeyError):
        pings.newest_write(message({"ok": 1.0}))
    with pytest.raises(bson.errors.InvalidBSON):
        pings.newest_write(message(failed)[:-3])


@pytest.fixture
async def cache(gateway: GatewayClient) -> CachedAnswers:
    await create_jazz(gateway)
    return cache_of(gateway)


async def store(gateway: GatewayClient, cache: CachedAnswers, variables: Mapping[str, Any]) -> Any:
    """Asks until the answer is kept. Returns it."""
    stored = cache.counts.stored
    async with asyncio.timeout(20):
        while cache.counts.stored == stored:
            answer = await gateway.ask(NAME, variables)
    return answer.data


async def test_the_next_run_takes_the_interests_over_and_shows_the_change(
    gateway: GatewayClient, cache: CachedAnswers
) -> None:
    first = await store(gateway, cache, JAZZ)
    taken = set(map(id, cache.index._collections["categories"].rows.all()))
    assert taken
    for name in ("Blues", "Soul", "Jazz"):
        await gateway.result("renameCategory", {"id": first["category"]["id"], "name": name})
        assert (await store(gateway, cache, JAZZ))["category"]["name"] == name
        assert set(map(id, cache.index._collections["categories"].rows.all())) == taken


async def test_interests_take_a_part_of_the_memory(gateway: GatewayClient, cache: CachedAnswers) -> None:
    cache._most_former_bytes = 10_000
    for number in range(20):
        await store(gateway, cache, {"slug": f"slug-{number}"})
    cache.index.dispatch_all()
    assert 0 < cache._former_bytes <= 10_000
    assert 0 < len(cache._former) < 10
    cache._forget_all()
    assert (cache._former_bytes, cache.index.size) == (0, 0)


async def test_a_few_queries_only_leave_their_interests(gateway: GatewayClient, cache: CachedAnswers) -> None:
    await store(gateway, cache, JAZZ)
    alone = cache.index.size
    for number in range(_MOST_FORMER + 20):
        await store(gateway, cache, {"slug": f"slug-{number}"})
    cache.index.dispatch_all()
    assert cache.counts.answers == 0
    assert 0 < cache.index.size <= _MOST_FORMER * alone
    await store(gateway, cache, JAZZ)
    assert cache.counts.answers == 1
    cache._forget_all()
    assert (cache.index.size, list(cache.index.collections)) == (0, [])


def kept_objects() -> int:
    """How many answers, runs and read sets are in memory."""
    # `isinstance` would look through weak proxies of other tests, whose objects may be gone.
    return sum(issubclass(type(one), KeptAnswer | Recording | ReadSet) for one in gc.get_objects())


async def test_dropped_answers_are_freed_without_the_garbage_collector(
    gateway: GatewayClient, cache: CachedAnswers
) -> None:
    first = await store(gateway, cache, JAZZ)
    gc.collect()
    gc.disable()
    try:
        before = kept_objects()
        for number in range(10):
            await gateway.result("renameCategory", {"id": first["category"]["id"], "name": f"Jazz {number}"})
            await store(gateway, cache, JAZZ)
        for number in range(10):
            await store(gateway, cache, {"slug": f"slug-{number}"})
        cache._forget_all()
        assert kept_objects() <= before
    finally:
        gc.enable()
