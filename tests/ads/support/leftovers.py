"""Creates what old crashes leave in zones, campaigns, counters and profiles. See `leftovers`."""

from __future__ import annotations

from tests.ads.support.ads import ad, keyed, place, placement
from tests.ads.support.creatives import banner, click_url, creative, follow, set_creative
from tests.ads.support.serving import SERVE, serve, settled, view
from tests.support.harness import MUTATIONS, GatewayClient
from tests.support.interruptions import crashing
from tests.support.leftovers import LONG_AGO, Left


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


async def _claim(gateway: GatewayClient, stop: int) -> Left:
    await place(gateway, ad(totalCap=9, dailyCap=9))
    # The call creates the profile, claims, and decides.
    with crashing(gateway, stop):
        await gateway.ask(SERVE, {"input": view()}, token=None)
        await settled(gateway)
    old = {"claims.0.at": LONG_AGO, "claims_since": LONG_AGO}
    updated = await gateway.db["ads.counters"].update_one({"claims.at": {"$exists": True}}, {"$set": old})
    assert updated.matched_count == 1
    return "ads.counters", {"claims.at": LONG_AGO}


async def undecided_claim(gateway: GatewayClient) -> Left:
    return await _claim(gateway, 2)


async def decided_claim(gateway: GatewayClient) -> Left:
    return await _claim(gateway, 3)


async def old_event(gateway: GatewayClient) -> Left:
    await place(gateway, ad())
    await serve(gateway)
    await gateway.db["ads.profiles"].update_one({}, {"$set": {"events.0.at": LONG_AGO, "events_since": LONG_AGO}})
    return "ads.profiles", {"events.at": LONG_AGO}


async def profile_of_an_old_call(gateway: GatewayClient) -> Left:
    await place(gateway, ad())
    await serve(gateway, keyed(**view(None)))
    await gateway.db["ads.profiles"].update_one({}, {"$set": {"kept_until": LONG_AGO}})
    return "ads.profiles", {"kept_until": LONG_AGO}


async def old_click(gateway: GatewayClient) -> Left:
    await place(gateway, ad())
    await set_creative(gateway)
    await follow(gateway, await click_url(gateway))
    await gateway.db["ads.clicks"].update_one({}, {"$set": {"at": LONG_AGO}})
    return "ads.clicks", {"at": LONG_AGO}


async def unused_image(gateway: GatewayClient) -> Left:
    await place(gateway, ad())
    await set_creative(gateway, image=banner())
    await set_creative(gateway, creative(image=None))
    await gateway.db["ads.images"].update_one({}, {"$set": {"used_at": LONG_AGO}})
    return "ads.images", {"used_at": LONG_AGO}
