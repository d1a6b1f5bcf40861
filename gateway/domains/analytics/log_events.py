"""What the domain declares about log events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portico.resolvers.analytics import log_jobs
from portico.resolvers.analytics.log_events import LOG_EVENTS
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.resolvers.domains import Job, Turn
from portico.schema.analytics import log_events, logging

from . import log_files


async def _forget_log_events(turn: Turn) -> int:
    days = turn.resources.of(AnalyticsSettings).log_days
    return await log_jobs.forget_log_events(turn.db, now=turn.now, days=days)


COLLECTIONS = (LOG_EVENTS,)
JOBS = (Job("forget-log-events", _forget_log_events),)
KINDS = (log_events.LOG_EVENT,)
PAGES = (log_events.PAGES,)
QUERIES = (log_events.LogQuery,)
MUTATIONS = (logging.LogMutation,)
IMPORTERS: Mapping[str, Any] = {"logs": log_files.logs()}
