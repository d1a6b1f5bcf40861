"""Calls that crash or pause anywhere: every impression that was decided is counted once, and nothing else is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.ads.ads import ad_key
from portico.testing.repeated_writes import RepeatedWrites
from portico.testing.stages import Stage
from tests.ads.support.ads import Given, ad, choose, keyed, place
from tests.ads.support.serving import (
    RECORD,
    SERVE,
    counted,
    counts,
    pseudonym,
    record,
    seen,
    serve,
    settle_old_claims,
    settled,
    view,
)
from tests.support.harness import (
    Answer,
    GatewayClient,
    SettableClock,
    assert_invariants,
    running,
    some_of_part,
    some_stops,
    stops_of,
)
from tests.support.interruptions import crashing, database_of, interrupted, stopping

UNITS = ("banner", "poster")


class Scene(Stage):
    """A zone with two capped ads and a free one. Robin has a profile, Kim has none."""

    collections = ("ads.zones", "ads.campaigns", "ads.counters", "ads.profiles", "operations")

    async def build(self) -> None:
        capped = [ad(unit=unit, ecpm=price, totalCap=50, dailyCap=9) for unit, price in zip(UNITS, (9, 8), strict=True)]
        await place(self.gateway, *capped, ad(unit="free", ecpm=1, dailyCap=99), ad(unit="last", ecpm=0, totalCap=1))
        await place(self.gateway, ad(unit="open", dailyCap=9), zone="side")
        await record(self.gateway, seen("CLICK"))

    async def set(self, name: str, *, is_keyed: bool = True) -> Given:
        await self.restore()
        return keyed(**CASES[name]) if is_keyed else CASES[name]

    async def send(self, given: Given) -> Answer:
        answer: Answer = await self.gateway.ask(RECORD if "kind" in given else SERVE, {"input": given}, token=None)
        return answer

    async def crash_call(self, given: Given, stop: int) -> Answer | None:
        """Crashes the call, or what it does after its answer. Returns the answer; None if the call was not stopped."""
        with crashing(self.gateway, stop) as faulty:
            answer = await self.send(given)
            await settled(self.gateway)
        return answer if faulty.has_crashed else None

    async def settle(self) -> None:
        await settle_old_claims(self.gateway, self.clock)

    async def assert_counted(self, given: Given, times: Iterable[int]) -> None:
        """Assert how often the call happened, with all of its impressions, and that nothing is in flight."""
        shown = ("open",) if given["zoneId"] == "side" else UNITS[: given.get("limit", 1)]
        wanted = shown if given.get("kind") != "CLICK" else ()
        total = [await counted(self.gateway, unit=unit) for unit in wanted]
        assert len(set(total)) <= 1, total
        user = given["userId"]
        if user is not None:
            found = await counts(self.gateway, user)
            assert [found.get(ad_key("acme:spring", unit), 0) for unit in wanted] == total
            events = await self.events(user, given.get("kind", "IMPRESSION"))
            assert len(events) in {max(len(wanted), 1) * number for number in times}
        assert set(total) <= set(times)
        await assert_invariants(self.gateway)

    async def events(self, user: str, kind: str) -> list[Any]:
        found = await self.gateway.db["ads.profiles"].find_one({"_id": pseudonym(self.gateway, user)})
        # A click was there before.
        own = [] if found is None else [one for one in found["events"] if one["kind"] == kind]
        return own[1:] if kind == "CLICK" else own


CASES = {
    "an ad for a known user": view(),
    "two ads for a new user": view("kim", limit=2),
    "an ad without a user": view(None),
    "an ad without a cap": view(zone="side"),
    "an ad without a cap or a user": view(None, "side"),
    "an impression elsewhere": seen(),
    "a click": seen("CLICK"),
}


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Scene:
    return Scene(gateway, clock)


@pytest.mark.sample(3)
@pytest.mark.parametrize("jobs_first", [True, False], ids=["after the jobs", "before the jobs"])
@pytest.mark.parametrize("name", CASES)
async def test_a_call_that_crashes_anywhere_and_is_repeated_with_its_key_counts_once(
    scene: Scene, name: str, *, jobs_first: bool
) -> None:
    for stop in stops_of(jobs_first=jobs_first):
        given = await scene.set(name)
        first = await scene.crash_call(given, stop)
        if first is None:
            break
        if jobs_first:
            await scene.settle()
            await scene.assert_counted(given, (0, 1))
        # The crashed call holds the key for 30 seconds.
        scene.clock.advance(seconds=31)

        answers = [(await scene.send(given)).data for _ in range(2)]

        assert answers[0] == answers[1], stop
        if "errors" not in first.body:
            assert answers[0] == first.data, stop
        await scene.settle()
        await scene.assert_counted(given, (1,))
    assert stop > 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [name for name in CASES if "without a cap" not in name])
async def test_a_call_without_a_key_that_crashes_anywhere_counts_all_or_nothing(scene: Scene, name: str) -> None:
    for stop in some_stops(2):
        given = await scene.set(name, is_keyed=False)
        first = await scene.crash_call(given, stop)
        if first is None:
            break
        await scene.settle()
        await scene.assert_counted(given, (1,) if "errors" not in first.body else (0, 1))
    assert stop > 0


@pytest.mark.parametrize("user", ["robin", "kim", None])
async def test_an_uncapped_ad_that_a_page_shows_is_counted_once_whatever_crashes(
    scene: Scene, user: str | None
) -> None:
    for stop in some_stops(2):
        await scene.restore()
        first = await scene.crash_call(view(user, "side"), stop)
        if first is None:
            break
        # If the call crashes between its two writes, one of them stays, and no page has shown the ad.
        was_shown = "errors" not in first.body
        assert await counted(scene.gateway, unit="open") in ({1} if was_shown else {0, 1})
        if user is not None:
            found = (await counts(scene.gateway, user)).get(ad_key("acme:spring", "open"), 0)
            assert found in ({1} if was_shown else {0, 1})
        await scene.settle()
        await assert_invariants(scene.gateway)
    assert stop > 0


async def test_jobs_that_crash_anywhere_finish_in_their_next_run(scene: Scene) -> None:
    pairs = list(itertools.product(range(1, 6), range(8)))
    for number in itertools.takewhile(lambda number: number < len(pairs), some_stops(3)):
        stop, job_stop = pairs[number]
        given = await scene.set("two ads for a new user")
        await scene.crash_call(given, stop)
        with crashing(scene.gateway, job_stop), stopping():
            await scene.settle()
        await scene.settle()
        await scene.assert_counted(given, (0, 1))


MEANWHILE = ("the jobs run", "the call is repeated", "both")


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("meanwhile", MEANWHILE)
async def test_a_process_that_is_suspended_anywhere_and_resumes_after_the_jobs_counts_once(
    scene: Scene, settings: Settings, clock: SettableClock, name: str, meanwhile: str
) -> None:
    async with running(settings, clock=clock) as other:
        for stop in some_of_part(MEANWHILE.index(meanwhile), of=len(MEANWHILE)):
            given = await scene.set(name)
            overtaken: list[Any] = []

            async def overtake(given: Given = given, overtaken: list[Any] = overtaken) -> None:
                clock.advance(seconds=31)
                if meanwhile != "the call is repeated":
                    await settle_old_claims(other, clock, seconds=0)
                overtaken.append(None)
                if meanwhile != "the jobs run":
                    text = RECORD if "kind" in given else SERVE
                    overtaken[0] = await other.data(text, {"input": given}, token=None)
                    await settled(other)

            with database_of(scene.gateway, interrupted(scene.gateway.db, None, None, overtake, skip=stop)):
                answer = await scene.send(given)
                await settled(scene.gateway)
            if not overtaken:
                break
            if overtaken[0] is not None:
                assert answer.data == overtaken[0], stop
            await scene.settle()
            await scene.assert_counted(given, (1,))
    assert stop > 3


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
async def test_a_call_without_a_key_that_resumes_after_the_jobs_counts_once(scene: Scene, name: str) -> None:
    for stop in some_stops(2):
        given = await scene.set(name, is_keyed=False)
        is_late = False

        async def overtake() -> None:
            nonlocal is_late
            is_late = True
            await settle_old_claims(scene.gateway, scene.clock)

        database = scene.gateway.db
        with database_of(scene.gateway, interrupted(database, None, None, overtake, skip=stop)):
            answer = await scene.send(given)
            await settled(scene.gateway)
        if not is_late:
            break
        assert "errors" not in answer.body
        await scene.settle()
        await scene.assert_counted(given, (1,))
    assert stop > 1


@pytest.mark.parametrize("name", CASES)
async def test_a_call_whose_writes_are_sent_twice_counts_once(scene: Scene, name: str) -> None:
    given = await scene.set(name)

    with database_of(scene.gateway, RepeatedWrites.of(scene.gateway.db)):
        answer = await scene.send(given)
        await settled(scene.gateway)

    assert "errors" not in answer.body
    await scene.assert_counted(given, (1,))


async def test_the_last_impression_of_a_crashed_call_is_given_to_another_after_the_jobs(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    await place(gateway, ad(totalCap=1), ad(unit="next", ecpm=1, dailyCap=9))
    # The call creates the profile, claims, and crashes before it decides.
    with crashing(gateway, 2):
        await gateway.ask(SERVE, {"input": view()}, token=None)

    clock.advance(seconds=2)
    assert [one["adUnitId"] for one in (await serve(gateway, view("sam")))["ads"]] == ["next"]
    await settle_old_claims(gateway, clock)
    assert [one["adUnitId"] for one in (await serve(gateway, view("sam")))["ads"]] == ["banner"]
    assert await counted(gateway) == 1


async def test_a_zone_that_was_not_told_of_an_exhausted_ad_learns_it_from_the_next_call(
    gateway: GatewayClient,
) -> None:
    await place(gateway, ad(totalCap=1), ad(unit="next", ecpm=1, dailyCap=9))
    await serve(gateway)
    await gateway.db["ads.zones"].update_one({}, {"$set": {"ads.0.shown": 0, "nonce": -1.0}})

    assert [one["adUnitId"] for one in (await choose(gateway))["ads"]] == ["banner"]
    assert [one["adUnitId"] for one in (await serve(gateway, view("sam")))["ads"]] == ["next"]
    assert [one["adUnitId"] for one in (await choose(gateway))["ads"]] == ["next"]
