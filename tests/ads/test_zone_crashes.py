"""Placements and deactivations that crash or pause anywhere."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from portico.gateway.mongo.faults import Crash
from tests.ads.support.ads import ad, ads_in, deactivate, keyed, place, placement
from tests.support.harness import (
    MUTATIONS,
    Answer,
    GatewayClient,
    SettableClock,
    assert_invariants,
    half_of_stops,
    run_jobs,
    stops,
    stops_of,
)
from tests.support.interruptions import crashing, database_of, interrupted
from tests.support.scenes import Given, Stage

ZONES = ("front", "side", "blog", "new")
# For each zone, its ads with their prices, dearest first.
Shown = dict[str, list[tuple[str, int]]]


class Scene(Stage):
    """Acme's campaign has ads in three zones, and another campaign has one. A third campaign is deactivated."""

    collections = ("ads.zones", "ads.campaigns", "ads.counters", "operations")

    async def build(self) -> None:
        await place(self.gateway, ad(ecpm=10), ad("other:one", "else", 5))
        await place(self.gateway, ad(ecpm=20), zone="side")
        await place(self.gateway, ad(ecpm=30), ad(unit="second", ecpm=31), zone="blog")
        await place(self.gateway, ad("gone:one"))
        await deactivate(self.gateway, "gone:one")

    async def set(self, name: str) -> tuple[str, Given]:
        await self.restore()
        mutation, given = {
            "a new ad": ("placeAd", placement(ad(unit="second", ecpm=40))),
            "the first ad": ("placeAd", placement(ad("fresh:one", ecpm=7), "new")),
            "a changed ad": ("placeAd", placement(ad(ecpm=3))),
            "a new ad with a cap": ("placeAd", placement(ad(ecpm=40, totalCap=7), "new")),
            "a changed cap": ("placeAd", placement(ad(ecpm=10, totalCap=9))),
            "a refused ad": ("placeAd", placement(ad("gone:one"))),
            "a deactivation": ("deactivateCampaign", {"campaignId": "acme:spring"}),
        }[name]
        return mutation, keyed(**given)

    async def ask(self, mutation: str, given: Given) -> Answer:
        return await self.gateway.ask(MUTATIONS[mutation], {"input": given})

    async def result(self, mutation: str, given: Given) -> Any:
        return (await self.ask(mutation, given)).data[mutation]

    async def run_jobs(self, *, seconds: int = 6) -> None:
        self.clock.advance(seconds=seconds)
        await run_jobs(self.gateway, self.clock, "settle-ads")

    async def shown(self) -> Shown:
        zones = await ads_in(self.gateway, ZONES)
        return {
            zone: [(f"{one['campaignId']} {one['adUnitId']}", one["ecpm"]) for one in ads]
            for zone, ads in zones.items()
            if ads
        }

    async def assert_settled(self, *expected: Shown) -> None:
        """Assert that the zones are as after one of the outcomes, and that nothing is in flight."""
        assert await self.shown() in expected
        for mark in ("ads.pending", "ads.ended", "ads.capping"):
            assert await self.gateway.db["ads.zones"].find_one({mark: {"$exists": True}}) is None
        assert await self.gateway.db["ads.campaigns"].find_one({"state": "ENDING"}) is None
        await assert_invariants(self.gateway)


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Scene:
    return Scene(gateway, clock)


ELSE = ("other:one else", 5)
BEFORE: Shown = {
    "front": [("acme:spring banner", 10), ELSE],
    "side": [("acme:spring banner", 20)],
    "blog": [("acme:spring second", 31), ("acme:spring banner", 30)],
}
# The type of the answer, and what the zones show then.
CASES: dict[str, tuple[str, Shown]] = {
    "a new ad": ("AdZonePayload", {**BEFORE, "front": [("acme:spring second", 40), *BEFORE["front"]]}),
    "the first ad": ("AdZonePayload", {**BEFORE, "new": [("fresh:one banner", 7)]}),
    "a changed ad": ("AdZonePayload", {**BEFORE, "front": [ELSE, ("acme:spring banner", 3)]}),
    "a new ad with a cap": ("AdZonePayload", {**BEFORE, "new": [("acme:spring banner", 40)]}),
    "a changed cap": ("AdZonePayload", BEFORE),
    "a refused ad": ("InvalidInput", BEFORE),
    "a deactivation": ("CampaignPayload", {"front": [ELSE]}),
}


@pytest.mark.parametrize("jobs_first", [True, False], ids=["after the jobs", "before the jobs"])
@pytest.mark.parametrize("name", CASES)
async def test_a_call_that_crashes_anywhere_and_is_retried_with_its_key_happens_once(
    scene: Scene, name: str, *, jobs_first: bool
) -> None:
    answer, after = CASES[name]
    for stop in stops_of(jobs_first=jobs_first):
        mutation, given = await scene.set(name)
        if not await scene.crash(mutation, given, stop):
            break
        await assert_invariants(scene.gateway)
        if jobs_first:
            await scene.run_jobs()
            await scene.assert_settled(BEFORE, after)
        # The crashed call holds the key for 30 seconds.
        scene.clock.advance(seconds=31)

        outcome = [await scene.result(mutation, given) for _ in range(2)]

        assert outcome[0] == outcome[1]
        assert outcome[0]["__typename"] == answer, stop
        assert outcome[0].get("zones", 3) == 3
        await scene.run_jobs()
        await scene.assert_settled(after)
    assert stop > 2


