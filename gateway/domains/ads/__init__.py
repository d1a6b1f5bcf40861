"""Ads: zones with priced ads, choices, capped impressions, and profiles of browsers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.routing import BaseRoute, Route

from portico.gateway.state import State
from portico.resolvers.ads.campaigns import CAMPAIGNS
from portico.resolvers.ads.clicks import CLICKS
from portico.resolvers.ads.counters import COUNTERS
from portico.resolvers.ads.creatives import CREATIVES
from portico.resolvers.ads.images import IMAGES
from portico.resolvers.ads.profiles import PROFILES
from portico.resolvers.ads.settings import AdsSettings
from portico.resolvers.ads.zones import ZONES
from portico.resolvers.declarations import Domain
from portico.schema.ads.advertisers import ADVERTISER

from . import campaigns, clicks, creatives, demo, events, pseudonyms, serving, zones

_FOLDER = Path(__file__).parent


def _routes(state: Callable[[], State]) -> Sequence[BaseRoute]:
    return [Route(creatives.ROUTE, creatives.Images(state)), Route(clicks.ROUTE, clicks.Clicks(state))]


DOMAIN = Domain(
    name="ads",
    about="Ads in the zones of sites: choices by price and relevance, and caps that are never exceeded.",
    roles=(ADVERTISER,),
    collections=(ZONES, CAMPAIGNS, COUNTERS, PROFILES, CREATIVES, IMAGES, CLICKS),
    settings=AdsSettings,
    require=pseudonyms.of,
    services=(
        pseudonyms.SERVICE,
        *clicks.SERVICES,
        *zones.SERVICES,
        *serving.SERVICES,
        *creatives.SERVICES,
    ),
    jobs=(*zones.JOBS, *serving.JOBS, *creatives.JOBS),
    invariants=(*zones.INVARIANTS, *serving.INVARIANTS, *creatives.INVARIANTS),
    importers={"campaigns": campaigns.campaigns(), "ads": campaigns.ads(), "ad-events": events.ad_events()},
    kinds=(*zones.KINDS, *creatives.KINDS),
    queries=(*zones.QUERIES, *serving.QUERIES),
    mutations=(*zones.MUTATIONS, *serving.MUTATIONS, *creatives.MUTATIONS),
    routes=_routes,
    error_codes={"PREFETCHED": "A browser fetches the link of an ad ahead. It asks again when somebody clicks."},
    demo=demo.load,
    examples=(("Ads", _FOLDER / "examples.graphql"),),
)
