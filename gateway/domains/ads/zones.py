"""What the domain declares about zones and campaigns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from portico.resolvers.ads import cap_checks, zone_checks, zone_jobs
from portico.resolvers.ads.zone_reads import Zones
from portico.resolvers.declarations import Job, Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.problems import Invariant
from portico.schema.ads import choosing, placing, zones


@asynccontextmanager
async def _zones(_settings: Resources, _db: Database) -> AsyncIterator[Zones]:
    yield Zones()


async def _settle_ads(run: Job.Run) -> int:
    return await zone_jobs.settle_ads(run.db, now=run.now)


SERVICES = (Service(Zones, _zones),)
KINDS = (zones.AD_ZONE,)
QUERIES = (zones.ZoneQuery, choosing.ChoosingQuery)
MUTATIONS = (placing.PlacingMutation,)
JOBS = (Job("settle-ads", _settle_ads),)
INVARIANTS = (
    Invariant("Every zone has each ad once, dearest first.", zone_checks.find_wrong_zones),
    Invariant("The smallest cap in all of an ad's placements holds in all of its zones.", cap_checks.find_wrong_caps),
    Invariant("Every ad in a zone belongs to a campaign that is not deactivated.", zone_checks.find_wrong_campaigns),
)
