"""What the domain declares about hits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from portico.resolvers.analytics import hit_checks, hit_jobs
from portico.resolvers.analytics.hit_counters import HIT_DAYS, HIT_MONTHS
from portico.resolvers.analytics.hit_slots import HIT_IDS, HIT_SLOTS
from portico.resolvers.analytics.hit_writing import HitWriter
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.resolvers.declarations import Job, Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.problems import Invariant
from portico.schema.analytics import hits


@asynccontextmanager
async def _writer(_settings: Resources, db: Database) -> AsyncIterator[HitWriter]:
    writer = HitWriter()
    try:
        yield writer
    finally:
        await writer.close(db)


async def _settle_hits(run: Job.Run) -> int:
    return await hit_jobs.settle_hits(run.db, now=run.now)


async def _forget_hit_ids(run: Job.Run) -> int:
    days = run.resources.of(AnalyticsSettings).hit_id_days
    return await hit_jobs.forget_hit_ids(run.db, now=run.now, days=days)


COLLECTIONS = (HIT_DAYS, HIT_MONTHS, HIT_SLOTS, HIT_IDS)
SERVICES = (Service(HitWriter, _writer),)
JOBS = (Job("settle-hits", _settle_hits), Job("forget-hit-ids", _forget_hit_ids))
INVARIANTS = (Invariant("Counters of hits add up, from minutes to months.", hit_checks.find_wrong_hits),)
QUERIES = (hits.HitQuery,)
MUTATIONS = (hits.HitMutation,)
