"""Serving ads, and recording events."""

from typing import Annotated, Any

import strawberry

from portico.resolvers.ads import recording, serving
from portico.resolvers.ads.ads import (
    MAX_CHOSEN,
    require_campaign_id,
    require_id,
    require_limit,
    require_page_keywords,
)
from portico.resolvers.ads.attempts import Call, Means
from portico.resolvers.ads.claiming import Counters
from portico.resolvers.ads.clicks import ClickLink, ClickLinks
from portico.resolvers.ads.serving import Served
from portico.resolvers.ads.tallying import Tally
from portico.resolvers.ads.zone_reads import Zones
from portico.resolvers.ads.zones import MAX_ADS, zone_key
from portico.resolvers.documents import Document
from portico.resolvers.writes.marks import derived_nonce
from portico.schema.context import Context, Info, core
from portico.schema.errors import InvalidInput
from portico.schema.fields import as_type, costs, kept_privately
from portico.schema.fingerprints import secret_by
from portico.schema.inputs import idempotency_key
from portico.schema.mutations import mutation
from portico.schema.selections import cached, selection_of

from .choosing import KEYWORD_COST, RNG, RejectedAd, folds_of, profile_id_of, rejected_of
from .prices import require_prices, require_prices_if_selected, shown_to
from .profiles import AdEventKind, ShowsProfile, seen_by
from .zones import Ad


@strawberry.input(description="A page view that shows ads.")
class ServeAdsInput:
    site_id: str = strawberry.field(description="The site.")
    zone_id: str = strawberry.field(description="The zone of the site.")
    user_id: str | None = strawberry.field(
        default=None,
        metadata=secret_by(profile_id_of),
        description="The browser: any text, up to 1,000 characters, which is stored only as a hash. "
        "Without it, no daily cap applies.",
    )
    keywords: list[str] = strawberry.field(
        default_factory=list,
        description="The keywords of the page, up to 10,000 of up to 100 characters, 100,000 characters together.",
    )
    limit: int = strawberry.field(default=1, description="The most ads to show, 1 to 100.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A click on an ad, or an impression that was counted elsewhere.")
class AdEventInput:
    kind: AdEventKind = strawberry.field(description="What happened.")
    user_id: str = strawberry.field(
        metadata=secret_by(profile_id_of),
        description="The browser: any text, up to 1,000 characters, which is stored only as a hash.",
    )
    site_id: str = strawberry.field(description="The site, up to 200 characters.")
    zone_id: str = strawberry.field(description="The zone of the site, up to 200 characters.")
    campaign_id: str = strawberry.field(description="The campaign of the ad, as `advertiser:campaign`.")
    ad_unit_id: str = strawberry.field(description="The ad unit of the campaign.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The ads to show. Their impressions are counted.")
class ServedAdsPayload(ShowsProfile):
    ads: list[Ad] = strawberry.field(
        metadata=costs(length=MAX_CHOSEN), description="The ads, best first. Empty if none may be shown."
    )
    # The other ads, if the first call selected them; and what to work them out from otherwise.
    others: strawberry.Private[list[dict[str, Any]] | None] = kept_privately()
    page: strawberry.Private[dict[str, Any] | None] = kept_privately()

    @strawberry.field(
        metadata=costs(length=MAX_ADS),
        description="Every other ad of the zone, best first, and why it was not chosen. Worked out only if you select "
        "it. If only a repeated call selects it, it shows the zone and the caps as they are then. For an ADVERTISER or "
        "a SERVICE; for everybody else the mutation is an error, and counts nothing.",
    )
    async def rejected(self, info: Info) -> list[RejectedAd]:
        require_prices(info.context)
        others = self.others
        if others is None:
            assert self.page is not None
            context = info.context
            ads: Any = self.ads
            choice = await serving.rejected_later(context.db, _means(context), self.page, ads, now=context.now)
            others = rejected_of(choice)
        return as_type(list[RejectedAd], others)


