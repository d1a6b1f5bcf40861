"""Creates what an old crash of a placement or a deactivation leaves. See `leftovers`."""

from __future__ import annotations

from datetime import datetime

from portico.resolvers.documents import Document

from .ads import ad, place, placement
from .harness import MUTATIONS, GatewayClient
from .interruptions import crashing

LONG_AGO = datetime(2020, 1, 1)  # noqa: DTZ001 - as the driver gives it
Left = tuple[str, Document]


async def pending_ad(gateway: GatewayClient) -> Left:
    with crashing(gateway, 1):
        await gateway.ask(MUTATIONS["placeAd"], {"input": placement(ad())})
    pending = {"ads.pending.at": {"$exists": True}}
    await gateway.db["ads.zones"].update_one(pending, {"$set": {"ads.0.pending.at": LONG_AGO}})
    return "ads.zones", {"ads.pending.at": LONG_AGO}


async def ending_campaign(gateway: GatewayClient) -> Left:
    await place(gateway, ad())
    with crashing(gateway, 2):
        await gateway.ask(MUTATIONS["deactivateCampaign"], {"input": {"campaignId": "acme:spring"}})
    await gateway.db["ads.campaigns"].update_one({"_id": "acme:spring"}, {"$set": {"ending_since": LONG_AGO}})
    return "ads.campaigns", {"ending_since": LONG_AGO}
