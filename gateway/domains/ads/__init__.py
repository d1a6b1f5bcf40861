"""Ads: zones with priced ads, choices, capped impressions, and profiles of browsers."""

from __future__ import annotations

from pathlib import Path

from portico.resolvers.ads.campaigns import CAMPAIGNS
from portico.resolvers.ads.counters import COUNTERS
from portico.resolvers.ads.profiles import PROFILES
from portico.resolvers.ads.settings import AdsSettings
from portico.resolvers.ads.zones import ZONES
from portico.resolvers.domains import Domain

from . import campaigns, demo, events, pseudonyms, serving, zones

_FOLDER = Path(__file__).parent

DOMAIN = Domain(
    name="ads",
    about="Ads in the zones of sites: choices by price and relevance, and caps that are never exceeded.",
    collections=(ZONES, CAMPAIGNS, COUNTERS, PROFILES),
    settings=AdsSettings,
    require=pseudonyms.of,
    services=(pseudonyms.SERVICE, *zones.SERVICES, *serving.SERVICES),
    jobs=(*zones.JOBS, *serving.JOBS),
    invariants=(*zones.INVARIANTS, *serving.INVARIANTS),
    importers={"campaigns": campaigns.campaigns(), "ads": campaigns.ads(), "ad-events": events.ad_events()},
    kinds=zones.KINDS,
    queries=(*zones.QUERIES, *serving.QUERIES),
    mutations=(*zones.MUTATIONS, *serving.MUTATIONS),
    demo=demo.load,
    examples=(("Ads", _FOLDER / "examples.graphql"),),
)
