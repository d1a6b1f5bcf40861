"""Prices, the ads of a zone and the reasons of a choice are for advertisers and services. Choices are for everybody."""

from __future__ import annotations

from typing import Any

import pytest

from portico.schema.ads.advertisers import ADVERTISER
from portico.schema.roles import Role
from tests.ads.support.ads import CHOOSE, ZONE_OF, ad, keyed, place
from tests.ads.support.serving import SERVE, counted, view
from tests.support.harness import GatewayClient
from tests.support.roles import ROLES

SEES = (ADVERTISER, Role.SERVICE, Role.ADMIN)
OTHERS = [role for role in ROLES if role not in SEES]
NODE = "query ($id: ID!) { node(id: $id) { id ... on AdZone { ads { campaignId } } } nodes(ids: [$id]) { id } }"
PREVIEW = """query ($zone: String! = "front") {
  chooseAds(siteId: "shop.example", zoneId: $zone) { ads { id campaignId adUnitId keywords %s } } }"""
PAGE = "mutation ($input: ServeAdsInput!) { serveAds(input: $input) { ... on ServedAdsPayload { %s } } }"
PRICED = [
    "ads { ... on Ad { price: ecpm } }",
    "rejected { reason }",
    "ads { id } ads { ... @include(if: true) { ecpm } }",
]


def token_of(gateway: GatewayClient, role: Role | None) -> str | None:
    return None if role is None else gateway.token("somebody", [role])


@pytest.mark.parametrize("role", [None, *OTHERS])
async def test_a_zone_does_not_exist_for_others(gateway: GatewayClient, role: Role | None) -> None:
    zone = await place(gateway, ad())
    token = token_of(gateway, role)

    assert (await gateway.data(ZONE_OF, {"zone": "front"}, token=token))["adZone"] is None
    assert await gateway.data(NODE, {"id": zone["id"]}, token=token) == {"node": None, "nodes": [None]}


@pytest.mark.parametrize("role", [None, *OTHERS])
async def test_everybody_gets_a_choice_but_no_price_and_no_reason(gateway: GatewayClient, role: Role | None) -> None:
    await place(gateway, ad(), ad(unit="other", ecpm=1))
    token = token_of(gateway, role)
    code = "UNAUTHENTICATED" if role is None else "FORBIDDEN"

    (chosen,) = (await gateway.data(PREVIEW % "", token=token))["chooseAds"]["ads"]
    priced = await gateway.ask(PREVIEW % "ecpm", {}, token=token)
    explained = await gateway.ask(CHOOSE, {"zone": "front", "why": True}, token=token)

    assert chosen["adUnitId"] == "banner"
    assert (priced.codes, explained.codes) == ([code], [code])
    assert "100" not in str(priced.body)
    assert priced.body["data"] == explained.body["data"] == {"chooseAds": None}


@pytest.mark.parametrize("role", SEES)
async def test_advertisers_and_services_see_prices(gateway: GatewayClient, role: Role) -> None:
    await place(gateway, ad(), ad(unit="other", ecpm=1))
    token = token_of(gateway, role)

    zone = (await gateway.data(ZONE_OF, {"zone": "front"}, token=token))["adZone"]
    choice = (await gateway.data(CHOOSE, {"zone": "front", "why": True}, token=token))["chooseAds"]
    served = (await gateway.data(SERVE, {"input": view(), "why": True}, token=token))["serveAds"]

    assert [one["ecpm"] for one in zone["ads"]] == [100, 1]
    for shown in (choice, served):
        assert [one["ecpm"] for one in shown["ads"]] == [100]
        assert [(one["ad"]["ecpm"], one["reason"]) for one in shown["rejected"]] == [(1, "OUTBID")]


@pytest.mark.parametrize("selected", PRICED)
async def test_a_page_that_asks_for_prices_is_refused_before_anything_is_counted(
    gateway: GatewayClient, selected: str
) -> None:
    await place(gateway, ad(totalCap=3))
    text = PAGE % selected

    anonymous = await gateway.ask(text, {"input": view()}, token=None)
    editor = await gateway.ask(text, {"input": keyed(**view())}, token=token_of(gateway, Role.EDITOR))

    assert (anonymous.codes, editor.codes) == (["UNAUTHENTICATED"], ["FORBIDDEN"])
    assert await counted(gateway) == 0


async def test_a_repeated_call_shows_no_price_that_the_first_one_could_not_see(gateway: GatewayClient) -> None:
    await place(gateway, ad(), ad(unit="other", ecpm=1))
    given, token = keyed(**view()), token_of(gateway, Role.EDITOR)
    first = await gateway.data(PAGE % "ads { adUnitId }", {"input": given}, token=token)

    again = [await gateway.ask(PAGE % selected, {"input": given}, token=token) for selected in PRICED]

    assert first["serveAds"]["ads"] == [{"adUnitId": "banner"}]
    for answer in again:
        codes: list[Any] = answer.codes
        assert codes == ["FORBIDDEN"]
        assert answer.body["data"] == {"serveAds": None}
        assert "100" not in str(answer.body)
