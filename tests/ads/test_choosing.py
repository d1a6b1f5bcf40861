"""Choices of ads through the public schema."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from portico.resolvers.ads import ads
from portico.resolvers.ads.ads import ad_key
from portico.resolvers.ads.choosing import Choice, Rejected
from portico.resolvers.ads.profiles import MAX_COUNTED_ADS, day_of
from portico.resolvers.ads.pseudonyms import Pseudonyms
from portico.resolvers.texts import fold
from portico.testing import Commands
from tests.ads.support.ads import CHOOSE, SITE, ad, choose, place, units
from tests.support.harness import GatewayClient, SettableClock


async def seen(gateway: GatewayClient, user: str, *, day: datetime, **counts: int) -> None:
    """Stores how often a user has seen ad units of `acme:spring` in a day."""
    profile = gateway.state.resources.of(Pseudonyms).of(user)
    shown = {ad_key("acme:spring", unit): count for unit, count in counts.items()}
    await gateway.db["ads.profiles"].insert_one({"_id": profile, "day": day_of(day), "shown": shown})


async def test_an_unknown_zone_has_no_ads(gateway: GatewayClient) -> None:
    assert await choose(gateway, "nowhere", user="u") == {"ads": [], "rejected": []}


async def test_the_dearest_ads_are_chosen(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="a", ecpm=5), ad(unit="b", ecpm=9), ad(unit="c", ecpm=7), ad(unit="d", ecpm=0))

    chosen = await choose(gateway, limit=2)

    assert units(chosen["ads"]) == ["b", "c"]
    assert [(one["ad"]["adUnitId"], one["reason"]) for one in chosen["rejected"]] == [("a", "OUTBID"), ("d", "OUTBID")]


async def test_keywords_raise_the_ads_that_suit_the_page(gateway: GatewayClient) -> None:
    await place(
        gateway,
        ad(unit="dear", ecpm=1_000),
        ad(unit="one", ecpm=200, keywords=["Garden"]),
        ad(unit="two", ecpm=150, keywords=["garden", "roses"]),
    )

    chosen = await choose(gateway, keywords=["GARDEN", "roses ", "spades"], limit=2)

    # 150 · log(3.1) = 169.7; 200 · log(2.1) = 148.4; 1,000 · log(1.1) = 95.3.
    assert units(chosen["ads"]) == ["two", "one"]
    assert [one["reason"] for one in chosen["rejected"]] == ["KEYWORDS"]


async def test_a_user_gets_an_ad_as_often_as_its_daily_cap_allows(gateway: GatewayClient, clock: SettableClock) -> None:
    await place(gateway, ad(unit="twice", ecpm=9, dailyCap=2), ad(unit="once", ecpm=5))
    await seen(gateway, "robin", day=clock.now(), twice=2)

    mine, others, nobodys = [await choose(gateway, user=user) for user in ("robin", "mara", None)]

    assert units(mine["ads"]) == ["once"]
    assert [one["reason"] for one in mine["rejected"]] == ["FREQUENCY_CAP"]
    assert units(others["ads"]) == units(nobodys["ads"]) == ["twice"]


async def test_yesterdays_impressions_do_not_count(gateway: GatewayClient, clock: SettableClock) -> None:
    await place(gateway, ad())
    await seen(gateway, "robin", day=clock.now() - timedelta(days=1), banner=1)

    assert units((await choose(gateway, user="robin"))["ads"]) == ["banner"]


async def test_impressions_of_a_day_that_has_begun_elsewhere_count(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    await seen(gateway, "robin", day=gateway.clock.now() + timedelta(days=1), banner=1)

    assert (await choose(gateway, user="robin"))["ads"] == []


async def test_a_user_who_has_seen_too_many_ads_in_a_day_gets_no_others(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="known", dailyCap=5), ad(unit="new", dailyCap=5))
    many = {f"unit{number}": 1 for number in range(MAX_COUNTED_ADS - 1)}
    await seen(gateway, "robin", day=gateway.clock.now(), known=1, **many)

    chosen = await choose(gateway, user="robin", limit=2)

    assert units(chosen["ads"]) == ["known"]
    assert [one["reason"] for one in chosen["rejected"]] == ["FREQUENCY_CAP"]


async def test_a_preview_counts_nothing(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=1))
    before = await gateway.db["ads.counters"].find({}).to_list()

    chosen = [units((await choose(gateway, user="robin"))["ads"]) for _ in range(3)]

    assert chosen == [["banner"]] * 3
    # The counter has the cap since the ad was placed.
    assert await gateway.db["ads.counters"].find({}).to_list() == before
    assert [counter["shown"] for counter in before] == [0]
    assert await gateway.db["ads.profiles"].count_documents({}) == 0


async def test_a_choice_takes_two_commands_whatever_is_in_the_zone(gateway: GatewayClient, commands: Commands) -> None:
    for zone, number in (("empty", 0), ("small", 1), ("large", 40)):
        await place(gateway, *(ad(unit=f"unit {one}", keywords=["jazz"]) for one in range(number)), zone=zone)
        for _ in range(2):
            commands.clear()
            await choose(gateway, zone, user="robin", keywords=["jazz", "blues"], limit=100)
            assert sorted(commands.names()) == ["find ads.profiles", "find ads.zones"]
    commands.clear()
    await choose(gateway, "large")
    assert commands.names() == ["find ads.zones"]


async def test_a_zone_that_has_not_changed_is_not_sent_again(gateway: GatewayClient, commands: Commands) -> None:
    await place(gateway, ad())
    first = await choose(gateway)
    commands.clear()

    assert await choose(gateway) == first
    (command,) = commands.sent
    sent = await gateway.stored("ads.zones", command["filter"], projection=command["projection"])
    assert set(sent) == {"_id", "nonce"}

    await place(gateway, ad(unit="dearer", ecpm=900))
    assert units((await choose(gateway))["ads"]) == ["dearer"]


def _record(asked: list[Choice]) -> Callable[[Choice], list[Rejected]]:
    def rejected(choice: Choice) -> list[Rejected]:
        asked.append(choice)
        return []

    return rejected


@pytest.mark.parametrize("why", [True, False])
async def test_the_reasons_are_worked_out_only_when_selected(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch, why: bool
) -> None:
    await place(gateway, ad(), ad(unit="other"))
    asked: list[Choice] = []
    monkeypatch.setattr(Choice, "rejected", _record(asked))

    await choose(gateway, why=why)

    assert len(asked) == int(why)


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "no ads": ({"limit": 0}, "`limit` must be between 1 and 100; got 0."),
    "101 ads": ({"limit": 101}, "`limit` must be between 1 and 100; got 101."),
    "10,001 keywords": ({"keywords": ["x"] * 10_001}, "There are 10,001 keywords; 10,000 are allowed."),
    "a long keyword": ({"keywords": ["x" * 101]}, "A keyword has 101 characters; 100 are allowed."),
    "100,001 characters": (
        {"keywords": ["x" * 100] * 1_000 + ["y"]},
        "The keywords have 100,001 characters together; 100,000 are allowed.",
    ),
    "an empty user": ({"user": ""}, "`userId` must not be empty."),
    "a long user": ({"user": "x" * 1_001}, "User id has 1,001 characters; 1,000 are allowed."),
}


@pytest.mark.parametrize("what", INVALID)
async def test_invalid_arguments_are_refused(gateway: GatewayClient, what: str) -> None:
    given, message = INVALID[what]

    answer = await gateway.ask(CHOOSE, {"zone": "front", **given})

    assert answer.codes == ["BAD_USER_INPUT"]
    assert answer.body["errors"][0]["message"] == message


async def test_ten_thousand_hostile_keywords_are_only_keywords(gateway: GatewayClient) -> None:
    hostile = ["$where", "{$gt: ''}", "a.b", "\u202e", "' OR 1=1", "\u0130", "\u0000"]
    await place(gateway, ad(unit="match", ecpm=1, keywords=["$where", "a.b"]), ad(unit="dear", ecpm=5))
    keywords = hostile + [f"word {number}" for number in range(10_000 - len(hostile))]

    chosen = await choose(gateway, keywords=keywords, user="$ne")

    assert units(chosen["ads"]) == ["match"]


async def test_a_keyword_that_is_too_long_when_normalized_matches_nothing(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="match", ecpm=1, keywords=["jazz"]), ad(unit="dear", ecpm=5))

    alone = await choose(gateway, keywords=["\ufdfa" * 6])
    beside = await choose(gateway, keywords=["\ufdfa" * 6, "jazz"])

    assert (units(alone["ads"]), units(beside["ads"])) == (["dear"], ["match"])


async def test_an_operation_folds_each_keyword_of_its_pages_once(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place(gateway, ad(unit="match", ecpm=1, keywords=["jazz"]), ad(unit="dear", ecpm=5))
    await choose(gateway)
    folds: list[str] = []

    def counted(keyword: str) -> str:
        folds.append(keyword)
        return fold(keyword)

    monkeypatch.setattr(ads, "fold", counted)
    choice = f'chooseAds(siteId: "{SITE}", zoneId: "front", keywords: $keywords) {{ ads {{ adUnitId }} }}'
    text = f"query ($keywords: [String!]!) {{ {' '.join(f'a{one}: {choice}' for one in range(20))} }}"

    data = await gateway.data(text, {"keywords": ["JAZZ", "blues"] * 500})

    assert [units(one["ads"]) for one in data.values()] == [["match"]] * 20
    assert sorted(folds) == ["JAZZ", "blues"]


async def test_sites_with_the_same_zones_have_their_own_ads(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    text = 'query { chooseAds(siteId: "other.example", zoneId: "front") { ads { ecpm } } }'

    assert SITE != "other.example"
    assert (await gateway.data(text))["chooseAds"] == {"ads": []}
