"""Serving ads: choosing and counting in one step."""

from __future__ import annotations

import pytest

from portico.resolvers.ads.ads import ad_key
from tests.ads.support.ads import ad, choose, keyed, place
from tests.ads.support.serving import counted, counts, record, seen, serve, settled, shown, view
from tests.support.harness import GatewayClient

pytestmark = pytest.mark.usefixtures("sound")


async def test_an_empty_or_unknown_zone_serves_nothing(gateway: GatewayClient) -> None:
    assert await shown(gateway) == []
    assert await gateway.db["ads.profiles"].find_one({}) is None


async def test_an_ad_is_served_until_the_users_daily_cap_and_then_the_next_best(gateway: GatewayClient) -> None:
    await place(gateway, ad(unit="dear", ecpm=9, dailyCap=2), ad(unit="cheap", ecpm=1, dailyCap=1))

    assert [await shown(gateway) for _ in range(4)] == [["dear"], ["dear"], ["cheap"], []]
    assert [await shown(gateway, view("sam"))] == [["dear"]]
    assert await counts(gateway) == {ad_key("acme:spring", "dear"): 2, ad_key("acme:spring", "cheap"): 1}


async def test_an_ad_is_served_until_its_total_cap_over_all_users(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=3), ad(unit="house", ecpm=0))

    served = [await shown(gateway, view(f"user-{number}")) for number in range(5)]

    assert served == [["banner"]] * 3 + [["house"]] * 2
    assert await counted(gateway) == 3


async def test_a_cap_below_what_was_shown_without_a_cap_ends_the_ad(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    assert [await shown(gateway, view(f"user-{number}")) for number in range(5)] == [["banner"]] * 5

    await place(gateway, ad(totalCap=3))

    assert [one["reason"] for one in (await choose(gateway))["rejected"]] == ["EXHAUSTED"]
    assert await shown(gateway, view("sam")) == []
    await place(gateway, ad(totalCap=6))
    assert [await shown(gateway, view(f"other-{number}")) for number in range(2)] == [["banner"], []]
    assert await counted(gateway) == 6


@pytest.mark.parametrize("first", ["front", "side"])
@pytest.mark.parametrize("is_keyed", [True, False])
async def test_the_cap_of_one_placement_holds_for_the_ad_in_all_zones(
    gateway: GatewayClient, first: str, *, is_keyed: bool
) -> None:
    caps = {"front": 5, "side": None}
    for zone in sorted(caps, key=lambda zone: zone != first):
        await place(gateway, ad(totalCap=caps[zone]), zone=zone)
    pages = [view(f"user-{number}", zone) for number, zone in enumerate(["side", "front"] * 8)]

    served = [await shown(gateway, keyed(**page) if is_keyed else page) for page in pages]

    assert served == [["banner"]] * 5 + [[]] * 11
    for zone in caps:
        assert [one["reason"] for one in (await choose(gateway, zone))["rejected"]] == ["EXHAUSTED"]
    assert not await record(gateway, seen(user="sam", zoneId="side"))
    assert not await record(gateway, seen(user="sam", zoneId="elsewhere"))
    assert await counted(gateway) == 5


async def test_the_smallest_cap_of_the_placements_holds_until_it_is_raised_or_removed(gateway: GatewayClient) -> None:
    async def served(number: int) -> int:
        pages = [view(f"{number}-{page}", ("front", "side", "blog")[page % 3]) for page in range(9)]
        return sum([await shown(gateway, page) == ["banner"] for page in pages])

    for zone, cap in (("front", 2), ("side", 4), ("blog", None)):
        await place(gateway, ad(totalCap=cap), zone=zone)
    assert await served(0) == 2
    await place(gateway, ad(totalCap=7))
    assert await served(1) == 2
    await place(gateway, ad(totalCap=None), zone="side")
    assert await served(2) == 3
    await place(gateway, ad(totalCap=None))
    assert await served(3) == 9
    await place(gateway, ad(totalCap=8), zone="new")
    assert await served(4) == 0
    assert await counted(gateway) == 16


async def test_without_a_user_only_the_total_cap_applies(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=3), ad(unit="house", ecpm=0))

    assert [await shown(gateway, view(None)) for _ in range(5)] == [["banner"]] * 3 + [["house"]] * 2
    assert await counted(gateway) == 3
    assert await gateway.db["ads.profiles"].find_one({}) is None


async def test_an_ad_that_has_just_reached_its_total_cap_is_shown_as_exhausted(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=2))
    for user in ("robin", "sam"):
        await serve(gateway, view(user))

    assert [one["reason"] for one in (await choose(gateway))["rejected"]] == ["EXHAUSTED"]


async def test_an_impression_counted_elsewhere_counts_for_both_caps(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=2))

    assert [await record(gateway, seen()) for _ in range(2)] == [True, False]
    assert await record(gateway, seen(user="sam"))
    assert not await record(gateway, seen(user="kim"))
    assert await counted(gateway) == 2
    await settled(gateway)
