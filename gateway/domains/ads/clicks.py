"""`/ads/clicks`: records a click by a signed link, and leads on to the link of the creative."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from portico.gateway.http.requests import Refused
from portico.gateway.pages.files import Files
from portico.gateway.settings import Settings
from portico.gateway.state import State
from portico.resolvers.ads import clicks, creatives, zones
from portico.resolvers.ads.clicks import ClickLink, ClickLinks
from portico.resolvers.ads.creatives import CreativeDocument
from portico.resolvers.ads.settings import AdsSettings
from portico.resolvers.declarations import Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.together import both

from . import pseudonyms

ROUTE = f"{clicks.PATH}/{{link}}"
# Each request must reach the server, and search engines must not follow the link.
_HEADERS = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex, nofollow"}


class Clicks(Files):
    """The ASGI application of `/ads/clicks`."""

    async def respond(self, request: Request, state: State) -> Response:
        link = state.resources.of(ClickLinks).read(request.path_params["link"])
        if link is None:
            raise Refused(404, "NOT_FOUND", "The link is not one of this server.")
        if _is_prefetch(request):
            # Nobody has clicked. The browser asks again when somebody does.
            raise Refused(503, "PREFETCHED", "The link must not be fetched ahead.")
        creative, zone = await both(
            creatives.find_creative(state.database, link.ad), zones.find_names(state.database, link.zone)
        )
        if creative is None or zone is None:
            raise Refused(404, "NOT_FOUND", "The ad does not lead anywhere any more.")
        if request.method == "GET" and not state.settings.read_only:
            await _record(state, link, creative, *zone)
        return RedirectResponse(creative["link"], 303, headers=_HEADERS)


async def _record(state: State, link: ClickLink, creative: CreativeDocument, site_id: str, zone_id: str) -> None:
    await clicks.record_click(
        state.database,
        link,
        campaign_id=creative["campaign_id"],
        ad_unit_id=creative["ad_unit_id"],
        site_id=site_id,
        zone_id=zone_id,
        now=state.clock.now(),
    )


def _is_prefetch(request: Request) -> bool:
    headers = request.headers
    return any("prefetch" in headers.get(name, "").lower() for name in ("sec-purpose", "purpose", "x-moz"))


@asynccontextmanager
async def _links(resources: Resources, _db: Database) -> AsyncIterator[ClickLinks]:
    own = resources.of(AdsSettings)
    secret = pseudonyms.secret_of(resources.of(Settings), own)
    yield ClickLinks(secret, timedelta(hours=own.ad_click_hours))


SERVICES = (Service(ClickLinks, _links),)
