"""Calls without a key that crash or pause anywhere: every impression that was decided is counted once, nothing else is.

The kit has the crashes and pauses of calls with a key.
"""

from __future__ import annotations

import pytest

from tests.ads.support.ads import ad, choose, place
from tests.ads.support.serving import SERVE, counted, serve, settle_old_claims, view
from tests.ads.support.serving_stages import BEFORE, CASES, Serving
from tests.support.harness import GatewayClient, SettableClock, some_stops
from tests.support.interruptions import crashing
from tests.support.overtaking import paused_calls


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Serving:
    return Serving(gateway, clock)


def was_told(scene: Serving) -> bool:
    return scene.answer is not None and not scene.answer.codes


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [name for name in CASES if "without a cap" not in name])
async def test_a_call_without_a_key_that_crashes_anywhere_counts_all_or_nothing(scene: Serving, name: str) -> None:
    for stop in some_stops(2):
        if not await scene.crash(CASES[name].mutation, {**await scene.set(name), "idempotencyKey": None}, stop):
            break
        await scene.run_jobs()
        await scene.assert_is(CASES[name].after, *([] if was_told(scene) else [BEFORE]), place=stop)
    assert stop > 0


@pytest.mark.parametrize("user", ["robin", "kim", None])
async def test_an_uncapped_ad_that_a_page_shows_is_counted_once_whatever_crashes(
    scene: Serving, user: str | None
) -> None:
    for stop in some_stops(2):
        await scene.restore()
        if not await scene.crash("serveAds", view(user, "side"), stop):
            break
        # If the call crashes between its two writes, one of them stays, and no page has shown the ad.
        allowed = {1} if was_told(scene) else {0, 1}
        total, daily, _ = await scene.state()
        assert total.get("open", 0) in allowed
        assert user is None or daily.get(f"{user} open", 0) in allowed
        await scene.run_jobs()
        await scene.assert_settled()
    assert stop > 0


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
async def test_a_call_without_a_key_that_resumes_after_the_jobs_counts_once(scene: Serving, name: str) -> None:
    async for call in paused_calls(scene, name, some_stops(2), least=1, idempotencyKey=None):
        await scene.run_jobs()

        assert (await call.resume()).codes == []
        await scene.run_jobs()
        await scene.assert_is(CASES[name].after, place=call.command)


async def test_the_last_impression_of_a_crashed_call_is_given_to_another_after_the_jobs(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=1), ad(unit="next", ecpm=1, dailyCap=9))
    # The call creates the profile, claims, and crashes before it decides.
    with crashing(gateway, 2):
        await gateway.ask(SERVE, {"input": view()}, token=None)

    gateway.clock.advance(seconds=2)
    assert [one["adUnitId"] for one in (await serve(gateway, view("sam")))["ads"]] == ["next"]
    await settle_old_claims(gateway)
    assert [one["adUnitId"] for one in (await serve(gateway, view("sam")))["ads"]] == ["banner"]
    assert await counted(gateway) == 1


async def test_a_zone_that_was_not_told_of_an_exhausted_ad_learns_it_from_the_next_call(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=1), ad(unit="next", ecpm=1, dailyCap=9))
    await serve(gateway)
    await gateway.db["ads.zones"].update_one({}, {"$set": {"ads.0.shown": 0, "nonce": -1.0}})

    assert [one["adUnitId"] for one in (await choose(gateway))["ads"]] == ["banner"]
    assert [one["adUnitId"] for one in (await serve(gateway, view("sam")))["ads"]] == ["next"]
    assert [one["adUnitId"] for one in (await choose(gateway))["ads"]] == ["next"]
