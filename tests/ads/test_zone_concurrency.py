"""Placements and deactivations at the same time, in two gateways."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.ads.support.ads import ad, ads_in, deactivate, place, placement, zone_of
from tests.support.harness import GatewayClient
from tests.support.interruptions import database_of, delayed

pytestmark = pytest.mark.usefixtures("sound")
ZONES = [f"zone-{number}" for number in range(20)]


async def assert_gone(gateway: GatewayClient, campaign: str) -> None:
    for start in range(0, len(ZONES), 5):
        for ads in (await ads_in(gateway, ZONES[start : start + 5])).values():
            assert campaign not in {one["campaignId"] for one in ads}


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(4))
async def test_no_request_after_a_deactivation_gets_an_ad_that_is_placed_meanwhile(
    gateway: GatewayClient, other: GatewayClient, seed: int
) -> None:
    rng = random.Random(seed)
    for zone in ZONES[:5]:
        await place(gateway, ad(), zone=zone)
    one, two = delayed(gateway.db, rng, 0.02), delayed(other.db, rng, 0.02)
    with database_of(gateway, one), database_of(other, two):
        placing = [
            asyncio.create_task(
                rng.choice((gateway, other)).result("placeAd", placement(ad(unit=f"unit {turn}"), zone))
            )
            for turn in range(2)
            for zone in ZONES
        ]
        await asyncio.sleep(rng.uniform(0, 0.1))

        ended = await asyncio.gather(deactivate(gateway), deactivate(other))

        await assert_gone(other, "acme:spring")
        answers = [answer["__typename"] for answer in await asyncio.gather(*placing)]
    await assert_gone(gateway, "acme:spring")
    assert ended[0] == ended[1]
    # It was taken out of every zone where it was before, and maybe of some where it was placed meanwhile.
    assert 5 <= ended[0]["zones"] <= len(ZONES)
    assert set(answers) <= {"AdZonePayload", "InvalidInput"}
    await gateway.run_jobs("settle-ads", seconds=6)


async def test_concurrent_placements_in_one_zone_are_all_kept(gateway: GatewayClient) -> None:
    ads = [ad(f"acme:{number % 3}", f"unit {number}", number) for number in range(30)]

    results = await asyncio.gather(*(gateway.result("placeAd", placement(one)) for one in ads))

    assert {result["__typename"] for result in results} == {"AdZonePayload"}
    assert [one["ecpm"] for one in (await zone_of(gateway))["ads"]] == list(range(29, -1, -1))


async def test_concurrent_placements_of_one_ad_leave_one(gateway: GatewayClient) -> None:
    given = [placement(ad(ecpm=price)) for price in range(20)]

    results = await asyncio.gather(*(gateway.result("placeAd", one) for one in given))

    assert {result["__typename"] for result in results} == {"AdZonePayload"}
    (only,) = (await zone_of(gateway))["ads"]
    assert only["ecpm"] in range(20)
