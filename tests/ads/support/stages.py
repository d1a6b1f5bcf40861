"""Zones with ads of three campaigns, and the writes of advertisers."""

from __future__ import annotations

from typing import Any

from portico.testing.stages import Case, Stage
from tests.ads.support.ads import ad, ads_in, deactivate, place, placement
from tests.ads.support.creatives import creative

ZONES = ("front", "side", "blog", "new")
# For each zone, its ads with their prices, dearest first.
Shown = dict[str, list[tuple[str, int]]]
ELSE = ("other:one else", 5)
BEFORE: Shown = {
    "front": [("acme:spring banner", 10), ELSE],
    "side": [("acme:spring banner", 20)],
    "blog": [("acme:spring second", 31), ("acme:spring banner", 30)],
}
CASES = {
    "a new ad": Case(
        "placeAd",
        lambda _: placement(ad(unit="second", ecpm=40)),
        "AdZonePayload",
        {**BEFORE, "front": [("acme:spring second", 40), *BEFORE["front"]]},
    ),
    "the first ad": Case(
        "placeAd",
        lambda _: placement(ad("fresh:one", ecpm=7), "new"),
        "AdZonePayload",
        {**BEFORE, "new": [("fresh:one banner", 7)]},
    ),
    "a changed ad": Case(
        "placeAd",
        lambda _: placement(ad(ecpm=3)),
        "AdZonePayload",
        {**BEFORE, "front": [ELSE, ("acme:spring banner", 3)]},
    ),
    "a new ad with a cap": Case(
        "placeAd",
        lambda _: placement(ad(ecpm=40, totalCap=7), "new"),
        "AdZonePayload",
        {**BEFORE, "new": [("acme:spring banner", 40)]},
    ),
    "a changed cap": Case("placeAd", lambda _: placement(ad(ecpm=10, totalCap=9)), "AdZonePayload", BEFORE),
    "a refused ad": Case("placeAd", lambda _: placement(ad("gone:one")), "InvalidInput", BEFORE),
    "a deactivation": Case(
        "deactivateCampaign",
        lambda _: {"campaignId": "acme:spring"},
        "CampaignPayload",
        {"front": [ELSE]},
        {"zones": 3},
    ),
}
SELECTIONS = {"deactivateCampaign": "... on CampaignPayload { zones }"}


class Zones(Stage):
    """Acme's campaign has ads in three zones, and another campaign has one. A third campaign is deactivated."""

    collections = ("ads.zones", "ads.campaigns", "ads.counters", "operations")
    job_names = ("settle-ads",)
    job_seconds = 6
    least = (2, 3)
    before = BEFORE
    cases = CASES
    selections = SELECTIONS

    async def build(self) -> None:
        await place(self.gateway, ad(ecpm=10), ad("other:one", "else", 5))
        await place(self.gateway, ad(ecpm=20), zone="side")
        await place(self.gateway, ad(ecpm=30), ad(unit="second", ecpm=31), zone="blog")
        await place(self.gateway, ad("gone:one"))
        await deactivate(self.gateway, "gone:one")

    async def state(self) -> Shown:
        zones = await ads_in(self.gateway, ZONES)
        return {
            zone: [(f"{one['campaignId']} {one['adUnitId']}", one["ecpm"]) for one in ads]
            for zone, ads in zones.items()
            if ads
        }

    async def assert_settled(self) -> None:
        for mark in ("ads.pending", "ads.ended", "ads.capping"):
            assert await self.gateway.db["ads.zones"].find_one({mark: {"$exists": True}}) is None
        assert await self.gateway.db["ads.campaigns"].find_one({"state": "ENDING"}) is None
        await super().assert_settled()


TEXTS = {"banner": "Spring is here."}
CREATIVES = {
    "a new creative": Case(
        "setAdCreative",
        lambda _: creative(unit="second", text="New."),
        "AdCreativePayload",
        {**TEXTS, "second": "New."},
    ),
    "a changed creative": Case(
        "setAdCreative", lambda _: creative(text="Changed."), "AdCreativePayload", {"banner": "Changed."}
    ),
    "a refused creative": Case("setAdCreative", lambda _: creative("gone:one", text="No."), "InvalidInput", TEXTS),
}


class Creatives(Stage):
    """An ad with a creative, an ad without one, and a campaign that is deactivated."""

    collections = ("ads.creatives", "operations")
    job_names = ("forget-ad-images",)
    job_seconds = 1
    least = (1, 2)
    finishes = True
    before = TEXTS
    cases = CREATIVES

    async def build(self) -> None:
        await place(self.gateway, ad(), ad(unit="second"), ad("gone:one"))
        await deactivate(self.gateway, "gone:one")
        await self.result("setAdCreative", creative())

    async def state(self) -> Any:
        found = self.gateway.db["ads.creatives"].find({})
        return {one["ad_unit_id"]: one["text"] async for one in found}
