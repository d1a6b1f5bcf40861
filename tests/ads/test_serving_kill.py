"""Gateways that are killed while pages load: caps hold, and afterwards every impression is counted once."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from portico.gateway.settings import Settings
from tests.ads.support.ads import Given, ad, place
from tests.ads.support.serving import SERVE, pseudonym, serve, settle_old_claims, settled, units_of, view
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, assert_invariants, running
from tests.support.killed_servers import Call, answers_until_killed, without_uvloop
from tests.support.processes import environment, served

ROUNDS = 30 if IS_SOAK else 2
USERS = [f"user-{number}" for number in range(40)]
CAPS = {"banner": 150, "poster": 60}
anyio_backend = without_uvloop()


async def test_caps_hold_and_sums_are_right_when_gateways_are_killed(
    settings: Settings, clock: SettableClock, tmp_path: Path
) -> None:
    rng = random.Random(11)
    pages: list[Given] = []
    answers: list[Any] = []
    async with running(settings, clock=clock) as gateway:
        await place(gateway, *(ad(unit=unit, ecpm=cap, totalCap=cap, dailyCap=7) for unit, cap in CAPS.items()))
        for number in range(ROUNDS):
            batch = [view(user, idempotencyKey=f"{number}-{user}-{page}") for user in USERS for page in range(3)]
            rng.shuffle(batch)
            with served(tmp_path / str(number), environment(replace(settings, jobs=True, job_seconds=0.05))) as server:
                answers += await answers_until_killed(server, [Call(SERVE, page) for page in batch], rng)
            pages += batch
            await assert_shown_at_most(gateway)
        assert None in answers

        # The keys and the claims of the killed gateways expire.
        clock.advance(seconds=31)
        await settle_old_claims(gateway, seconds=0)
        repeated = [await serve(gateway, page) for page in pages]
        await settled(gateway)

        assert [one for one, first in zip(repeated, answers, strict=True) if first not in (None, one)] == []
        await assert_counted(gateway, units_of(repeated))
        await assert_invariants(gateway)


async def assert_shown_at_most(gateway: GatewayClient) -> None:
    async for counter in gateway.db["ads.counters"].find({}):
        assert counter["shown"] + len(counter["claims"]) <= CAPS[counter["ad_unit_id"]]


async def assert_counted(gateway: GatewayClient, units: Counter[str]) -> None:
    """Assert that counters and profiles count what pages were told, and that the caps hold."""
    counters = {one["ad_unit_id"]: one async for one in gateway.db["ads.counters"].find({})}
    assert {unit: one["shown"] for unit, one in counters.items()} == dict(units)
    assert all(one["shown"] <= CAPS[unit] for unit, one in counters.items())
    shown: Counter[str] = Counter()
    for user in USERS:
        profile = await gateway.db["ads.profiles"].find_one({"_id": pseudonym(gateway, user)})
        counts = {} if profile is None else profile["shown"]
        assert all(count <= 7 for count in counts.values())
        shown.update(counts)
    assert shown == {one["_id"]: one["shown"] for one in counters.values()}
