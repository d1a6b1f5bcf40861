"""Zones and the ads in them."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import strawberry

from portico.resolvers.ads import clicks, zones
from portico.resolvers.ads.ads import key_of_ad
from portico.resolvers.paging import page_size
from portico.schema.context import Info
from portico.schema.fields import Source, as_type, computed, related, stored
from portico.schema.inputs import described
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.parts import digest_of, part_id
from portico.schema.reading import load_one

from .creatives import AD_CREATIVE, AdCreative
from .prices import price_in, sees_prices

# Most ads have fewer keywords than they may have.
_KEYWORDS = 10
# How many zones a payload shows by default.
DEFAULT_SHOWN = 10

SiteId = Annotated[str, described("The site.")]
ZoneId = Annotated[str, described("The zone of the site.")]
FirstZones = Annotated[int, described("The most zones, 1 to 100.")]

AD_ZONE = Kind.of(
    "AdZone",
    zones.ZONES,
    parse=zones.parse_id,
    callers=sees_prices,
)


# What distinguishes an ad from all others. An ad that is served has a link of its own, each time.
_NAMES = ("zone", "campaign_id", "ad_unit_id", "impression")


def _click_url(ad: Source) -> str | None:
    return f"{clicks.PATH}/{ad['click']}" if "click" in ad else None


@strawberry.type(description="An ad in a zone.")
class Ad:
    id: strawberry.ID = part_id("Ad", lambda ad: digest_of(*(ad[name] for name in _NAMES if name in ad)), *_NAMES)
    campaign_id: str = stored(description="The campaign that the ad belongs to, as `advertiser:campaign`.")
    ad_unit_id: str = stored(description="The ad unit of the campaign, for example a banner in one size.")
    ecpm: int = computed(
        price_in,
        "ecpm",
        description="The effective cost of a thousand impressions, in cents. For an ADVERTISER or a SERVICE; for "
        "everybody else it is an error.",
    )
    keywords: list[str] = stored(length=_KEYWORDS, description="The keywords of the pages that the ad suits best.")
    creative: AdCreative | None = related(
        AD_CREATIVE.name, "key", description="What the ad shows; null if its advertiser has not set it."
    )
    click_url: str | None = computed(
        _click_url,
        "click",
        description="The path on this server that records a click, once, and leads to the link of the creative. Null "
        "for an ad that was not served.",
    )


def _live_ads(zone: Source) -> list[Source]:
    return [{**ad, "zone": zone["_id"], "key": key_of_ad(ad)} for ad in zones.live_ads(dict(zone))]


@strawberry.type(
    description="A place on a site where ads are shown. For an ADVERTISER or a SERVICE; for everybody else it does not "
    "exist."
)
class AdZone(Node):
    id: strawberry.ID = node_id("AdZone", "_id")
    site_id: str = stored(description="The site.")
    zone_id: str = stored(description="The zone of the site.")
    ads: list[Ad] = computed(
        _live_ads,
        "_id",
        "ads",
        length=zones.MAX_ADS,
        compared=True,
        description="The ads in the zone, dearest first.",
    )


def require_first(first: int) -> None:
    """Raises InvalidInput if a payload cannot show so many zones."""
    page_size(first, DEFAULT_SHOWN, most=zones.MAX_SHOWN)


async def shown_zones(info: Info, keys: Sequence[str]) -> list[AdZone]:
    """Returns those zones with these keys that the caller sees."""
    found = await asyncio.gather(*(load_one(info, AD_ZONE, key) for key in keys))
    return as_type(list[AdZone], [zone for zone in found if zone is not None])


@strawberry.type
class ZoneQuery:
    @strawberry.field(
        description="A zone with its ads; null if nobody has ever tried to place a valid ad in it. For an ADVERTISER "
        "or a SERVICE; null for everybody else."
    )
    async def ad_zone(self, info: Info, site_id: SiteId, zone_id: ZoneId) -> AdZone | None:
        found = await load_one(info, AD_ZONE, zones.zone_key(site_id, zone_id))
        return as_type(AdZone, found)
