"""Kept answers are those of fresh runs: never older than a write that was acknowledged before, by any gateway."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from portico.gateway.cache import fence as fences
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from tests.gateway.support.counting import Remote, counted, go_on
from tests.gateway.support.gateways import Gateways
from tests.gateway.support.live_oracle import Following, Writer, queries_of
from tests.support.fixtures import gateway_with
from tests.support.harness import IS_SOAK, GatewayClient, running
from tests.support.kept_answers import cache_of, counts_of, with_cache
from tests.support.operations import comparable
from tests.support.replica_sets import ReplicaSet
from tests.support.sockets import until

WRITES = 5_000 if IS_SOAK else 20
# Queries that are asked, over and over, and those of them that are asked after each write.
QUERIES, SAMPLE = (200, 20) if IS_SOAK else (30, 6)
SEEDS = range(5)
# For each seed, so many answers are compared with runs; and so many with the last acknowledged write.
COMPARED, READ = (200_000, 1_000_000) if IS_SOAK else (240, 500)
READERS = 6
# Counts are current for everybody.
settings = with_cache(cache_bytes=5_000_000, count_seconds=0.000_001)
# A gateway on the same data, without a cache.
without = gateway_with(cache_bytes=0)


async def answer_of(query: Following, gateway: GatewayClient) -> Any:
    asking = replace(gateway, roles=query.gateway.roles, subject=query.gateway.subject, claims=query.gateway.claims)
    return comparable((await asking.ask(query.asked.text, query.asked.variables)).body)


async def require_fresh(query: Following, cached: Sequence[GatewayClient], without: GatewayClient) -> None:
    """Fails if a cached answer of any of these gateways is neither that of a run before it nor that of one after it."""
    before = await answer_of(query, without)
    answers = [await answer_of(query, gateway) for gateway in cached]
    if any(answer != before for answer in answers):
        # The clock may change the answer between the two.
        after = await answer_of(query, without)
        assert all(answer in (before, after) for answer in answers), query.asked.where


@pytest.mark.usefixtures("patient")
@pytest.mark.timeout(7_200 if IS_SOAK else 240)
@pytest.mark.sample(len(SEEDS))
@pytest.mark.parametrize("seed", SEEDS)
async def test_cached_answers_are_those_of_fresh_runs_after_random_writes(
    documented_shop: GatewayClient, without: GatewayClient, settings: Settings, seed: int
) -> None:
    rng = random.Random(seed)
    queries = rng.sample(await queries_of(documented_shop), QUERIES)
    async with running(settings) as second:
        gateways = [documented_shop, second]
        for query in queries:
            await require_fresh(query, gateways * 3, without)
        index = cache_of(documented_shop).index
        writer = Writer(without.db, {name: index.rows_of(name) for name in index.collections}, rng)
        written, compared = [], 0
        for _ in range(WRITES):
            written.append(await writer.write())
            for query in rng.sample(queries, SAMPLE):
                gateway = rng.choice(gateways)
                try:
                    await require_fresh(query, [gateway] * 2, without)
                    compared += 2
                except AssertionError:
                    sys.stderr.write("\n".join(written[-15:]) + "\n")
                    raise
        counts = counts_of(documented_shop)
        assert counts.hits > counts.affected
        assert compared >= COMPARED
        sys.stderr.write(f"\n{WRITES} writes, {compared} answers: {counts}\n")


@pytest.mark.usefixtures("patient")
@pytest.mark.timeout(7_200 if IS_SOAK else 240)
async def test_no_answer_is_older_than_what_any_gateway_has_acknowledged(
    gateway: GatewayClient, without: GatewayClient, settings: Settings
) -> None:
    async with (
        running(settings) as second,
        counted([without, second], [gateway, second] * (READERS // 2)) as counting,
    ):
        await until(lambda: counting.read_answers >= READ, 7_000.0 if IS_SOAK else 200.0)
        await go_on(counting, 10)
        # However slow the machine is, some answers came from each cache.
        await until(lambda: all(counts_of(one).hits for one in (gateway, second)))
        assert counting.acknowledged >= 10


@pytest.mark.timeout(300)
async def test_no_answer_is_older_while_primaries_step_down_or_stall(
    settings: Settings, three: ReplicaSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_three = replace(settings, mongodb_uri=Secret(three.uri), database="cached", database_seconds=5)
    async with (
        running(on_three) as gateway,
        running(on_three) as second,
        running(replace(on_three, cache_bytes=0)) as writer,
        counted([writer, second], [gateway, second, gateway]) as counting,
    ):
        for _ in range(10 if IS_SOAK else 1):
            await go_on(counting, 10)
            await asyncio.to_thread(three.step_down)
            await go_on(counting, 10)
            port = await asyncio.to_thread(three.stall_primary)
            await asyncio.to_thread(three.wait_for_new_primary, port)
            await go_on(counting, 5)
            three.resume(port)
            await go_on(counting, 10)
            await asyncio.to_thread(three.wait_until_secondary, port)
        # From now on, no query runs because the machine is busy, or because every answer that is kept changes at once.
        monkeypatch.setattr(fences, "WAIT_SECONDS", 10.0)
        counting.may_write.clear()
        for one in (gateway, second):
            assert counts_of(one).losses
            before = counts_of(one).hits
            await until(lambda one=one, before=before: counts_of(one).hits > before)  # type: ignore[misc]


@pytest.mark.timeout(7_200 if IS_SOAK else 240)
async def test_no_answer_is_older_while_gateways_are_killed(gateway: GatewayClient, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        gateways = Gateways(gateway.settings, tmp_path, stack)
        await asyncio.gather(*(asyncio.to_thread(gateways.start) for _ in range(2)))
        async with httpx.AsyncClient(timeout=20.0) as http:
            remotes = [Remote(gateways, number, http, gateway.token()) for number in range(2)]
            async with counted(remotes, [*remotes, *remotes]) as counting:
                for _ in range(20 if IS_SOAK else 1):
                    await go_on(counting, 10)
                    gateways.kill_one()
                    await go_on(counting, 10)
                    await asyncio.to_thread(gateways.start)
                await go_on(counting, 10)
                counting.may_write.clear()
                async with asyncio.timeout(100):
                    while not await all_have_hits(http, gateways):  # noqa: ASYNC110 - there is no event to wait for
                        await asyncio.sleep(0.1)
                assert counting.read_answers >= 100


async def all_have_hits(http: httpx.AsyncClient, gateways: Gateways) -> bool:
    """Returns whether answers came from the cache of each gateway."""
    for one in gateways.serving:
        lines = (await http.get(f"{one.url}/metrics")).text.splitlines()
        hits = next(line for line in lines if line.startswith("portico_cache_hits_total"))
        if not float(hits.rpartition(" ")[2]):
            return False
    return True
