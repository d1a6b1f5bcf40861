"""Creates a zone with ads."""

from __future__ import annotations

from portico.testing.kits import Known
from tests.ads.support.ads import ad, place
from tests.support.harness import GatewayClient


async def seed(gateway: GatewayClient, _known: Known) -> Known:
    """Creates a zone whose ads have different prices, so that no choice is random."""
    names = ("banner", "video", "text")
    prices = {name: 3 * 7**number for number, name in enumerate(names)}
    zone = await place(gateway, *(ad(unit=name, ecpm=price, keywords=[name]) for name, price in prices.items()))
    return {"id": [zone["id"]], "siteId": [zone["siteId"]], "zoneId": [zone["zoneId"]]}
