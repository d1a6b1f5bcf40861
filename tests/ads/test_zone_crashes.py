"""Placements and deactivations that overtake each other. The kit has the crashes and pauses of each call."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import pytest

from tests.ads.support.ads import ad, ads_in, deactivate, place, placement
from tests.ads.support.stages import BEFORE, ELSE, ZONES, Zones
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, some_stops
from tests.support.overtaking import PausedCall, paused_calls


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Zones:
    return Zones(gateway, clock)


async def _jobs(call: PausedCall) -> None:
    """Run the jobs, which find what the paused call has left."""
    await call.stage.run_jobs()
    await assert_invariants(call.stage.gateway)


async def _crashed_retry(call: PausedCall) -> None:
    """Run the jobs, and retry the call with its key. The retry crashes after its first changes."""
    await call.stage.run_jobs()
    call.stage.clock.advance(seconds=31)
    await call.stage.crash(call.mutation, call.given, 2)


Meanwhile = Callable[[PausedCall], Awaitable[None]]
# The commands before these claim the key. A call that pauses there would wait until a crashed retry loses its lease.
CLAIMED = 2


async def test_a_placement_that_pauses_does_not_undo_a_later_one(scene: Zones) -> None:
    async for call in paused_calls(scene, "a new ad", some_stops(2), least=5):
        await call.retry()
        await place(scene.gateway, ad(unit="second", ecpm=77))

        assert (await call.resume()).data["placeAd"]["__typename"] == "AdZonePayload"
        await scene.run_jobs()
        await scene.assert_is({**BEFORE, "front": [("acme:spring second", 77), *BEFORE["front"]]})


async def assert_gone(gateway: GatewayClient) -> None:
    """Assert that no request that begins now gets an ad of Acme's campaign."""
    for ads in (await ads_in(gateway, ZONES)).values():
        assert "acme:spring" not in {one["campaignId"] for one in ads}


async def _nothing(_call: PausedCall) -> None:
    """Nobody retries the call."""


# What happens to the call before and after the deactivation.
AROUND: dict[str, tuple[Meanwhile, Meanwhile]] = {
    "nothing else": (_nothing, _nothing),
    "a retry before": (PausedCall.retry, _nothing),
    "a crashed retry before": (_crashed_retry, _jobs),
    "a crashed retry after": (_nothing, _crashed_retry),
    "the jobs before and a crashed retry after": (_jobs, _crashed_retry),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", ["a new ad", "a changed ad"])
async def test_no_placement_that_pauses_survives_an_acknowledged_deactivation(
    scene: Zones, name: str, around: str
) -> None:
    before, after = AROUND[around]
    async for call in paused_calls(scene, name, itertools.count(CLAIMED), least=2):
        await before(call)

        assert (await deactivate(scene.gateway))["zones"] == 3
        await assert_gone(scene.gateway)
        await after(call)
        await assert_gone(scene.gateway)
        # A crashed retry still holds the key, so the call may only be told that.
        await call.resume()

        await assert_gone(scene.gateway)
        await scene.run_jobs()
        await scene.assert_is({"front": [ELSE]})


@pytest.mark.parametrize("meanwhile", ["a placement", "a deactivation"])
async def test_a_deactivation_that_pauses_anywhere_leaves_no_ad(scene: Zones, meanwhile: str) -> None:
    async for call in paused_calls(scene, "a deactivation", some_stops(2), least=5):
        if meanwhile == "a placement":
            await scene.result("placeAd", placement(ad(unit="third"), "new"))
        else:
            assert (await deactivate(scene.gateway))["zones"] == 3
            await assert_gone(scene.gateway)

        # It counts the zone of a placement that was acknowledged before.
        assert (await call.resume()).data["deactivateCampaign"]["zones"] in {3, 4}
        await assert_gone(scene.gateway)
        await scene.run_jobs()
        await scene.assert_is({"front": [ELSE]})


async def test_the_cap_of_a_placement_that_pauses_holds_in_all_zones_whatever_other_placements_settle(
    scene: Zones,
) -> None:
    async for call in paused_calls(scene, "a new ad with a cap", some_stops(2), least=5):
        await place(scene.gateway, ad(ecpm=20, totalCap=9), zone="side")

        assert (await call.resume()).data["placeAd"]["__typename"] == "AdZonePayload"
        await assert_invariants(scene.gateway)
        zones = await scene.gateway.db["ads.zones"].find({"zone_id": {"$in": ["front", "new"]}}).to_list()
        caps = [one["cap"] for zone in zones for one in zone["ads"] if one["ad_unit_id"] == "banner"]
        assert caps == [7, 7], call.command