@pytest.mark.parametrize("name", CASES)
async def test_jobs_that_crash_anywhere_finish_in_their_next_run(scene: Scene, name: str) -> None:
    _, after = CASES[name]
    for call in stops():
        if not await scene.crash(*await scene.set(name), call):
            break
        for stop in half_of_stops(odd=call % 2 == 1):
            assert await scene.crash(*await scene.set(name), call)
            scene.clock.advance(seconds=6)

            with crashing(scene.gateway, stop) as faulty:
                try:
                    await run_jobs(scene.gateway, scene.clock, "settle-ads")
                except Crash:
                    assert faulty.has_crashed
            await assert_invariants(scene.gateway)
            await scene.run_jobs(seconds=0)

            await scene.assert_settled(BEFORE, after)
            if not faulty.has_crashed:
                break
    assert call > 2


# ------------------------------------------------------------ paused processes


async def asleep(
    scene: Scene, mutation: str, given: Given, command: int
) -> tuple[asyncio.Task[Answer], Callable[[], None]]:
    """Start a call that pauses before this command. Return the call and the function that resumes it. The call may end
    without a pause.
    """
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def sleep() -> None:
        reached.set()
        await asyncio.wait_for(go_on.wait(), 60)

    with database_of(scene.gateway, interrupted(scene.gateway.db, None, None, sleep, skip=command)):
        call = asyncio.create_task(scene.ask(mutation, given))
        fallen = asyncio.create_task(reached.wait())
        await asyncio.wait({call, fallen}, return_when=asyncio.FIRST_COMPLETED)
        fallen.cancel()
    return call, go_on.set


async def _jobs(scene: Scene, _mutation: str, _given: Given) -> None:
    """Run the jobs, which find what the paused call has left."""
    await scene.run_jobs()
    await assert_invariants(scene.gateway)


async def _retry(scene: Scene, mutation: str, given: Given) -> None:
    """Retry the call with its key, and carry it out."""
    scene.clock.advance(seconds=31)
    await scene.result(mutation, given)


async def _crashed_retry(scene: Scene, mutation: str, given: Given) -> None:
    """Run the jobs, and retry the call with its key. The retry crashes after its first changes."""
    await scene.run_jobs()
    scene.clock.advance(seconds=31)
    await scene.crash(mutation, given, 2)


Meanwhile = Callable[[Scene, str, Given], Awaitable[None]]
MEANWHILE: dict[str, Meanwhile] = {"the jobs": _jobs, "a retry": _retry}
# The commands before these claim the key. A call that pauses there would wait until a crashed retry loses its lease.
CLAIMED = 2


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("name", CASES)
async def test_a_process_that_pauses_before_any_command_has_one_effect(scene: Scene, name: str, meanwhile: str) -> None:
    answer, after = CASES[name]
    for command in half_of_stops(odd=meanwhile == "the jobs"):
        mutation, given = await scene.set(name)
        call, wake = await asleep(scene, mutation, given, command)
        if call.done():
            break

        await MEANWHILE[meanwhile](scene, mutation, given)
        wake()

        assert (await call).data[mutation]["__typename"] == answer, command
        scene.clock.advance(seconds=31)
        assert (await scene.result(mutation, given))["__typename"] == answer
        await scene.run_jobs()
        await scene.assert_settled(after)
    assert command > 3


async def test_a_placement_that_pauses_does_not_undo_a_later_one(scene: Scene) -> None:
    for command in stops():
        mutation, given = await scene.set("a new ad")
        call, wake = await asleep(scene, mutation, given, command)
        if call.done():
            break
        scene.clock.advance(seconds=31)
        await scene.result(mutation, given)
        await place(scene.gateway, ad(unit="second", ecpm=77))

        wake()

        assert (await call).data[mutation]["__typename"] == "AdZonePayload"
        await scene.run_jobs()
        await scene.assert_settled({**BEFORE, "front": [("acme:spring second", 77), *BEFORE["front"]]})
    assert command > 5


async def assert_gone(gateway: GatewayClient) -> None:
    """Assert that no request that begins now gets an ad of Acme's campaign."""
    for ads in (await ads_in(gateway, ZONES)).values():
        assert "acme:spring" not in {one["campaignId"] for one in ads}


async def _no_retry(_scene: Scene, _mutation: str, _given: Given) -> None:
    """Nobody retries the call."""


# What happens to the call before and after the deactivation.
AROUND: dict[str, tuple[Meanwhile, Meanwhile]] = {
    "nothing else": (_no_retry, _no_retry),
    "a retry before": (_retry, _no_retry),
    "a crashed retry before": (_crashed_retry, _jobs),
    "a crashed retry after": (_no_retry, _crashed_retry),
    "the jobs before and a crashed retry after": (_jobs, _crashed_retry),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", ["a new ad", "a changed ad"])
async def test_no_placement_that_pauses_survives_an_acknowledged_deactivation(
    scene: Scene, name: str, around: str
) -> None:
    before, after = AROUND[around]
    for command in itertools.count(CLAIMED):
        mutation, given = await scene.set(name)
        call, wake = await asleep(scene, mutation, given, command)
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
        await scene.assert_settled({"front": [ELSE]})
    assert command > 2


@pytest.mark.parametrize("meanwhile", ["a placement", "a deactivation"])
async def test_a_deactivation_that_pauses_anywhere_leaves_no_ad(scene: Scene, meanwhile: str) -> None:
    for command in stops():
        mutation, given = await scene.set("a deactivation")
        call, wake = await asleep(scene, mutation, given, command)
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
        await scene.assert_settled({"front": [ELSE]})
    assert command > 5


async def test_the_cap_of_a_placement_that_pauses_holds_in_all_zones_whatever_other_placements_settle(
    scene: Scene,
) -> None:
    for command in stops():
        mutation, given = await scene.set("a new ad with a cap")
        call, wake = await asleep(scene, mutation, given, command)
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
