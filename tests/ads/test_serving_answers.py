"""What served pages are told: repeated calls, reasons, changed caps, and input that is not valid."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from portico.resolvers.ads.ads import ad_key
from portico.resolvers.ads.counters import random_token
from portico.testing import assert_budget
from tests.ads.support.ads import ad, deactivate, fill_zone, keyed, place, units
from tests.ads.support.serving import RECORD, SERVE, counted, counts, profile, record, seen, serve, settled, shown, view
from tests.support.harness import GatewayClient, SettableClock, assert_invariants
from tests.support.moments import meanwhile
from tests.support.routing import unroutable


def reasons(answer: Any) -> dict[str, str]:
    return {one["ad"]["adUnitId"]: one["reason"] for one in answer["rejected"]}


async def test_reasons_agree_with_the_choice_that_was_made(gateway: GatewayClient) -> None:
    await place(
        gateway,
        ad(unit="capped", ecpm=9, keywords=["x"]),
        ad(unit="exhausted", ecpm=8, keywords=["x"], totalCap=0),
        ad(unit="best", ecpm=7, keywords=["garden"], dailyCap=9),
        ad(unit="outbid", ecpm=1, keywords=["garden"]),
        ad(unit="other", ecpm=1, keywords=["x"]),
    )
    assert await shown(gateway, view(keywords=["x"])) == ["capped"]

    answer = await serve(gateway, view(keywords=["Garden"]), why=True)

    assert units(answer["ads"]) == ["best"]
    assert reasons(answer) == {
        "capped": "FREQUENCY_CAP",
        "exhausted": "EXHAUSTED",
        "outbid": "OUTBID",
        "other": "KEYWORDS",
    }


async def test_an_ad_that_was_used_up_elsewhere_meanwhile_is_rejected_as_exhausted(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="gone", ecpm=9, totalCap=1), ad(unit="next", ecpm=1))
    used_up = {"$set": {"shown": 1, "highest_cap": 1}}
    await gateway.db["ads.counters"].update_one({"_id": ad_key("acme:spring", "gone")}, used_up)

    answer = await serve(gateway, why=True)

    assert (units(answer["ads"]), reasons(answer)) == (["next"], {"gone": "EXHAUSTED"})


async def test_a_repeated_call_gets_the_reasons_of_the_first_one(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="best", ecpm=9), ad(unit="next", ecpm=1))
    given = keyed(**view())
    first = await serve(gateway, given, why=True)
    await place(gateway, ad(unit="new", ecpm=99))

    assert await serve(gateway, given, why=True) == first
    again = await serve(gateway, given, as_service=True)
    assert units(again["ads"]) == units(first["ads"])


async def test_if_only_the_repeated_call_asks_for_reasons_it_gets_those_of_now(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="best", ecpm=9), ad(unit="next", ecpm=1, keywords=["a"]))
    for keywords, expected in (([], "OUTBID"), (["b"], "KEYWORDS"), (["A"], "OUTBID")):
        given = keyed(**view(f"user {keywords}", keywords=keywords))
        first = await serve(gateway, given, as_service=True)

        again = await serve(gateway, given, why=True)

        assert units(again["ads"]) == units(first["ads"])
        others = {"best", "next"} - set(units(first["ads"]))
        assert set(reasons(again)) == others
        if "next" in others:
            assert reasons(again) == {"next": expected}


async def test_a_repeated_call_gets_the_same_ads_after_its_campaign_has_ended(gateway: GatewayClient) -> None:
    await place(gateway, ad(dailyCap=9))
    given = keyed(**view())
    first = await serve(gateway, given)
    await deactivate(gateway)

    assert await serve(gateway, given) == first
    assert await shown(gateway) == []


async def test_a_key_gets_the_same_refused_event_again(gateway: GatewayClient) -> None:
    await place(gateway, ad(dailyCap=1))
    await serve(gateway)
    given = keyed(**seen())
    assert not await record(gateway, given)

    await place(gateway, ad(dailyCap=5))

    assert not await record(gateway, given)
    assert await record(gateway, seen())


@pytest.mark.parametrize("kind", ["page", "event"])
async def test_a_parallel_call_with_the_key_of_a_refused_one_is_refused_and_counts_nothing(
    gateway: GatewayClient, other: GatewayClient, clock: SettableClock, kind: str
) -> None:
    await place(gateway, ad(dailyCap=1))
    await serve(gateway)
    given, text = (keyed(**view()), SERVE) if kind == "page" else (keyed(**seen()), RECORD)

    async def overtake() -> Any:
        # The first call has decided, but not stored its answer. Meanwhile, the cap is raised.
        await place(other, ad(dailyCap=5))
        clock.advance(seconds=31)
        twin = await other.data(text, {"input": given}, token=None)
        await settled(other)
        return twin

    with meanwhile(gateway, overtake, "operations", "update_one") as twins:
        first = await gateway.data(text, {"input": given}, token=None)

    assert twins == [first]
    assert await counts(gateway) == {ad_key("acme:spring", "banner"): 1}
    await assert_invariants(gateway)


async def test_a_total_cap_can_be_raised_lowered_and_removed(gateway: GatewayClient) -> None:
    async def served_with(cap: int | None, times: int) -> list[str]:
        await place(gateway, ad(totalCap=cap, dailyCap=99))
        found = [unit for _ in range(times) for unit in await shown(gateway)]
        await settled(gateway)
        await assert_invariants(gateway)
        return found

    assert await served_with(2, 4) == ["banner"] * 2
    assert await served_with(5, 5) == ["banner"] * 3
    assert await served_with(1, 2) == []
    assert await served_with(None, 3) == ["banner"] * 3
    # Impressions without a limit count for a later one.
    assert await served_with(3, 3) == []
    assert await served_with(9, 3) == ["banner"]
    assert await counted(gateway) == 9


async def test_an_impression_of_an_ad_that_is_not_in_the_zone_has_only_the_cap_in_all(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=5, dailyCap=3), zone="side")

    assert [await record(gateway, seen()) for _ in range(2)] == [True, True]

    assert await counted(gateway) == 2
    assert len(await profile(gateway)) == 2
    assert [await shown(gateway, view(zone="side")) for _ in range(2)] == [["banner"], []]
    assert [await shown(gateway, view(f"user-{number}", "side")) for number in range(3)] == [["banner"]] * 2 + [[]]
    assert [await record(gateway, seen()) for _ in range(2)] == [False, False]
    assert len(await profile(gateway)) == 3


async def test_a_click_counts_for_no_cap(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=1, dailyCap=1))

    assert [await record(gateway, seen("CLICK")) for _ in range(3)] == [True] * 3
    assert await shown(gateway) == ["banner"]
    assert [await record(gateway, seen("CLICK")) for _ in range(2)] == [True] * 2
    assert await counted(gateway) == 1


async def test_clicks_of_a_deactivated_campaign_are_recorded(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    await deactivate(gateway)

    assert await record(gateway, seen("CLICK"))


INVALID = {
    "no site": (view(siteId=""), ["siteId"]),
    "a long zone": (view(zone="z" * 201), ["zoneId"]),
    "a control character": (view(zone="a\x00b"), ["zoneId"]),
    "no ads": (view(limit=0), ["limit"]),
    "too many ads": (view(limit=101), ["limit"]),
    "too many keywords": (view(keywords=["x"] * 10_001), ["keywords"]),
    "too many characters": (view(keywords=["x" * 100] * 1_001), ["keywords"]),
    "a long keyword": (view(keywords=["ok", "x" * 101]), ["keywords", "1"]),
    "an unknown campaign": (seen(campaignId="acme:none"), ["campaignId"]),
    "no advertiser": (seen(campaignId=":spring"), ["campaignId"]),
    "no ad unit": (seen(adUnitId=""), ["adUnitId"]),
}


@pytest.mark.parametrize("name", INVALID)
async def test_invalid_input_is_refused_with_its_path(gateway: GatewayClient, name: str) -> None:
    given, path = INVALID[name]
    text = RECORD if "kind" in given else SERVE

    (answer,) = (await gateway.data(text, {"input": given}, token=None)).values()

    assert (answer["__typename"], answer["path"]) == ("InvalidInput", path)


HOSTILE = ["$shown", "a.b", "$$ROOT", "{$gt: 0}", "'; drop", "claims.$[]", "\u202bright", "😀", "__proto__", "$literal"]


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", [text for text in HOSTILE if "\u202b" not in text])
async def test_hostile_ids_are_only_text(gateway: GatewayClient, text: str) -> None:
    hostile = {"campaignId": f"{text}:{text}", "adUnitId": text}
    given = {"siteId": text, "zoneId": text}
    for cap, limit in ((3, 1), (2, 1)):
        placed = {**hostile, "ecpm": 1, "keywords": [text], "totalCap": cap, "dailyCap": limit}
        assert (await gateway.result("placeAd", {**given, "ad": placed}))["__typename"] == "AdZonePayload"

    for user in (text, f"other {text}", "robin"):
        await serve(gateway, keyed(**view(user, keywords=[text], **given)))
    assert not await record(gateway, seen(user="kim", **given, **hostile))
    assert await record(gateway, seen("CLICK", user=text, **given, **hostile))

    assert await counted(gateway, f"{text}:{text}", text) == 2
    assert len(await profile(gateway, text, advertiser=text.partition(":")[0])) == 1
    await settled(gateway)
    await assert_invariants(gateway)


async def test_commands_of_a_served_page(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="capped", ecpm=9, totalCap=99, dailyCap=2), ad(unit="free", ecpm=1, dailyCap=9))
    reads = ["find ads.zones", "find ads.profiles"]

    async def budget(given: dict[str, Any], *commands: str) -> None:
        await assert_budget(
            gateway, SERVE, {"input": given}, [*reads[: 1 if given["userId"] is None else 2], *commands]
        )
        await settled(gateway)

    claim, decide, count = "findAndModify ads.counters", "update ads.profiles", "update ads.counters"
    await budget(view(), "insert ads.profiles", claim, decide)
    await budget(view(), claim, decide)
    await budget(view(), decide, count)
    await budget(view("kim", keywords=["x"] * 100, limit=1), "insert ads.profiles", claim, decide)
    await budget(view(None), claim)
    await gateway.db["ads.zones"].update_one({}, {"$pull": {"ads": {"ad_unit_id": "capped"}}, "$set": {"nonce": -1.0}})
    await budget(view("new"), "insert ads.profiles", count)
    await budget(view(None), count)


async def test_a_page_before_a_thousand_used_up_ads_takes_few_commands(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="first", ecpm=1_000, totalCap=1), ad(unit="last", ecpm=0, dailyCap=9))
    used_up = await fill_zone(gateway, [{}, *({"ad_unit_id": f"unit-{number}", "ecpm": 900} for number in range(200))])
    await gateway.db["ads.counters"].delete_many({})
    await gateway.db["ads.counters"].insert_many(
        {"_id": ad_key("acme:spring", one["ad_unit_id"]), "shown": 1, "claims": [], "highest_cap": 1} for one in used_up
    )
    gateway.commands.clear()

    assert await shown(gateway) == ["last"]

    # A claim, and then four times a look at fifty counters and a mark of their ads.
    assert len(gateway.commands.sent) <= 18
    gateway.commands.clear()
    assert await shown(gateway) == ["last"]
    reads = ["find ads.profiles", "find ads.zones"]
    assert sorted(gateway.commands.names()) == [*reads, "update ads.counters", "update ads.profiles"]


async def test_a_page_before_300_ads_that_crashed_calls_have_claimed_takes_few_commands(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="first", ecpm=9, totalCap=1), ad(unit="last", ecpm=0, dailyCap=9))
    claimed = await fill_zone(gateway, ({"ad_unit_id": f"unit-{number}"} for number in range(300)))
    at = gateway.clock.now() - timedelta(seconds=5)
    await gateway.db["ads.counters"].insert_many(
        {
            "_id": ad_key("acme:spring", one["ad_unit_id"]),
            "shown": 0,
            "claims": [{"token": random_token(), "at": at, "profile": "of a crashed process"}],
            "highest_cap": 1,
        }
        for one in claimed
    )
    gateway.commands.clear()

    assert await shown(gateway) == ["last"]

    # Two claims of the first ad, and then six looks at fifty counters.
    assert len(gateway.commands.sent) <= 14


async def test_served_pages_are_routed_to_one_shard_but_for_the_mark_of_a_used_up_ad(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=2, dailyCap=9))
    marks = ["update ads.zones ads ads.campaign_id"]
    for given, expected in ((view(), []), (view(None), marks), (keyed(**view("kim")), []), (view("sam"), [])):
        gateway.commands.clear()
        await serve(gateway, given)
        await settled(gateway)

        assert unroutable(gateway.commands.sent) == expected
