"""Inputs and failures of the mutations of ads, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from .ads import ad, place, placement
from .failures import Failing, Failure, fails_with
from .harness import GatewayClient

Given = dict[str, Any]
Case = Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]


async def _place(_gateway: GatewayClient) -> tuple[Given, Given]:
    return placement(ad(ecpm=1)), placement(ad(ecpm=2))


async def _deactivate(gateway: GatewayClient) -> tuple[Given, Given]:
    await place(gateway, ad(), ad("other:one"))
    await place(gateway, ad("other:one"), zone="side")
    return {"campaignId": "acme:spring"}, {"campaignId": "other:one"}


CASES: dict[str, Case] = {"placeAd": _place, "deactivateCampaign": _deactivate}
DONE = ("AdZonePayload", "CampaignPayload")
COLLECTIONS = ("ads.zones", "ads.campaigns")


async def _unknown_campaign(gateway: GatewayClient) -> Failure:
    async def repair() -> None:
        await place(gateway, ad())

    return Failure({"campaignId": "acme:spring"}, repair)


FAILURES: dict[tuple[str, str], Failing] = {
    ("placeAd", "InvalidInput"): fails_with(lambda: placement(ad(ecpm=-1))),
    ("deactivateCampaign", "NotFound"): _unknown_campaign,
}
