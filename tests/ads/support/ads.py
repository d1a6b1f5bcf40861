"""Ads, zones and choices for tests, through the public schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from portico.gateway.domains.ads import DOMAIN
from portico.resolvers.problems import Problem
from tests.support.harness import GatewayClient, new_key

Given = dict[str, Any]
SITE, ZONE = "shop.example", "front"
_PRICE = "campaignId adUnitId ecpm"
_AD = "campaignId adUnitId ecpm keywords"
CHOOSE = f"""
query ($zone: String!, $user: String, $keywords: [String!]! = [], $limit: Int! = 1, $why: Boolean! = false) {{
  chooseAds(siteId: "{SITE}", zoneId: $zone, userId: $user, keywords: $keywords, limit: $limit) {{
    ads {{ {_AD} }} rejected @include(if: $why) {{ ad {{ {_AD} }} reason }}
  }}
}}
"""
ZONE_OF = f'query ($zone: String!) {{ adZone(siteId: "{SITE}", zoneId: $zone) {{ id siteId zoneId ads {{ {_AD} }} }} }}'


def ad(campaign: str = "acme:spring", unit: str = "banner", ecpm: int = 100, **fields: Any) -> Given:
    """An `AdInput`."""
    return {"campaignId": campaign, "adUnitId": unit, "ecpm": ecpm, **fields}


def placement(placed: Given, zone: str = ZONE, site: str = SITE, **fields: Any) -> Given:
    """A `PlaceAdInput`."""
    return {"siteId": site, "zoneId": zone, "ad": placed, **fields}


def keyed(**given: Any) -> Given:
    """The input with an idempotency key of its own."""
    return {**given, "idempotencyKey": new_key()}


async def place(gateway: GatewayClient, *ads: Given, zone: str = ZONE) -> Given:
    """Places ads in a zone. Returns the zone."""
    found: Given = {}
    for one in ads:
        found = (await gateway.payload("placeAd", placement(one, zone)))["zone"]
    return found


async def deactivate(gateway: GatewayClient, campaign: str = "acme:spring", **fields: Any) -> Given:
    result: Given = await gateway.result("deactivateCampaign", {"campaignId": campaign, **fields})
    return result


async def zone_of(gateway: GatewayClient, zone: str = ZONE) -> Any:
    return (await gateway.data(ZONE_OF, {"zone": zone}))["adZone"]


async def choose(gateway: GatewayClient, zone: str = ZONE, **given: Any) -> Any:
    """Asks for ads, and why the others were not chosen."""
    return (await gateway.data(CHOOSE, {"zone": zone, "why": True, **given}))["chooseAds"]


async def ads_in(gateway: GatewayClient, zones: Sequence[str]) -> dict[str, list[Given]]:
    """Returns the ads of each zone, dearest first, as choices show them. All zones are read by one request."""
    fields = "".join(
        f"""
        zone{number}: adZone(siteId: "{SITE}", zoneId: "{zone}") {{ ads {{ {_PRICE} }} }}
        choice{number}: chooseAds(siteId: "{SITE}", zoneId: "{zone}", limit: 100) {{ ads {{ {_PRICE} }} }}
        """
        for number, zone in enumerate(zones)
    )
    data = await gateway.data(f"{{ {fields} }}")
    found = {zone: (data[f"zone{number}"] or {"ads": []})["ads"] for number, zone in enumerate(zones)}
    for number, zone in enumerate(zones):
        chosen = data[f"choice{number}"]["ads"]
        # Ads with the same price are chosen in random order. The two reads are not one.
        assert sorted(map(str, chosen)) == sorted(map(str, found[zone]))
    return found


async def fill_zone(gateway: GatewayClient, copies: Iterable[Given]) -> list[Given]:
    """Replaces the first stored ad of the only zone by copies with these changes. Returns the copies."""
    zone = await gateway.stored("ads.zones")
    first, *others = zone["ads"]
    ads = [{**first, **changes} for changes in copies]
    # A zone with another nonce is read again.
    await gateway.db["ads.zones"].update_one({}, {"$set": {"ads": [*ads, *others], "nonce": -1.0}})
    return ads


async def problems_of(gateway: GatewayClient) -> list[Problem]:
    """Returns what `portico doctor` finds in the documents of ads."""
    return [found for invariant in DOMAIN.invariants async for found in invariant.problems(gateway.db)]


def units(ads: list[Given]) -> list[str]:
    return [one["adUnitId"] for one in ads]