@strawberry.type(description="The result of an event.")
class AdEventPayload(ShowsProfile):
    recorded: bool = strawberry.field(
        description="False if a cap of the ad did not allow the impression. Then nothing was counted or recorded."
    )


ServeAdsResult = Annotated[
    ServedAdsPayload | InvalidInput, strawberry.union("ServeAdsResult", description="The result of serving ads.")
]
AdEventResult = Annotated[
    AdEventPayload | InvalidInput, strawberry.union("AdEventResult", description="The result of recording an event.")
]


@strawberry.type
class ServingMutation:
    @mutation(
        description="Chooses ads as `chooseAds` does, and counts an impression of each in the same step. So no cap is "
        "ever exceeded, however many pages load at once. For all callers.",
        weights={"input.keywords": KEYWORD_COST},
    )
    async def serve_ads(self, info: Info, input: ServeAdsInput) -> ServeAdsResult | None:
        with InvalidInput.collect() as check:
            keywords = check(require_page_keywords, input.keywords, "keywords", folds=folds_of(info.context))
            check(require_limit, input.limit, "limit")
            call = check(_call, info.context, input)
        require_prices_if_selected(info, "ServedAdsPayload")
        served = await serving.serve(_means(info.context), call, keywords=keywords, limit=input.limit)
        return _payload(info, served, call, keywords)

    @mutation(
        description="Records a click on an ad, or an impression that was counted elsewhere. "
        "Such an impression counts for the caps of the ad. For all callers."
    )
    async def record_ad_event(self, info: Info, input: AdEventInput) -> AdEventResult | None:
        with InvalidInput.collect() as check:
            call = check(_call, info.context, input)
            campaign_id = check(require_campaign_id, input.campaign_id, "campaign_id")
            ad_unit_id = check(require_id, input.ad_unit_id, "ad_unit_id")
        recorded = await recording.record_event(
            _means(info.context), call, kind=input.kind.name, campaign_id=campaign_id, ad_unit_id=ad_unit_id
        )
        return AdEventPayload(recorded=recorded, seen=seen_by(call.user))


def _means(context: Context) -> Means:
    resources = context.resources
    return Means(resources.of(Zones), resources.of(Counters), resources.of(Tally), RNG)


def _call(context: Context, given: ServeAdsInput | AdEventInput) -> Call:
    with InvalidInput.collect() as check:
        site_id, zone_id = check(require_id, given.site_id, "site_id"), check(require_id, given.zone_id, "zone_id")
        user = None if given.user_id is None else check(profile_id_of, context, given.user_id)
    return Call(
        db=context.db,
        site_id=site_id,
        zone_id=zone_id,
        user=user,
        now=context.now,
        operation_id=context.operation_id,
        keys_kept=context.keys_kept,
    )


def _payload(info: Info, served: Served, call: Call, keywords: frozenset[str]) -> ServedAdsPayload:
    ads: Any = [_served(info.context, call, ad) for ad in shown_to(info.context, served.ads)]
    seen = seen_by(call.user)
    if served.choice is not None and _selects_rejected(info):
        return ServedAdsPayload(ads=ads, seen=seen, others=rejected_of(served.choice))
    return ServedAdsPayload(ads=ads, seen=seen, page=serving.page_of(call, served, keywords))


def _served(context: Context, call: Call, ad: Document) -> Document:
    """Returns a served ad with the link of its impression, which is the same for each repetition of the call."""
    links = context.resources.of(ClickLinks)
    zone, nonce = zone_key(call.site_id, call.zone_id), derived_nonce(call.operation_id, "click", ad["key"])
    link = ClickLink(ad["key"], zone, call.user, nonce, call.now + links.lasts)
    return {**ad, "zone": zone, "impression": nonce, "click": links.sign(link)}


def _selects_rejected(info: Info) -> bool:
    asked = core(info)

    def selects() -> bool:
        payload: Any = asked.schema.type_map["ServedAdsPayload"]
        return "rejected" in selection_of(asked).fields(payload)

    found: bool = cached(asked, "rejected", selects)
    return found
