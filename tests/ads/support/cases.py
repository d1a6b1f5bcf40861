"""Inputs and failures of the mutations of ads, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from portico.resolvers.ads.ads import ad_key
from portico.testing.kits import Failing, Failure, fails_with
from tests.ads.support.ads import ad, place, placement
from tests.ads.support.creatives import creative
from tests.ads.support.serving import seen, view
from tests.support.harness import GatewayClient

Given = dict[str, Any]
Case = Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]


async def _place(_gateway: GatewayClient) -> tuple[Given, Given]:
    return placement(ad(ecpm=1)), placement(ad(ecpm=2))


async def _deactivate(gateway: GatewayClient) -> tuple[Given, Given]:
    await place(gateway, ad(), ad("other:one"))
    await place(gateway, ad("other:one"), zone="side")
    return {"campaignId": "acme:spring"}, {"campaignId": "other:one"}


async def _serve(gateway: GatewayClient) -> tuple[Given, Given]:
    await place(gateway, ad())
    await place(gateway, ad("other:one"), zone="side")
    return view(), view("kim", "side")


async def _record(gateway: GatewayClient) -> tuple[Given, Given]:
    """The other event is refused, and tells the zone that the ad is used up."""
    await place(gateway, ad(), ad(unit="used-up", totalCap=1))
    used_up = {"$set": {"shown": 1, "highest_cap": 1}}
    await gateway.db["ads.counters"].update_one({"_id": ad_key("acme:spring", "used-up")}, used_up)
    return seen(), seen(user="kim", adUnitId="used-up")


async def _set_creative(gateway: GatewayClient) -> tuple[Given, Given]:
    await place(gateway, ad())
    return creative(), creative(text="Summer is here.", size={"width": 300, "height": 250})


CASES: dict[str, Case] = {
    "setAdCreative": _set_creative,
    "placeAd": _place,
    "deactivateCampaign": _deactivate,
    "serveAds": _serve,
    "recordAdEvent": _record,
}


async def _unknown_campaign(gateway: GatewayClient) -> Failure:
    async def repair() -> None:
        await place(gateway, ad())

    return Failure({"campaignId": "acme:spring"}, repair)


async def _event_of_an_unknown_campaign(gateway: GatewayClient) -> Failure:
    return Failure(seen(), (await _unknown_campaign(gateway)).repair)


async def _creative_of_an_unknown_campaign(gateway: GatewayClient) -> Failure:
    return Failure(creative(), (await _unknown_campaign(gateway)).repair)


# `test_creatives` has the files. A creative conflicts only if other calls create and delete it all the time.
ELSEWHERE = {("setAdCreative", "UnacceptableFile"), ("setAdCreative", "Conflict")}
FAILURES: dict[tuple[str, str], Failing] = {
    ("placeAd", "InvalidInput"): fails_with(lambda: placement(ad(ecpm=-1))),
    ("deactivateCampaign", "NotFound"): _unknown_campaign,
    ("setAdCreative", "InvalidInput"): _creative_of_an_unknown_campaign,
    ("serveAds", "InvalidInput"): fails_with(lambda: view(limit=0)),
    ("recordAdEvent", "InvalidInput"): _event_of_an_unknown_campaign,
}
