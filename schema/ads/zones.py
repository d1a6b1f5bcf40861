"""Zones and the ads in them."""

from typing import Annotated

import strawberry

from portico.resolvers.ads import zones
from portico.schema.context import Info
from portico.schema.fields import Source, as_type, computed, stored
from portico.schema.inputs import described
from portico.schema.nodes import Node, everybody, node_id
from portico.schema.parts import digest_of, part_id
from portico.schema.reading import document_kind, load_one

# Most ads have fewer keywords than they may have.
_KEYWORDS = 10

SiteId = Annotated[str, described("The site.")]
ZoneId = Annotated[str, described("The zone of the site.")]

AD_ZONE = document_kind(
    "AdZone",
    zones.ZONES,
    parse=zones.parse_id,
    visible_to=everybody,
)


@strawberry.type(description="An ad in a zone.")
class Ad:
    id: strawberry.ID = part_id(
        "Ad",
        lambda ad: digest_of(ad["zone"], ad["campaign_id"], ad["ad_unit_id"]),
        "zone",
        "campaign_id",
        "ad_unit_id",
    )
    campaign_id: str = stored(description="The campaign that the ad belongs to, as `advertiser:campaign`.")
    ad_unit_id: str = stored(description="The ad unit of the campaign, for example a banner in one size.")
    ecpm: int = stored(description="The effective cost of a thousand impressions, in cents.")
    keywords: list[str] = stored(length=_KEYWORDS, description="The keywords of the pages that the ad suits best.")


def _live_ads(zone: Source) -> list[Source]:
    return [{**ad, "zone": zone["_id"]} for ad in zones.live_ads(dict(zone))]


@strawberry.type(description="A place on a site where ads are shown.")
class AdZone(Node):
    id: strawberry.ID = node_id("AdZone", "_id")
    site_id: str = stored(description="The site.")
    zone_id: str = stored(description="The zone of the site.")
    ads: list[Ad] = computed(
        _live_ads, "_id", "ads", length=zones.MAX_ADS, description="The ads in the zone, dearest first."
    )


@strawberry.type
class ZoneQuery:
    @strawberry.field(description="A zone with its ads; null if nobody has ever tried to place a valid ad in it.")
    async def ad_zone(self, info: Info, site_id: SiteId, zone_id: ZoneId) -> AdZone | None:
        found = await load_one(info, AD_ZONE, zones.zone_key(site_id, zone_id))
        return as_type(AdZone, found)
