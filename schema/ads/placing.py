"""The mutations of zones and campaigns, for advertisers."""

from typing import Annotated

import strawberry

from portico.resolvers.ads import ads, deactivating, placing
from portico.resolvers.ads.zones import MAX_SHOWN
from portico.resolvers.documents import Document
from portico.schema.context import Info
from portico.schema.errors import InvalidInput, NotFound
from portico.schema.fields import as_type, costs, kept_privately
from portico.schema.inputs import idempotency_key
from portico.schema.mutations import mutation
from portico.schema.scalars import BigInt

from .advertisers import ADVERTISER
from .zones import DEFAULT_SHOWN, AdZone, FirstZones, require_first, shown_zones


@strawberry.input(description="An ad as it is placed in a zone.")
class AdInput:
    campaign_id: str = strawberry.field(
        description="The campaign that the ad belongs to, as `advertiser:campaign`, up to 200 characters."
    )
    ad_unit_id: str = strawberry.field(description="The ad unit of the campaign, up to 200 characters.")
    ecpm: int = strawberry.field(description="The effective cost of a thousand impressions, in cents, at least 0.")
    keywords: list[str] = strawberry.field(
        default_factory=list,
        description="The keywords of the pages that the ad suits best, up to 50 of up to 100 characters, 2,000 bytes "
        "of UTF-8 together. Case, width and surrounding blanks do not matter.",
    )
    daily_cap: int = strawberry.field(
        default=1, description="The impressions that a user may have of the ad in a day (UTC), at least 1."
    )
    total_cap: BigInt | None = strawberry.field(
        default=None,
        description="The impressions of the ad in all, over all users and zones; null for no limit. The smallest "
        "`totalCap` of the ad's placements holds in all of its zones. It counts every impression, also those before it "
        "was set, and is never exceeded.",
    )

    def ad(self) -> ads.Ad:
        total_cap = None if self.total_cap is None else int(self.total_cap)
        return ads.Ad(self.campaign_id, self.ad_unit_id, self.ecpm, self.keywords, self.daily_cap, total_cap)


@strawberry.input(description="An ad to place in a zone.")
class PlaceAdInput:
    site_id: str = strawberry.field(description="The site, up to 200 characters.")
    zone_id: str = strawberry.field(
        description="The zone of the site, up to 200 characters. The first ad in it creates it. It has up to 1,000 ads."
    )
    ad: AdInput = strawberry.field(
        description="The ad. If the zone already has an ad with this campaign and ad unit, it gets the new values."
    )
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A campaign.")
class CampaignInput:
    campaign_id: str = strawberry.field(description="The campaign, as `advertiser:campaign`.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The zone after the write.")
class AdZonePayload:
    zone: AdZone = strawberry.field(description="The current zone.")


@strawberry.type(description="The campaign is deactivated.")
class CampaignPayload:
    zones: int = strawberry.field(description="The number of zones that it was taken out of.")
    ended: strawberry.Private[Document | None] = kept_privately()

    @strawberry.field(
        metadata=costs(length=MAX_SHOWN, each="first"),
        description="Some of the zones that it was taken out of, as they are now.",
    )
    async def changed_zones(self, info: Info, first: FirstZones = DEFAULT_SHOWN) -> list[AdZone]:
        require_first(first)
        return await shown_zones(info, [] if self.ended is None else self.ended["in"][:first])


PlaceAdResult = Annotated[
    AdZonePayload | InvalidInput, strawberry.union("PlaceAdResult", description="The result of placing an ad.")
]
DeactivateCampaignResult = Annotated[
    CampaignPayload | NotFound,
    strawberry.union("DeactivateCampaignResult", description="The result of deactivating a campaign."),
]


@strawberry.type
class PlacingMutation:
    @mutation(
        role=ADVERTISER,
        description="Places an ad in a zone, or changes the ad that is there. For an ADVERTISER. "
        "An ad of a deactivated campaign is refused.",
    )
    async def place_ad(self, info: Info, input: PlaceAdInput) -> PlaceAdResult | None:
        zone = await placing.place_ad(
            info.context.db,
            site_id=input.site_id,
            zone_id=input.zone_id,
            ad=input.ad.ad(),
            **info.context.operation,
        )
        return AdZonePayload(zone=as_type(AdZone, zone))

    @mutation(
        role=ADVERTISER,
        description="Takes all ads of a campaign out of all zones, for good. For an ADVERTISER. No request that begins "
        "after the answer gets such an ad.",
    )
    async def deactivate_campaign(self, info: Info, input: CampaignInput) -> DeactivateCampaignResult | None:
        campaign = await deactivating.deactivate_campaign(
            info.context.db, campaign_id=input.campaign_id, now=info.context.now
        )
        return CampaignPayload(zones=campaign["zones"], ended={"in": campaign.get("ended_in", [])})
