"""Clicks by signed links: each is recorded once, and leads to the link of the creative, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from portico.gateway.mongo.faults import Crash
from portico.gateway.settings import Settings
from portico.resolvers.ads.clicks import ClickLinks
from tests.ads.support.ads import ad, deactivate, keyed, place
from tests.ads.support.creatives import LINK, PAGE, click_url, clicks, creative, follow, served_page, set_creative
from tests.ads.support.serving import profile, view
from tests.support.harness import GatewayClient, assert_invariants, running
from tests.support.interruptions import crashing
from tests.support.stored import assert_typed


@pytest.fixture
async def url(gateway: GatewayClient) -> str:
    """The link of a click on the only ad, which was served to robin."""
    await place(gateway, ad(dailyCap=99))
    await set_creative(gateway)
    return await click_url(gateway)


async def test_a_click_is_recorded_and_leads_to_the_link_of_the_creative(gateway: GatewayClient, url: str) -> None:
    answer = await follow(gateway, url)

    assert (answer.status_code, answer.headers["location"]) == (303, LINK)
    assert answer.headers["cache-control"] == "no-store"
    assert url.startswith("/ads/clicks/")
    (event,) = await profile(gateway, kind="CLICK")
    assert {name: event[name] for name in ("kind", "campaignId", "adUnitId", "siteId", "zoneId")} == {
        "kind": "CLICK",
        "campaignId": "acme:spring",
        "adUnitId": "banner",
        "siteId": "shop.example",
        "zoneId": "front",
    }
    assert len(await profile(gateway, kind="IMPRESSION")) == 1
    assert "ads.clicks" in await assert_typed(gateway.db)
    await assert_invariants(gateway)


async def test_a_click_takes_two_reads_and_one_insert(gateway: GatewayClient, url: str) -> None:
    gateway.commands.clear()

    await follow(gateway, url)

    assert sorted(gateway.commands.names()) == ["find ads.creatives", "find ads.zones", "insert ads.clicks"]


async def test_a_link_that_is_followed_many_times_at_once_on_two_gateways_records_one_click(
    gateway: GatewayClient, other: GatewayClient, url: str
) -> None:
    answers = await asyncio.gather(*(follow(one, url) for one in 10 * [gateway, other]))

    assert {(one.status_code, one.headers["location"]) for one in answers} == {(303, LINK)}
    assert await clicks(gateway) == 1
    assert len(await profile(gateway, kind="CLICK")) == 1


async def test_each_impression_has_a_link_of_its_own(gateway: GatewayClient, url: str) -> None:
    other = await click_url(gateway)

    for one in (url, other, url):
        await follow(gateway, one)

    assert await clicks(gateway) == 2


async def test_a_repeated_call_gets_the_same_link(gateway: GatewayClient) -> None:
    await place(gateway, ad(dailyCap=99))
    await set_creative(gateway)
    given = keyed(**view())

    first, again = [await served_page(gateway, given) for _ in range(2)]

    assert again == first


async def test_a_call_that_is_repeated_after_a_crash_gets_links_that_record_one_click(gateway: GatewayClient) -> None:
    await place(gateway, ad(dailyCap=99, totalCap=9))
    await set_creative(gateway)
    for stop in range(1, 8):
        user = f"user {stop}"
        given = keyed(**view(user))
        with crashing(gateway, stop):
            crashed = await gateway.ask(PAGE, {"input": given}, token=None)
        gateway.clock.advance(seconds=40)
        pages = [await served_page(gateway, given) for _ in range(2)]

        urls = [one["clickUrl"] for page in pages for one in page]
        if "errors" not in crashed.body:
            urls += [one["clickUrl"] for one in crashed.data["serveAds"]["ads"]]
        before = await clicks(gateway)
        for one in urls:
            assert (await follow(gateway, one)).status_code == 303
        assert await clicks(gateway) == before + 1, stop


@pytest.mark.parametrize("stop", [0, 1])
async def test_a_click_whose_gateway_crashes_is_recorded_once(gateway: GatewayClient, url: str, stop: int) -> None:
    with crashing(gateway, stop), suppress(Crash):
        await follow(gateway, url)
    assert await clicks(gateway) == stop

    again = await follow(gateway, url)

    assert again.status_code == 303
    assert await clicks(gateway) == 1


async def test_a_click_without_a_user_is_recorded(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    await set_creative(gateway)

    await follow(gateway, await click_url(gateway, view(None)))

    stored = await gateway.stored("ads.clicks")
    assert "profile" not in stored
    assert await profile(gateway) is None


async def test_a_link_that_has_expired_leads_on_and_records_nothing(gateway: GatewayClient, url: str) -> None:
    gateway.clock.advance(seconds=timedelta(hours=24).total_seconds())

    answer = await follow(gateway, url)

    assert (answer.status_code, answer.headers["location"]) == (303, LINK)
    assert await clicks(gateway) == 0


def _changed(url: str, at: int) -> str:
    return url[:at] + ("A" if url[at] != "A" else "B") + url[at + 1 :]


FORGED: dict[str, Callable[[str], str]] = {
    "another ad": lambda url: _changed(url, len("/ads/clicks/") + 4),
    "another nonce": lambda url: _changed(url, len("/ads/clicks/") + 62),
    "another user": lambda url: _changed(url, len("/ads/clicks/") + 80),
    "another signature": lambda url: _changed(url, len(url) - 4),
    "another last character": lambda url: _changed(url, len(url) - 1),
    "cut": lambda url: url[:-8],
    "longer": lambda url: url + "AAAA",
    "padded": lambda url: url + "=",
    "nothing like it": lambda _url: "/ads/clicks/https:%2F%2Fevil.example",
    "not ASCII": lambda _url: "/ads/clicks/%C3%A9",
    "very long": lambda _url: "/ads/clicks/" + 4_000 * "A",
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
async def test_a_link_that_the_server_has_not_signed_leads_nowhere(
    gateway: GatewayClient, url: str, forge: Callable[[str], str]
) -> None:
    answer = await follow(gateway, forge(url) + "?link=https://evil.example")

    assert answer.status_code == 404
    assert "location" not in answer.headers
    assert await clicks(gateway) == 0


async def test_a_link_of_another_deployment_leads_nowhere(gateway: GatewayClient, url: str) -> None:
    links = gateway.state.resources.of(ClickLinks)
    text = url.rpartition("/")[2]

    assert links.read(text) is not None
    assert ClickLinks("another secret of another deployment", links.lasts).read(text) is None
    assert "robin" not in text


async def test_a_signed_link_says_what_it_was_made_from(gateway: GatewayClient, url: str) -> None:
    links = gateway.state.resources.of(ClickLinks)
    link = links.read(url.rpartition("/")[2])
    assert link is not None

    for one in (link, replace(link, profile=None)):
        assert links.read(links.sign(one)) == one


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("HEAD", {}, 303),
        ("POST", {}, 405),
        ("GET", {"Sec-Purpose": "prefetch;prerender"}, 503),
        ("GET", {"Purpose": "prefetch"}, 503),
    ],
)
async def test_what_is_no_click_records_nothing(
    gateway: GatewayClient, url: str, method: str, headers: dict[str, str], status: int
) -> None:
    answer = await follow(gateway, url, method, **headers)

    assert answer.status_code == status
    assert await clicks(gateway) == 0


async def test_the_link_leads_where_the_creative_leads_now(gateway: GatewayClient, url: str) -> None:
    await set_creative(gateway, creative(link="http://acme.example/summer"))
    assert (await follow(gateway, url)).headers["location"] == "http://acme.example/summer"

    await deactivate(gateway)
    assert (await follow(gateway, url)).headers["location"] == "http://acme.example/summer"


async def test_an_ad_without_a_creative_leads_nowhere(gateway: GatewayClient) -> None:
    await place(gateway, ad())

    answer = await follow(gateway, await click_url(gateway))

    assert answer.status_code == 404


async def test_clicks_are_forgotten_with_the_events(gateway: GatewayClient, url: str) -> None:
    await follow(gateway, url)
    await gateway.run_jobs("forget-ad-events", seconds=timedelta(days=29).total_seconds())
    assert await clicks(gateway) == 1

    await gateway.run_jobs("forget-ad-events", seconds=timedelta(days=1).total_seconds())

    assert await clicks(gateway) == 0
    assert (await follow(gateway, url)).status_code == 303
    assert await clicks(gateway) == 0


async def test_a_read_only_gateway_leads_on_and_records_nothing(gateway: GatewayClient, url: str) -> None:
    settings: Settings = replace(gateway.settings, read_only=True)
    async with running(settings) as reader:
        answer = await follow(reader, url)

    assert (answer.status_code, answer.headers["location"]) == (303, LINK)
    assert await clicks(gateway) == 0
