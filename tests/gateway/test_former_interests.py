"""What an affected answer leaves to the next run of its query."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from typing import Any

import pytest

from portico.gateway.cache.kept_answers import _MOST_FORMER, CachedAnswers, KeptAnswer, Recording
from portico.gateway.reads.read_sets import ReadSet
from portico.gateway.settings import Settings
from tests.support.harness import GatewayClient
from tests.support.kept_answers import JAZZ, NAME, cache_of, caching, create_jazz

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return caching(settings, cache_bytes=5_000_000)


@pytest.fixture
async def cache(gateway: GatewayClient) -> CachedAnswers:
    await create_jazz(gateway)
    return cache_of(gateway)


async def keep(gateway: GatewayClient, cache: CachedAnswers, variables: Mapping[str, Any]) -> Any:
    """Asks until the answer is kept. Returns it."""
    stored = cache.counts.stored
    async with asyncio.timeout(20):
        while cache.counts.stored == stored:
            answer = await gateway.ask(NAME, variables)
    return answer.data


async def test_the_next_run_takes_the_interests_over_and_shows_the_change(
    gateway: GatewayClient, cache: CachedAnswers
) -> None:
    first = await keep(gateway, cache, JAZZ)
    taken = set(map(id, cache.index._collections["categories"].rows.all()))
    assert taken
    for name in ("Blues", "Soul", "Jazz"):
        await gateway.result("renameCategory", {"id": first["category"]["id"], "name": name})
        assert (await keep(gateway, cache, JAZZ))["category"]["name"] == name
        assert set(map(id, cache.index._collections["categories"].rows.all())) == taken


async def test_interests_take_a_part_of_the_memory(gateway: GatewayClient, cache: CachedAnswers) -> None:
    cache._most_former_bytes = 10_000
    for number in range(20):
        await keep(gateway, cache, {"slug": f"slug-{number}"})
    cache.index.dispatch_all()
    assert 0 < cache._former_bytes <= 10_000
    assert 0 < len(cache._former) < 10
    cache._forget_all()
    assert (cache._former_bytes, cache.index.size) == (0, 0)


async def test_a_few_queries_only_leave_their_interests(gateway: GatewayClient, cache: CachedAnswers) -> None:
    await keep(gateway, cache, JAZZ)
    alone = cache.index.size
    for number in range(_MOST_FORMER + 20):
        await keep(gateway, cache, {"slug": f"slug-{number}"})
    cache.index.dispatch_all()
    assert cache.counts.answers == 0
    assert 0 < cache.index.size <= _MOST_FORMER * alone
    await keep(gateway, cache, JAZZ)
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
    first = await keep(gateway, cache, JAZZ)
    gc.collect()
    gc.disable()
    try:
        before = kept_objects()
        for number in range(10):
            await gateway.result("renameCategory", {"id": first["category"]["id"], "name": f"Jazz {number}"})
            await keep(gateway, cache, JAZZ)
        for number in range(10):
            await keep(gateway, cache, {"slug": f"slug-{number}"})
        cache._forget_all()
        assert kept_objects() <= before
    finally:
        gc.enable()
