"""Analytics: log events, hit counters, and sessions that are rolled up."""

from __future__ import annotations

from pathlib import Path

from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.resolvers.declarations import Domain
from portico.schema.analytics.analysts import ANALYST

from . import demo, hits, log_events, own_requests, sessions, setting_limits

DOMAIN = Domain(
    name="analytics",
    about="Logs of requests, counters of hits, and sessions rolled up from hours to years, exact and replayable.",
    roles=(ANALYST,),
    collections=(*log_events.COLLECTIONS, *hits.COLLECTIONS, *sessions.COLLECTIONS),
    settings=AnalyticsSettings,
    require=setting_limits.require,
    services=(own_requests.SERVICE, *hits.SERVICES),
    jobs=(*log_events.JOBS, *hits.JOBS, *sessions.JOBS),
    invariants=(*hits.INVARIANTS, *sessions.INVARIANTS, *log_events.INVARIANTS),
    gauges=sessions.GAUGES,
    counters=own_requests.COUNTERS,
    commands=sessions.COMMANDS,
    importers=log_events.IMPORTERS,
    kinds=log_events.KINDS,
    pages=log_events.PAGES,
    queries=(*log_events.QUERIES, *hits.QUERIES, *sessions.QUERIES),
    mutations=(*log_events.MUTATIONS, *hits.MUTATIONS, *sessions.MUTATIONS),
    demo=demo.load,
    examples=(("Analytics", Path(__file__).parent / "examples.graphql"),),
    middleware=own_requests.middleware,
)
