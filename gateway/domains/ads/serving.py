"""What the domain declares about serving: profiles and counters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from portico.resolvers.ads import serving_checks, serving_jobs
from portico.resolvers.ads.claiming import Counters
from portico.resolvers.ads.clicks import ClickLinks
from portico.resolvers.ads.settings import AdsSettings
from portico.resolvers.ads.tallying import Tally
from portico.resolvers.declarations import Job, Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.problems import Invariant
from portico.schema.ads import profiles, serving


@asynccontextmanager
async def _writer(_settings: Resources, _db: Database) -> AsyncIterator[Counters]:
    writer = Counters()
    try:
        yield writer
    finally:
        await writer.close()


@asynccontextmanager
async def _tally(_settings: Resources, _db: Database) -> AsyncIterator[Tally]:
    yield Tally()


async def _settle_claims(run: Job.Run) -> int:
    return await serving_jobs.settle_claims(run.db, now=run.now)


async def _forget_events(run: Job.Run) -> int:
    settings, links = run.resources.of(AdsSettings), run.resources.of(ClickLinks)
    return await serving_jobs.forget_events(run.db, now=run.now, days=settings.ad_profile_days, clicks_last=links.lasts)


SERVICES = (Service(Counters, _writer), Service(Tally, _tally))
QUERIES = (profiles.ProfileQuery,)
MUTATIONS = (serving.ServingMutation,)
JOBS = (Job("settle-ad-claims", _settle_claims), Job("forget-ad-events", _forget_events))
INVARIANTS = (
    Invariant("No ad was shown more often than its cap in all allows.", serving_checks.find_wrong_counters),
    Invariant(
        "Profiles of browsers are within their bounds, and jobs forget them.", serving_checks.find_wrong_profiles
    ),
)
