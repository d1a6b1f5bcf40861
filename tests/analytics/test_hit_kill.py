"""Gateways that are killed while clients record hits: each event is counted exactly once.

An event whose call was answered is in every level at once, also if a killed gateway had accepted it before.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from portico.gateway.settings import Settings
from portico.resolvers.analytics.periods import Granularity
from tests.analytics.support.hits import RECORD, expected, hit, points, record_hits
from tests.analytics.support.log_events import Given, service
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, assert_invariants, running
from tests.support.killed_servers import Call, answers_until_killed, without_uvloop
from tests.support.processes import environment, served

ROUNDS = 30 if IS_SOAK else 1
BATCHES, SIZE = 60 if IS_SOAK else 40, 20
PAGES = ("/", "/other", "/third")
# Days around the first of a month.
BEGIN = datetime(2026, 2, 28)  # noqa: DTZ001 - stored times are naive UTC
END = BEGIN + timedelta(days=3)
LEVELS: tuple[Granularity, ...] = ("MINUTE", "HOUR", "DAY", "MONTH")
anyio_backend = without_uvloop()


def batches_of(rng: random.Random, number: int) -> list[list[Given]]:
    """Batches of hits on three days. Some events are in several of them, also in those of earlier rounds."""

    def event() -> Given:
        # An event is the same wherever it occurs.
        key = rng.randrange(max(number - 1, 0) * 1_000, (number + 1) * 1_000)
        return hit(PAGES[key % 3], BEGIN + timedelta(minutes=key * 997 % 4_320), eventId=f"event {key}")

    return [[event() for _ in range(SIZE)] for _ in range(BATCHES)]


async def test_each_event_is_counted_once_when_gateways_are_killed_and_clients_repeat(
    settings: Settings, clock: SettableClock, tmp_path: Path
) -> None:
    rng = random.Random(random.random())
    batches: list[list[Given]] = []
    answers: list[Any] = []
    async with running(settings, clock=clock) as gateway:
        token = service(gateway).token()
        for number in range(ROUNDS):
            new = batches_of(rng, number)
            with served(tmp_path / str(number), environment(replace(settings, jobs=True, job_seconds=0.05))) as server:
                calls = [Call(RECORD, batch, token) for batch in new]
                found = await answers_until_killed(server, calls, rng, at_once=8)
            # Another gateway gets a part of the batches again, at once.
            for place in rng.sample(range(BATCHES), BATCHES // 3):
                found[place] = await record_hits(gateway, *new[place])
            batches += new
            answers += found
            await assert_counted(
                gateway, [one for batch, told in zip(batches, answers, strict=True) if told for one in batch]
            )
        assert None in answers
        assert any(answers)

        for batch in rng.sample(batches, len(batches)):
            assert (await record_hits(gateway, *batch))["recorded"] == SIZE

        sent = [one for batch in batches for one in batch]
        await assert_equal(gateway, sent)
        # What the killed gateways have decided is counted already.
        await settle(gateway)
        await assert_equal(gateway, sent)
        await assert_invariants(gateway)


async def settle(gateway: GatewayClient) -> None:
    # The leases of the killed gateways end.
    await gateway.run_jobs("settle-hits", seconds=31)


async def assert_counted(gateway: GatewayClient, told: list[Given]) -> None:
    """Asserts that every hit of which a client was told is counted on every level."""
    for page in PAGES:
        for granularity in LEVELS:
            wanted = expected(told, granularity, BEGIN, END, page)
            found = dict(await points(gateway, granularity, BEGIN, END, page))
            assert all(found[at] >= hits for at, hits in wanted)


async def assert_equal(gateway: GatewayClient, sent: list[Given]) -> None:
    for page in PAGES:
        for granularity in LEVELS:
            wanted = expected(sent, granularity, BEGIN, END, page)
            assert await points(gateway, granularity, BEGIN, END, page) == wanted
