"""What the domain declares about zones and campaigns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from portico.resolvers.ads import zone_jobs
from portico.resolvers.ads.zone_reads import Zones
from portico.resolvers.documents import Database
from portico.resolvers.domains import Invariant, Job, Resources, Service, Turn
from portico.schema.ads import choosing, placing, zones


@asynccontextmanager
async def _zones(_settings: Resources, _db: Database) -> AsyncIterator[Zones]:
    yield Zones()


async def _settle_ads(turn: Turn) -> int:
    return await zone_jobs.settle_ads(turn.db, now=turn.now)


SERVICES = (Service(Zones, _zones),)
KINDS = (zones.AD_ZONE,)
QUERIES = (zones.ZoneQuery, choosing.ChoosingQuery)
MUTATIONS = (placing.PlacingMutation,)
JOBS = (Job("settle-ads", _settle_ads),)
INVARIANTS: Sequence[Invariant] = ()
