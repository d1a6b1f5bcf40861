"""Caps that hold however many pages load at once, over several gateways."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest

from portico.resolvers.ads import claiming, counters
from portico.resolvers.ads.ads import ad_key
from portico.resolvers.ads.counters import Changes, CountedAd
from tests.ads.support.ads import ad, choose, keyed, place
from tests.ads.support.serving import counted, counts, profile, record, seen, serve, settled, units_of, view
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock

pytestmark = pytest.mark.usefixtures("sound")
# The pages that users load, each the same number of them, and the units of a campaign that they use up.
PAGES, USERS, CAP = (2_000, 500, 700) if IS_SOAK else (100, 25, 35)


async def test_200_parallel_pages_of_one_user_with_a_daily_cap_of_3_show_the_ad_3_times(
    gateway: GatewayClient, other: GatewayClient
) -> None:
    await place(gateway, ad(unit="dear", ecpm=9, dailyCap=3), ad(unit="next", ecpm=1, dailyCap=1_000))

    served = await asyncio.gather(*(serve(one) for _ in range(100) for one in (gateway, other)))

    assert units_of(served) == {"dear": 3, "next": 197}
    assert await counts(gateway) == {ad_key("acme:spring", "dear"): 3, ad_key("acme:spring", "next"): 197}
    assert len(await profile(gateway, last=200)) == 200


async def test_200_parallel_pages_of_one_user_leave_the_rest_of_a_total_cap_to_others(gateway: GatewayClient) -> None:
    await place(gateway, ad(dailyCap=3, totalCap=10), ad(unit="next", ecpm=1, dailyCap=1_000))

    served = await asyncio.gather(*(serve(gateway) for _ in range(200)))

    assert units_of(served) == {"banner": 3, "next": 197}
    assert await counted(gateway) == 3
    served = await asyncio.gather(*(serve(gateway, view(f"user-{number}")) for number in range(20)))
    assert units_of(served)["banner"] == 7


@pytest.mark.parametrize(("daily_cap", "gateways"), [(1, 1), (4, 2)])
async def test_pages_of_many_users_use_up_a_total_cap_exactly(
    gateway: GatewayClient, other: GatewayClient, daily_cap: int, gateways: int
) -> None:
    await place(gateway, ad(dailyCap=daily_cap, totalCap=CAP), ad(unit="next", ecpm=1, dailyCap=1_000))
    users = [f"user-{number % USERS}" for number in range(PAGES)]
    random.Random(7).shuffle(users)
    expected = min(CAP, USERS * daily_cap)

    asked = [gateway, other][:gateways]
    # Each gateway takes up to 400 requests at once.
    connections = asyncio.Semaphore(400)

    async def load(number: int, user: str) -> Any:
        async with connections:
            return await serve(asked[number % gateways], view(user))

    served = await asyncio.gather(*(load(number, user) for number, user in enumerate(users)))
    await settled(other)

    assert units_of(served) == {"banner": expected, "next": PAGES - expected}
    assert await counted(gateway) == expected
    if expected == CAP:
        assert [one["reason"] for one in (await choose(gateway))["rejected"]] == ["EXHAUSTED"]


async def test_zones_with_the_same_ad_share_its_total_cap(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=40), zone="front")
    await place(gateway, ad(totalCap=25), ad(unit="next", ecpm=1, dailyCap=9), zone="side")
    await place(gateway, ad(), zone="blog")

    zones = ["front", "side", "blog"] * 40
    pages = [serve(gateway, view(f"user-{number}", zone)) for number, zone in enumerate(zones)]
    served = await asyncio.gather(*pages)

    assert units_of(served)["banner"] == 25
    assert await counted(gateway) == 25
    for zone in ("front", "side", "blog"):
        assert "EXHAUSTED" in [one["reason"] for one in (await choose(gateway, zone))["rejected"]]


async def test_a_cap_that_is_set_while_pages_load_is_exact_when_it_is_acknowledged(
    gateway: GatewayClient, other: GatewayClient
) -> None:
    await place(gateway, ad(dailyCap=9))
    await place(gateway, ad(dailyCap=9), zone="side")

    # Those that pages show, and those of them that were asked for after the cap was acknowledged.
    shown = late = 0
    has_begun, is_capped = asyncio.Event(), asyncio.Event()

    async def load(number: int) -> None:
        nonlocal shown, late
        await asyncio.sleep(number / 200)
        is_late = is_capped.is_set()
        page = view(None if number % 4 == 0 else f"user-{number}", ("front", "side")[number % 2])
        served = units_of([await serve((gateway, other)[number % 2], page)])["banner"]
        shown += served
        late += served if is_late else 0
        if shown >= 20:
            has_begun.set()

    async def cap() -> None:
        await has_begun.wait()
        await place(other, ad(dailyCap=9, totalCap=40))
        is_capped.set()

    await asyncio.gather(cap(), *(load(number) for number in range(200)))
    await settled(other)

    # What was decided before can be more, and can be answered afterwards.
    assert shown == 40 or (shown > 40 and late == 0)
    assert await counted(gateway) == shown


@pytest.mark.sample(2)
@pytest.mark.parametrize("is_keyed", [True, False])
async def test_parallel_impressions_without_a_cap_are_all_counted_for_a_later_one(
    gateway: GatewayClient, other: GatewayClient, *, is_keyed: bool
) -> None:
    await place(gateway, ad(dailyCap=3), ad(unit="next", ecpm=1, dailyCap=1_000))

    async def load(number: int) -> Any:
        given = view(None if number % 4 == 0 else f"user-{number % 10}")
        return await serve((gateway, other)[number % 2], keyed(**given) if is_keyed else given)

    before = units_of(await asyncio.gather(*(load(number) for number in range(100))))
    await settled(gateway, other)
    assert await counted(gateway) == before["banner"]
    assert await counted(gateway, unit="next") == before["next"]

    await place(gateway, ad(dailyCap=3, totalCap=before["banner"] + 7))
    after = units_of(await asyncio.gather(*(serve(gateway, view(f"new-{number}")) for number in range(20))))

    assert after == {"banner": 7, "next": 13}
    assert await counted(gateway) == before["banner"] + 7


async def test_parallel_impressions_that_were_counted_elsewhere_keep_to_the_caps(gateway: GatewayClient) -> None:
    await place(gateway, ad(dailyCap=2, totalCap=30))

    events = [seen(user=f"user-{number % 20}") for number in range(100)]
    recorded = await asyncio.gather(*(record(gateway, event) for event in events))

    assert sum(recorded) == 30
    assert await counted(gateway) == 30


async def test_parallel_pages_without_a_user_keep_to_the_total_cap(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=30), ad(unit="next", ecpm=1))

    served = await asyncio.gather(*(serve(gateway, view(None)) for _ in range(100)))

    assert units_of(served) == {"banner": 30, "next": 70}
    assert await counted(gateway) == 30


async def test_parallel_pages_with_several_ads_each_keep_to_all_caps(gateway: GatewayClient) -> None:
    caps = {f"unit-{number}": 5 * number for number in range(1, 11)}
    await place(gateway, *(ad(unit=unit, ecpm=cap, totalCap=cap, dailyCap=9) for unit, cap in caps.items()))

    pages = [serve(gateway, view(f"user-{number}", limit=3)) for number in range(120)]
    served = await asyncio.gather(*pages)

    assert units_of(served) == caps
    assert all(len({one["adUnitId"] for one in answer["ads"]}) == len(answer["ads"]) for answer in served)
    for unit, cap in caps.items():
        assert await counted(gateway, unit=unit) == cap


@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_page_waits_for_the_outcome_of_the_page_that_has_claimed_the_last_impression(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, *, is_shown: bool
) -> None:
    # Otherwise, the page gives up if this machine takes longer than a second.
    monkeypatch.setattr(claiming, "_YOUNG", timedelta(hours=1))
    monkeypatch.setattr(claiming, "_PATIENCE", 3_600.0)
    await place(gateway, ad(totalCap=1), ad(unit="next", ecpm=1))
    last = CountedAd.of({"campaign_id": "acme:spring", "ad_unit_id": "banner"})
    token = counters.random_token()
    claim = {"token": token, "at": clock.now(), "profile": "of another process"}
    await counters.apply(gateway.db, last, Changes(cap=1, claims=[claim]))

    page = asyncio.create_task(serve(gateway))
    await asyncio.sleep(0.1)
    assert not page.done()
    ended = Changes(concluded=[token]) if is_shown else Changes(released=[token])
    await counters.apply(gateway.db, last, ended)

    assert units_of([await page]) == {"next" if is_shown else "banner": 1}
    assert await counted(gateway) == 1
