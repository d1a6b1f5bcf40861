"""What the domain ads tells the tests that run on every domain."""

from __future__ import annotations

from portico.testing.kits import Kit, read_budgets
from tests.ads.support import cases, leftovers, seeds, serving_stages, stages
from tests.ads.support.creatives import CREATIVE
from tests.support.selections import NOT_FOUND

MUTATIONS = {
    "placeAd": "... on AdZonePayload { zone { id siteId zoneId ads { campaignId adUnitId ecpm keywords } } } "
    "... on InvalidInput { path }",
    "serveAds": "... on ServedAdsPayload { ads { campaignId adUnitId ecpm keywords clickUrl creative { text } } } "
    "... on InvalidInput { path }",
    "recordAdEvent": "... on AdEventPayload { recorded } ... on InvalidInput { path }",
    "setAdCreative": f"... on AdCreativePayload {{ creative {{ {CREATIVE} }} }} ... on InvalidInput {{ path }}",
    "deactivateCampaign": f"... on CampaignPayload {{ zones }} {NOT_FOUND}",
}


KIT = Kit(
    adds=("adZone", "AdZone"),
    mutations=MUTATIONS,
    inputs=cases.CASES,
    failures=cases.FAILURES,
    unfailed=cases.ELSEWHERE,
    leftovers={
        "settle-ads": (leftovers.pending_ad, leftovers.ending_campaign),
        "settle-ad-claims": (leftovers.undecided_claim, leftovers.decided_claim),
        "forget-ad-events": (leftovers.old_event, leftovers.profile_of_an_old_call, leftovers.old_click),
        "forget-ad-images": (leftovers.unused_image,),
    },
    background=("ads.counters",),
    budgets=read_budgets(__file__),
    scattered={
        "find ads.zones $or upgrade_failed",
        "find ads.zones ads.capping.at",
        "find ads.campaigns ",
        "find ads.campaigns ending_since",
        "find ads.zones ",
        "find ads.zones ads.pending.at",
        "find ads.counters ",
        "find ads.counters claims_since",
        "find ads.profiles ",
        "find ads.profiles events_since",
        "find ads.profiles kept_until",
        "find ads.clicks at",
        "find ads.creatives ",
        "find ads.creatives image.checksum",
        "find ads.images ",
        "find ads.images used_at",
    },
    stages=(stages.Zones, stages.Creatives, serving_stages.Serving),
    seed=seeds.seed,
)
