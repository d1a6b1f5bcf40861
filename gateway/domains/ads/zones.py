"""What the domain declares about zones and campaigns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from portico.resolvers.ads import cap_checks, capping, deactivating, zone_checks, zone_jobs
from portico.resolvers.ads.zone_reads import Zones
from portico.resolvers.documents import Database
from portico.resolvers.domains import Invariant, Job, Problem, Resources, Service, Turn
from portico.schema.ads import choosing, placing, zones


@asynccontextmanager
async def _zones(_settings: Resources, _db: Database) -> AsyncIterator[Zones]:
    yield Zones()


async def _settle_ads(turn: Turn) -> int:
    return await zone_jobs.settle_ads(turn.db, now=turn.now)


async def _zone_problems(db: Database) -> AsyncIterator[Problem]:
    async for wrong in zone_checks.find_wrong_zones(db):
        mend = partial(zone_checks.sort_ads, db, wrong["_id"]) if "repair" in wrong else None
        yield Problem(f"zone {wrong['_id']}", wrong["problem"], mend)


async def _cap_problems(db: Database) -> AsyncIterator[Problem]:
    async for wrong in cap_checks.find_wrong_caps(db):
        mend = partial(capping.settle, db, wrong["ad"], repairs=True) if "ad" in wrong else None
        yield Problem(f"zone {wrong['_id']}", wrong["problem"], mend)


async def _campaign_problems(db: Database) -> AsyncIterator[Problem]:
    async for wrong in zone_checks.find_wrong_campaigns(db):
        mend = partial(deactivating.finish_now, db, wrong["_id"]) if "repair" in wrong else None
        yield Problem(f"campaign {wrong['_id']}", wrong["problem"], mend)
    async for wrong in zone_checks.find_ads_without_campaign(db):
        mend = partial(deactivating.remove_ads, db, wrong["campaign"]) if "campaign" in wrong else None
        yield Problem(f"zone {wrong['_id']}", wrong["problem"], mend)


SERVICES = (Service(Zones, _zones),)
KINDS = (zones.AD_ZONE,)
QUERIES = (zones.ZoneQuery, choosing.ChoosingQuery)
MUTATIONS = (placing.PlacingMutation,)
JOBS = (Job("settle-ads", _settle_ads),)
INVARIANTS = (
    Invariant("Every zone has each ad once, dearest first.", _zone_problems),
    Invariant("The smallest cap in all of an ad's placements holds in all of its zones.", _cap_problems),
    Invariant("Every ad in a zone belongs to a campaign that is not deactivated.", _campaign_problems),
)
