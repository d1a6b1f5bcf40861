"""Profiles of browsers: what they keep, what they never keep, and when they are forgotten."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import bson
import orjson
import pytest
from bson import json_util

from portico.gateway.settings import Settings
from portico.resolvers.ads import profiles
from portico.resolvers.ads.ads import ad_key
from portico.schema.ads.advertisers import ADVERTISER
from portico.schema.analytics.analysts import ANALYST
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.roles import Role
from tests.ads.support.ads import ad, choose, fill_zone, keyed, place
from tests.ads.support.serving import (
    PROFILE,
    RECORD,
    SERVE,
    counted,
    counts,
    profile,
    pseudonym,
    record,
    seen,
    serve,
    settle_old_claims,
    settled,
    shown,
    stored_profile,
    view,
)
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, assert_invariants, running

BANNER = ad_key("acme:spring", "banner")
# So many calls with the largest ads. Unbounded, half a megabyte of each would be in the profile.
CALLS = 40 if IS_SOAK else 16


def set_time(clock: SettableClock, hour: int, minute: int = 0, second: int = 0) -> datetime:
    """Sets the clock forward to the next day at this time. Returns it."""
    now = clock.now()
    wanted = profiles.day_of(now) + timedelta(days=1, hours=hour, minutes=minute, seconds=second)
    clock.advance(seconds=(wanted - now).total_seconds())
    return wanted


async def test_a_new_day_begins_with_new_daily_caps(gateway: GatewayClient, clock: SettableClock) -> None:
    await place(gateway, ad(dailyCap=2))
    set_time(clock, 23, 50)
    assert [await shown(gateway) for _ in range(3)] == [["banner"], ["banner"], []]

    clock.advance(minutes=11)

    assert (await choose(gateway, user="robin"))["ads"] != []
    assert [await shown(gateway) for _ in range(3)] == [["banner"], ["banner"], []]
    assert await counts(gateway) == {BANNER: 2}
    await assert_invariants(gateway)


async def test_parallel_calls_at_midnight_each_count_on_exactly_one_day(
    gateway: GatewayClient, settings: Settings, clock: SettableClock
) -> None:
    await place(gateway, ad(dailyCap=10))
    late = SettableClock()
    async with running(settings, clock=late) as other:
        set_time(late, 23, 59)
        set_time(clock, 24, 1)

        served = await asyncio.gather(*(shown(one) for _ in range(20) for one in (gateway, other)))

        # The gateway whose clock is behind may have counted on the old day, before the other one began the new day.
        assert 10 <= served.count(["banner"]) <= 20
        assert await counts(gateway) == {BANNER: 10}
        assert await shown(other) == []
        assert (await stored_profile(gateway))["day"] == profiles.day_of(clock.now())
    await assert_invariants(gateway)


async def test_a_day_that_is_over_is_not_counted_again(gateway: GatewayClient, settings: Settings) -> None:
    await place(gateway, ad(dailyCap=2))
    behind = SettableClock()
    set_time(gateway.clock, 0, 5)
    async with running(settings, clock=behind) as other:
        assert await shown(gateway) == ["banner"]

        assert await shown(other) == ["banner"]
        assert await shown(other) == []
        assert (await choose(other, user="robin"))["rejected"][0]["reason"] == "FREQUENCY_CAP"

    assert (await stored_profile(gateway))["day"] == profiles.day_of(gateway.clock.now())
    assert await counts(gateway) == {BANNER: 2}


async def test_a_profile_keeps_the_latest_200_events_and_a_few_more(gateway: GatewayClient) -> None:
    await place(gateway, ad(dailyCap=1_000))
    stored = []
    for _ in range(6):
        await asyncio.gather(*(serve(gateway) for _ in range(47)))
        stored.append(len((await stored_profile(gateway))["events"]))
    await record(gateway, seen("CLICK"))

    assert stored[:5] == [47, 94, 141, 188, 235]
    assert 200 <= stored[5] <= 250
    assert [event["kind"] for event in await profile(gateway, kind="CLICK")] == ["CLICK"]
    assert len(await profile(gateway, last=200)) == 199
    await assert_invariants(gateway)


async def test_beyond_2000_ads_in_a_day_others_count_as_capped(gateway: GatewayClient) -> None:
    await place(gateway, *(ad(unit=unit, ecpm=9) for unit in ("banner", "poster", "known")))
    await serve(gateway, view(limit=1))
    others = {f"{number:024x}": 1 for number in range(1_998)}
    known = ad_key("acme:spring", "known")
    key = {"_id": pseudonym(gateway)}
    await gateway.db["ads.profiles"].update_one(key, {"$set": {"shown": {**others, known: 1}}})
    await place(gateway, ad(unit="known", ecpm=9, dailyCap=2))

    served = await asyncio.gather(*(serve(gateway, view(limit=3)) for _ in range(10)))

    found = [one["adUnitId"] for answer in served for one in answer["ads"]]
    assert sorted(found) in (["banner", "known"], ["known", "poster"])
    assert len((await stored_profile(gateway))["shown"]) == 2_000
    assert {one["reason"] for one in (await choose(gateway, user="robin"))["rejected"]} == {"FREQUENCY_CAP"}


async def test_beyond_2000_ads_in_a_day_a_preview_and_a_page_show_and_reject_the_same_ads(
    gateway: GatewayClient,
) -> None:
    await place(gateway, ad(unit="dear", ecpm=9), ad(unit="next", ecpm=8), ad(unit="known", ecpm=1, dailyCap=9))
    await record(gateway, seen("CLICK"))
    others = {f"{number:024x}": 1 for number in range(1_998)}
    known = ad_key("acme:spring", "known")
    await gateway.db["ads.profiles"].update_one({}, {"$set": {"shown": {**others, known: 1}}})

    preview = await choose(gateway, user="robin", limit=3)
    page = await serve(gateway, view(limit=3), why=True)

    for answer in (preview, page):
        assert [one["adUnitId"] for one in answer["ads"]] == ["dear", "known"]
        assert [(one["ad"]["adUnitId"], one["reason"]) for one in answer["rejected"]] == [("next", "FREQUENCY_CAP")]


async def test_a_profile_stays_small_however_large_the_ads_of_its_calls_are(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="0", dailyCap=99, keywords=["first"]))
    keywords = [f"{number:02}" + "x" * 98 for number in range(50)]
    await fill_zone(gateway, ({"ad_unit_id": f"unit-{number}", "keywords": keywords} for number in range(100)))
    given = [keyed(**view(limit=100)) for _ in range(CALLS)]

    served = [await serve(gateway, one) for one in given]

    assert [len(answer["ads"]) for answer in served] == [100] * CALLS
    assert len(bson.encode(await stored_profile(gateway))) < CALLS * 100_000
    assert len((await stored_profile(gateway))["serves"]) == CALLS
    for number in (0, CALLS // 2, CALLS - 1):
        assert await serve(gateway, given[number]) == served[number]
    assert set((await counts(gateway)).values()) == {CALLS}


async def test_a_profile_that_is_full_of_unfinished_calls_refuses_others_until_they_have_finished(
    gateway: GatewayClient,
) -> None:
    await place(gateway, ad(dailyCap=99))
    await serve(gateway, keyed(**view()))
    ((own,), key) = (await stored_profile(gateway))["serves"], {"_id": pseudonym(gateway)}
    large = {**own, "ads": [{**own["ads"][0], "keywords": ["x" * 100] * 80_000}]}
    await gateway.db["ads.profiles"].update_one(key, {"$set": {"serves": [large]}})
    await gateway.db["operations"].update_many({}, {"$set": {"state": "running"}})
    given = keyed(**view())

    answer = await gateway.ask(SERVE, {"input": given}, token=None)

    assert answer.body["errors"][0]["extensions"]["code"] == "CONFLICT"
    await gateway.db["operations"].update_many({}, {"$set": {"state": "done"}})
    assert len((await serve(gateway, keyed(**view("robin"))))["ads"]) == 1


async def test_a_profile_forgets_the_calls_that_cannot_be_repeated_any_more(gateway: GatewayClient) -> None:
    await place(gateway, ad(dailyCap=9_999, totalCap=9_999))
    for number in range(200):
        await serve(gateway, keyed(**view()) if number % 2 else view())
        if number % 16 == 0:
            await settled(gateway)

    entries = (await stored_profile(gateway))["serves"]

    assert 64 <= len(entries) <= 160
    await assert_invariants(gateway)


async def test_events_are_forgotten_after_30_days_and_then_the_profile(gateway: GatewayClient) -> None:
    await place(gateway, ad(dailyCap=9, totalCap=99))
    await serve(gateway, keyed(**view()))
    gateway.clock.advance(days=20)
    await record(gateway, seen("CLICK"))
    await settled(gateway)

    await gateway.run_jobs("forget-ad-events", days=10, seconds=1)
    assert await profile(gateway) == []
    assert len(await profile(gateway, kind="CLICK")) == 1

    gateway.clock.advance(days=20)
    await gateway.db["operations"].delete_many({})
    await gateway.run_jobs("forget-ad-events")
    assert await profile(gateway) is None
    assert await counted(gateway) == 1
    await assert_invariants(gateway)


async def test_an_active_profile_keeps_the_caps_of_the_day_when_old_events_are_forgotten(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    await place(gateway, ad(dailyCap=1))
    await serve(gateway)
    clock.advance(days=31)
    given = keyed(**view())
    await serve(gateway, given)

    await gateway.run_jobs("forget-ad-events")

    assert len(await profile(gateway)) == 1
    assert await shown(gateway) == []
    assert await shown(gateway, given) == ["banner"]


async def test_the_profile_of_a_call_without_a_user_goes_when_the_call_cannot_be_repeated(
    gateway: GatewayClient,
) -> None:
    await place(gateway, ad(totalCap=99))
    await serve(gateway, keyed(**view(None)))
    await settled(gateway)
    await gateway.run_jobs("forget-ad-events")
    assert await gateway.db["ads.profiles"].count_documents({}) == 1

    await gateway.run_jobs("forget-ad-events", hours=25)

    assert await gateway.db["ads.profiles"].count_documents({}) == 0


async def test_a_profile_that_a_crashed_call_has_created_is_forgotten(gateway: GatewayClient) -> None:
    await gateway.db["ads.profiles"].insert_one(profiles.new_profile(pseudonym(gateway), now=gateway.clock.now()))

    await gateway.run_jobs("forget-ad-events", days=31)

    assert await gateway.db["ads.profiles"].count_documents({}) == 0


async def test_a_user_id_is_nowhere_in_the_database(gateway: GatewayClient) -> None:
    secret = "plain-user@example.com"
    await place(gateway, ad(totalCap=9, dailyCap=9))
    await serve(gateway, view(secret), why=True)
    await serve(gateway, keyed(**view(secret)), why=True)
    await record(gateway, keyed(**seen(user=secret)))
    await gateway.ask(RECORD, {"input": keyed(**seen(user=secret, campaignId="no:such"))}, token=None)
    await profile(gateway, secret)
    await settle_old_claims(gateway)
    await choose(gateway, user=secret)

    documents = [text async for text in everything(gateway)]

    assert len(documents) > 5
    hashed = [hashlib.new(name, secret.encode()).hexdigest() for name in ("md5", "sha1", "sha256")]
    assert not [text for text in documents if any(word in text for word in (secret, *hashed))]
    assert any(pseudonym(gateway, secret) in text for text in documents)


async def everything(gateway: GatewayClient) -> AsyncIterator[str]:
    """Yields every document of the database, and the definition of every index."""
    for name in await gateway.db.list_collection_names():
        async for document in gateway.db[name].find({}):
            yield json_util.dumps(document)
        async for index in await gateway.db[name].list_indexes():
            yield json_util.dumps(index)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "user", ["$where", "a.b", "shown.x", "\u202e", " ", "0", "ünïcödé 😀", "x" * 1_000, '{"$gt": ""}', "call-1"]
)
async def test_any_text_is_a_user_id(gateway: GatewayClient, user: str) -> None:
    await place(gateway, ad(dailyCap=1, totalCap=5))

    assert [await shown(gateway, keyed(**view(user))) for _ in range(2)] == [["banner"], []]
    assert len(await profile(gateway, user)) == 1
    await settled(gateway)
    await assert_invariants(gateway)


@pytest.mark.sample(2)
@pytest.mark.parametrize("is_keyed", [True, False])
@pytest.mark.parametrize("user", ["", "x" * 1_001, "a\0b"])
async def test_an_invalid_user_id_is_refused_with_its_path(gateway: GatewayClient, user: str, is_keyed: bool) -> None:
    for text, given in ((SERVE, view(user)), (RECORD, seen(user=user))):
        sent = {"input": keyed(**given) if is_keyed else given}
        (answer,) = (await gateway.data(text, sent, token=None)).values()
        assert (answer["__typename"], answer["path"]) == ("InvalidInput", ["userId"])


async def test_only_advertisers_and_administrators_see_profiles(gateway: GatewayClient) -> None:
    await record_click(gateway)

    async def codes(*roles: Role) -> list[str]:
        return (await gateway.ask(PROFILE, {"user": "robin"}, token=gateway.token("somebody", roles))).codes

    assert (await gateway.ask(PROFILE, {"user": "robin"}, token=None)).codes == ["UNAUTHENTICATED"]
    assert await codes(MERCHANT, Role.EDITOR, ANALYST) == ["FORBIDDEN"]
    assert await codes(ADVERTISER) == await codes(Role.ADMIN) == []


async def record_click(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    assert await record(gateway, seen("CLICK"))


async def test_a_profile_shows_the_events_of_one_advertiser_latest_first(gateway: GatewayClient) -> None:
    await place(gateway, ad("acme:spring"), ad("acme:autumn"), ad("acme-2:x"), ad("zoo:x"))
    for campaign in ("acme:spring", "zoo:x", "acme:autumn", "acme-2:x", "acme:spring"):
        await record(gateway, seen("CLICK", campaignId=campaign))
        gateway.clock.advance(seconds=1)

    events = await profile(gateway, kind="CLICK")

    assert [event["campaignId"] for event in events] == ["acme:spring", "acme:autumn", "acme:spring"]
    assert [event["at"] for event in events] == sorted((event["at"] for event in events), reverse=True)
    assert await profile(gateway, kind="CLICK", last=1) == events[:1]
    assert await profile(gateway) == []
    assert await profile(gateway, "nobody") is None
    for last in (0, 201):
        (error,) = (await gateway.ask(PROFILE, {"user": "robin", "last": last})).body["errors"]
        assert error["extensions"] == {"code": "BAD_USER_INPUT", "argument": ["last"]}


async def test_the_log_of_a_failed_call_does_not_have_the_user_id(
    gateway: GatewayClient, capfd: pytest.CaptureFixture[str]
) -> None:
    await place(gateway, ad(totalCap=5))
    await gateway.db["ads.counters"].update_one({"_id": BANNER}, {"$set": {"claims": "damaged"}})

    answer = await gateway.ask(SERVE, {"input": view("plain-user@example.com")}, token=None)

    assert answer.codes == ["INTERNAL"]
    logged = capfd.readouterr()
    assert "plain-user" not in logged.out + logged.err + orjson.dumps(dict(answer.body)).decode()
