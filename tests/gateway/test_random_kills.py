"""Gateways and nodes of a replica set are killed and stalled at random, while clients write in every domain.

No acknowledged write is lost or carried out twice, and nobody who has an acknowledgement reads an older state. In every
snapshot that is read meanwhile, each item of the game is in one place, and gold and stacks are conserved. `make soak`
runs this for an hour; `KILLS_SECONDS` sets another time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.social.settings import SocialSettings
from tests.ads.support import kills as ad_kills
from tests.analytics.support import kills as traffic_kills
from tests.game.support import kills as game_kills
from tests.game.support import trade_kills
from tests.game.support.books import auditing
from tests.shop.support import kills as shop_kills
from tests.social.support import kills as social_kills
from tests.support.harness import IS_SOAK, SettableClock, run_jobs, running, with_settings
from tests.support.killed_servers import without_uvloop
from tests.support.kills import LEAST_OPERATIONS, Clients, Faults, Part, gateways
from tests.support.processes import environment, portico
from tests.support.replica_sets import replica_set

SECONDS = float(os.environ.get("KILLS_SECONDS", "3600" if IS_SOAK else "3"))
IS_LONG = SECONDS > 60
PAUSE = 4.0 if IS_LONG else 0.5
GATEWAYS = 2
WORKERS = 2 if IS_LONG else 1
anyio_backend = without_uvloop()


@pytest.fixture
def world() -> game_kills.World:
    return game_kills.World(players=12 if IS_LONG else 4)


@pytest.fixture
def parts(world: game_kills.World) -> list[Part]:
    return [
        shop_kills.Shop(writers=6),
        social_kills.Social(members=1_000, writers=12) if IS_LONG else social_kills.Social(members=24, writers=4),
        world,
        trade_kills.Trades(traders=12 if IS_LONG else 4),
        ad_kills.Ads(advertisers=6 if IS_LONG else 2),
        traffic_kills.Analytics(recorders=6 if IS_LONG else 2),
    ]


@pytest.mark.timeout(SECONDS + 600)
async def test_no_acknowledged_write_is_lost_or_doubled_by_random_kills(
    settings: Settings, clock: SettableClock, tmp_path: Path, parts: list[Part], world: game_kills.World
) -> None:
    rng = random.Random(int(os.environ.get("KILLS_SEED", "1")))
    with replica_set(tmp_path / "three") as three:
        # A rate would refuse what the test must be told.
        unbounded = with_settings(settings, SocialSettings, social_rate=1_000_000)
        own = replace(unbounded, mongodb_uri=Secret(three.uri), database="kills")
        async with running(own, clock=clock) as gateway:
            token = gateway.token()
            for part in parts:
                await part.prepare(gateway)
        env = environment(replace(own, jobs=True, job_seconds=1.0))
        with gateways(tmp_path / "gateways", env, GATEWAYS, WORKERS) as served:
            faults = Faults(three, served, rng)
            async with contextlib.aclosing(Clients(served, token)) as clients:
                crews = [part.actors(clients) for part in parts]
                acting = [actor.run(SECONDS) for crew in crews for actor in crew]
                async with auditing(three.uri, "kills", world.items, least=SECONDS / 10) as auditor:
                    await asyncio.gather(faults.run(SECONDS, PAUSE), *acting)
        async with running(own, clock=clock) as gateway:
            clock.advance(seconds=61)
            while await run_jobs(gateway, clock):
                pass
            for part in parts:
                await part.check(gateway)
            await auditor.check(gateway.db)
        checked = await asyncio.to_thread(portico, "doctor", env=environment(own), timeout=600)
    assert (checked.returncode, checked.stderr) == (0, "")
    report(faults, clients, parts)
    sys.stderr.write(f"snapshots: {auditor.checked:,}, with writes in flight {auditor.in_flight:,}\n")
    assert min(sum(part.operations.values()) for part in parts) >= LEAST_OPERATIONS
    assert auditor.checked >= SECONDS / 10


def report(faults: Faults, clients: Clients, parts: Sequence[Part]) -> None:
    """Prints the faults, the operations, and what the clients met."""
    met = sum((client.counts for client in clients.all), Counter[str]())
    acknowledged = sum((part.operations for part in parts), Counter[str]())
    for name, counts in (("faults", faults.counts), ("acknowledged", acknowledged), ("clients", met)):
        sys.stderr.write(f"\n{name}: {', '.join(f'{what} {number:,}' for what, number in sorted(counts.items()))}")
    sys.stderr.write("\nviolations: 0\n")
