"""Placements and deactivations that overtake each other. The kit has the crashes and pauses of each call."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import pytest

from portico.testing.kits import Given
from tests.ads.support.ads import ad, ads_in, deactivate, place, placement
from tests.ads.support.stages import BEFORE, CASES, ELSE, ZONES, Zones
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, some_stops


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Zones:
    return Zones(gateway, clock)


async def case_of(scene: Zones, name: str) -> tuple[str, Given]:
    """Restore the zones, and return the mutation and its input."""
    return CASES[name].mutation, await scene.set(name)


async def _jobs(scene: Zones, _mutation: str, _given: Given) -> None:
    """Run the jobs, which find what the paused call has left."""
    await scene.run_jobs()
    await assert_invariants(scene.gateway)


async def _retry(scene: Zones, mutation: str, given: Given) -> None:
    """Retry the call with its key, and carry it out."""
    scene.clock.advance(seconds=31)
    await scene.result(mutation, given)


async def _crashed_retry(scene: Zones, mutation: str, given: Given) -> None:
    """Run the jobs, and retry the call with its key. The retry crashes after its first changes."""
    await scene.run_jobs()
    scene.clock.advance(seconds=31)
    await scene.crash(mutation, given, 2)


Meanwhile = Callable[[Zones, str, Given], Awaitable[None]]
# The commands before these claim the key. A call that pauses there would wait until a crashed retry loses its lease.
CLAIMED = 2


async def test_a_placement_that_pauses_does_not_undo_a_later_one(scene: Zones) -> None:
    for command in some_stops(2):
        mutation, given = await case_of(scene, "a new ad")
        call, wake = await scene.asleep(mutation, given, command)
        if call.done():
            break
        scene.clock.advance(seconds=31)
        await scene.result(mutation, given)
        await place(scene.gateway, ad(unit="second", ecpm=77))

        wake()

        assert (await call).data[mutation]["__typename"] == "AdZonePayload"
        await scene.run_jobs()
        await scene.assert_is({**BEFORE, "front": [("acme:spring second", 77), *BEFORE["front"]]})
    assert command > 5


async def assert_gone(gateway: GatewayClient) -> None:
    """Assert that no request that begins now gets an ad of Acme's campaign."""
    for ads in (await ads_in(gateway, ZONES)).values():
        assert "acme:spring" not in {one["campaignId"] for one in ads}


async def _no_retry(_scene: Zones, _mutation: str, _given: Given) -> None:
    """Nobody retries the call."""


# What happens to the call before and after the deactivation.
AROUND: dict[str, tuple[Meanwhile, Meanwhile]] = {
    "nothing else": (_no_retry, _no_retry),
    "a retry before": (_retry, _no_retry),
    "a crashed retry before": (_crashed_retry, _jobs),
    "a crashed retry after": (_no_retry, _crashed_retry),
    "the jobs before and a crashed retry after": (_jobs, _crashed_retry),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", ["a new ad", "a changed ad"])
async def test_no_placement_that_pauses_survives_an_acknowledged_deactivation(
    scene: Zones, name: str, around: str
) -> None:
    before, after = AROUND[around]
    for command in itertools.count(CLAIMED):
        mutation, given = await case_of(scene, name)
        call, wake = await scene.asleep(mutation, given, command)
        if call.done():
            break
        await before(scene, mutation, given)

        assert (await deactivate(scene.gateway))["zones"] == 3
        await assert_gone(scene.gateway)
        await after(scene, mutation, given)
        await assert_gone(scene.gateway)
        wake()
        # A crashed retry still holds the key, so the call may only be told that.
        await call

        await assert_gone(scene.gateway)
        await scene.run_jobs()
        await scene.assert_is({"front": [ELSE]})
    assert command > 2


@pytest.mark.parametrize("meanwhile", ["a placement", "a deactivation"])
async def test_a_deactivation_that_pauses_anywhere_leaves_no_ad(scene: Zones, meanwhile: str) -> None:
    for command in some_stops(2):
        mutation, given = await case_of(scene, "a deactivation")
        call, wake = await scene.asleep(mutation, given, command)
        if call.done():
            break
        if meanwhile == "a placement":
            await scene.result("placeAd", placement(ad(unit="third"), "new"))
        else:
            assert (await deactivate(scene.gateway))["zones"] == 3
            await assert_gone(scene.gateway)

        wake()

        # It counts the zone of a placement that was acknowledged before.
        assert (await call).data[mutation]["zones"] in {3, 4}
        await assert_gone(scene.gateway)
        await scene.run_jobs()
        await scene.assert_is({"front": [ELSE]})
    assert command > 5


async def test_the_cap_of_a_placement_that_pauses_holds_in_all_zones_whatever_other_placements_settle(
    scene: Zones,
) -> None:
    for command in some_stops(2):
        mutation, given = await case_of(scene, "a new ad with a cap")
        call, wake = await scene.asleep(mutation, given, command)
        if call.done():
            break
        await place(scene.gateway, ad(ecpm=20, totalCap=9), zone="side")

        wake()

        assert (await call).data[mutation]["__typename"] == "AdZonePayload"
        await assert_invariants(scene.gateway)
        zones = await scene.gateway.db["ads.zones"].find({"zone_id": {"$in": ["front", "new"]}}).to_list()
        caps = [one["cap"] for zone in zones for one in zone["ads"] if one["ad_unit_id"] == "banner"]
        assert caps == [7, 7], command
    assert command > 5
