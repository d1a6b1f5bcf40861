"""What the domain declares about log events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portico.resolvers.analytics import log_jobs, page_checks, page_roll_ups
from portico.resolvers.analytics.log_days import LOG_DAYS, PAGE_DAYS
from portico.resolvers.analytics.log_events import LOG_EVENTS
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.resolvers.declarations import Job
from portico.resolvers.problems import Invariant
from portico.schema.analytics import log_events, logging

from . import log_files


async def _forget_log_events(run: Job.Run) -> int:
    days = run.resources.of(AnalyticsSettings).log_days
    return await log_jobs.forget_log_events(run.db, now=run.now, days=days)


async def _roll_up_days(run: Job.Run) -> int:
    days = run.resources.of(AnalyticsSettings).log_days
    return await page_roll_ups.roll_up_days(run.db, now=run.now, days=days)


COLLECTIONS = (LOG_EVENTS, LOG_DAYS, PAGE_DAYS)
JOBS = (Job("forget-log-events", _forget_log_events), Job(page_roll_ups.JOB, _roll_up_days))
INVARIANTS = (Invariant("Every roll-up of log events equals the events of its day.", page_checks.find_wrong_days),)
KINDS = (log_events.LOG_EVENT,)
PAGES = (log_events.PAGES,)
QUERIES = (log_events.LogQuery,)
MUTATIONS = (logging.LogMutation,)
IMPORTERS: Mapping[str, Any] = {"logs": log_files.logs()}
