"""Placing ads in zones, changing them there, and deactivating campaigns."""

from __future__ import annotations

from typing import Any

import pytest

from portico.resolvers.ads.ads import ad_key
from portico.schema.roles import Role
from tests.ads.support.ads import ad, choose, deactivate, fill_zone, keyed, place, placement, units, zone_of
from tests.ads.support.creatives import creative
from tests.support.harness import MUTATIONS, GatewayClient, assert_invariants
from tests.support.roles import all_but


async def test_the_first_ad_creates_its_zone(gateway: GatewayClient) -> None:
    assert await zone_of(gateway) is None

    zone = await place(gateway, ad(ecpm=250, keywords=["Garden", "Roses"]))

    assert zone == {
        "id": zone["id"],
        "siteId": "shop.example",
        "zoneId": "front",
        "ads": [{"campaignId": "acme:spring", "adUnitId": "banner", "ecpm": 250, "keywords": ["Garden", "Roses"]}],
    }
    assert await zone_of(gateway) == zone
    assert await gateway.data("query ($id: ID!) { node(id: $id) { id __typename } }", {"id": zone["id"]}) == {
        "node": {"id": zone["id"], "__typename": "AdZone"}
    }


async def test_a_zone_lists_the_dearest_ad_first(gateway: GatewayClient) -> None:
    placed = [
        ad(unit="b", ecpm=5),
        ad("zoo:x", "c", 5),
        ad(unit="a", ecpm=5),
        ad(unit="d", ecpm=9),
        ad(unit="e", ecpm=0),
    ]

    zone = await place(gateway, *placed)

    assert units(zone["ads"]) == ["d", "a", "b", "c", "e"]
    await assert_invariants(gateway)


async def test_an_ad_that_is_placed_again_in_the_zone_is_changed(gateway: GatewayClient) -> None:
    await place(gateway, ad(ecpm=5, keywords=["old"], totalCap=7), ad(unit="other", ecpm=9))

    zone = await place(gateway, ad(ecpm=10, keywords=["new"]))

    assert zone["ads"][0] == {"campaignId": "acme:spring", "adUnitId": "banner", "ecpm": 10, "keywords": ["new"]}
    assert units(zone["ads"]) == ["banner", "other"]


async def test_a_changed_ad_keeps_its_impressions(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=7))
    await gateway.db["ads.zones"].update_one({}, {"$set": {"ads.0.shown": 5}})

    await place(gateway, ad(totalCap=5))

    assert (await choose(gateway))["rejected"][0]["reason"] == "EXHAUSTED"


async def test_an_exhausted_ad_is_exhausted_in_another_zone_at_once(gateway: GatewayClient) -> None:
    await gateway.db["ads.counters"].insert_one({"_id": ad_key("acme:spring", "banner"), "shown": 7, "claims": []})

    await place(gateway, ad(totalCap=7), zone="side")

    assert (await choose(gateway, "side"))["ads"] == []


async def test_keywords_that_differ_in_case_or_width_count_once(gateway: GatewayClient) -> None:
    zone = await place(gateway, ad(keywords=[" Jazz ", "JAZZ", "\uff4a\uff41\uff5a\uff5a", "blues"]))

    assert zone["ads"][0]["keywords"] == ["Jazz", "blues"]


INVALID: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an empty site": (placement(ad(), site=""), ["siteId"]),
    "a zone of 201 characters": (placement(ad(), "x" * 201), ["zoneId"]),
    "a control character": (placement(ad(), "a\x07b"), ["zoneId"]),
    "surrounding blanks": (placement(ad(), " front"), ["zoneId"]),
    "a campaign without advertiser": (placement(ad(":spring")), ["ad", "campaignId"]),
    "a campaign without name": (placement(ad("acme:")), ["ad", "campaignId"]),
    "a campaign without colon": (placement(ad("acme")), ["ad", "campaignId"]),
    "an empty ad unit": (placement(ad(unit="")), ["ad", "adUnitId"]),
    "a negative price": (placement(ad(ecpm=-1)), ["ad", "ecpm"]),
    "no impressions in a day": (placement(ad(dailyCap=0)), ["ad", "dailyCap"]),
    "a negative cap": (placement(ad(totalCap=-1)), ["ad", "totalCap"]),
    "an empty keyword": (placement(ad(keywords=["a", " "])), ["ad", "keywords", "1"]),
    "a keyword of 101 characters": (placement(ad(keywords=["x" * 101])), ["ad", "keywords", "0"]),
    "a keyword that is longer when normalized": (placement(ad(keywords=["a", "\ufdfa" * 6])), ["ad", "keywords", "1"]),
    "keywords of 2,010 bytes": (placement(ad(keywords=[f"{one:0201}"[-67:] for one in range(30)])), ["ad", "keywords"]),
    "keywords of 2,013 bytes when normalized": (
        placement(ad(keywords=["\ufdfa" * 5 + str(one) for one in range(13)])),
        ["ad", "keywords"],
    ),
    "51 keywords": (placement(ad(keywords=[str(number) for number in range(51)])), ["ad", "keywords"]),
}


@pytest.mark.parametrize("what", INVALID)
async def test_an_invalid_ad_is_refused_with_the_field(gateway: GatewayClient, what: str) -> None:
    given, path = INVALID[what]

    result = await gateway.result("placeAd", given)

    assert (result["__typename"], result.get("path")) == ("InvalidInput", path)
    assert await gateway.db["ads.zones"].count_documents({}) == 0


async def test_a_message_names_a_field_below_another_once(gateway: GatewayClient) -> None:
    refused = await gateway.result("placeAd", placement(ad(unit="")))

    assert refused["message"] == "Ad unit id must not be empty."


async def test_the_highest_and_the_lowest_values_are_allowed(gateway: GatewayClient) -> None:
    dear = ad(unit="u" * 200, ecpm=2**31 - 1, dailyCap=2**31 - 1, totalCap=2**53 - 1)

    zone = await place(
        gateway, dear, ad("a:b:c", ecpm=0, totalCap=0, keywords=[f"{number:040}" for number in range(50)])
    )

    assert [one["ecpm"] for one in zone["ads"]] == [2**31 - 1, 0]


async def test_a_zone_takes_a_thousand_ads_and_changes_of_them(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    await fill_zone(gateway, ({"ad_unit_id": f"unit-{number:03}"} for number in range(1_000)))

    changed = await place(gateway, ad(unit="unit-500", ecpm=900))
    refused = await gateway.result("placeAd", placement(ad(unit="one-more")))

    assert (len(changed["ads"]), changed["ads"][0]["adUnitId"]) == (1000, "unit-500")
    assert refused == {
        "__typename": "InvalidInput",
        "message": "The zone has 1,000 ads, which is the most.",
        "path": ["zoneId"],
    }


async def test_a_thousand_ads_at_all_bounds_can_be_placed_read_and_deactivated(gateway: GatewayClient) -> None:
    wide = "\U00020000"
    keywords = [f"{number:02}{wide * 9}ab" for number in range(50)]
    dear = ad(f"a:{wide * 198}", f"000{wide * 197}", 2**31 - 1, dailyCap=2**31 - 1, totalCap=2**53 - 1)
    await place(gateway, {**dear, "keywords": keywords})
    await fill_zone(gateway, ({"ad_unit_id": f"{number:03}{wide * 197}"} for number in range(999)))

    placed = await place(gateway, {**dear, "adUnitId": f"999{wide * 197}", "keywords": keywords})
    size: list[Any] = [{"$project": {"size": {"$bsonSize": "$$ROOT"}}}]
    (stored,) = await (await gateway.db["ads.zones"].aggregate(size)).to_list()
    chosen = await choose(gateway, keywords=keywords[:1])
    ended = await deactivate(gateway, f"a:{wide * 198}")

    assert sum(len(keyword.encode()) for keyword in keywords) == 2_000
    assert (len(placed["ads"]), len(chosen["ads"]), len(chosen["rejected"])) == (1_000, 1, 999)
    assert stored["size"] < 5_000_000
    assert ended == {"__typename": "CampaignPayload", "zones": 1}
    assert (await zone_of(gateway))["ads"] == []
    await assert_invariants(gateway)


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", ["$ads", "$$ROOT", "a.b", "{$gt: 1}", "__proto__", "ads.0.ecpm", "é\u200dx", '"]'])
async def test_hostile_names_are_only_names(gateway: GatewayClient, text: str) -> None:
    placed = ad(f"{text}:{text}", text, 7, keywords=[text])
    await place(gateway, ad(ecpm=3), zone=text)

    await place(gateway, placed, zone=text)
    zone = await place(gateway, {**placed, "ecpm": 8}, zone=text)
    chosen = await choose(gateway, text, keywords=[text, f" {text} "], limit=5)

    assert zone["zoneId"] == text
    assert zone["ads"][0] == {"campaignId": f"{text}:{text}", "adUnitId": text, "ecpm": 8, "keywords": [text]}
    assert units(chosen["ads"]) == [text, "banner"]
    assert (await deactivate(gateway, f"{text}:{text}"))["zones"] == 1
    assert units((await zone_of(gateway, text))["ads"]) == ["banner"]


async def test_a_deactivated_campaign_leaves_all_zones(gateway: GatewayClient) -> None:
    for zone in ("front", "side", "blog"):
        await place(gateway, ad(), ad(unit="second"), ad("other:one", ecpm=1), zone=zone)
    await place(gateway, ad("other:one"), zone="elsewhere")

    result = await deactivate(gateway)

    assert result == {"__typename": "CampaignPayload", "zones": 3}
    for zone in ("front", "side", "blog"):
        assert [one["campaignId"] for one in (await zone_of(gateway, zone))["ads"]] == ["other:one"]
        assert [one["campaignId"] for one in (await choose(gateway, zone, limit=9))["ads"]] == ["other:one"]
    await assert_invariants(gateway)


async def test_deactivating_again_gives_the_same_answer(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    given = keyed(campaignId="acme:spring")
    first = await gateway.result("deactivateCampaign", given)

    again = [await gateway.result("deactivateCampaign", given), await deactivate(gateway)]

    assert again == [first, first] == [{"__typename": "CampaignPayload", "zones": 1}] * 2


async def test_an_unknown_campaign_is_not_found(gateway: GatewayClient) -> None:
    assert (await deactivate(gateway, "acme:unknown"))["__typename"] == "NotFound"


async def test_a_deactivated_campaign_takes_no_ads_any_more(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    await deactivate(gateway)

    result = await gateway.result("placeAd", placement(ad()))

    assert result == {
        "__typename": "InvalidInput",
        "message": "The campaign is deactivated, which is final. Use another campaign id.",
        "path": ["ad", "campaignId"],
    }
    assert (await zone_of(gateway))["ads"] == []


async def test_a_refused_first_ad_leaves_an_empty_zone(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    await deactivate(gateway)

    result = await gateway.result("placeAd", placement(ad(), "new"))

    assert result["__typename"] == "InvalidInput"
    assert (await zone_of(gateway, "new"))["ads"] == []


WRITES = {"placeAd": placement(ad()), "deactivateCampaign": {"campaignId": "acme:spring"}, "setAdCreative": creative()}


@pytest.mark.parametrize("mutation", WRITES)
async def test_only_advertisers_and_admins_write(gateway: GatewayClient, mutation: str) -> None:
    given = WRITES[mutation]
    await place(gateway, ad())
    others = all_but("ADVERTISER")

    refused = await gateway.ask(MUTATIONS[mutation], {"input": given}, token=gateway.token("one", others))
    anonymous = await gateway.ask(MUTATIONS[mutation], {"input": given}, token=None)
    admin = await gateway.ask(MUTATIONS[mutation], {"input": given}, token=gateway.token("one", [Role.ADMIN]))

    assert (refused.codes, anonymous.codes) == (["FORBIDDEN"], ["UNAUTHENTICATED"])
    assert "Payload" in admin.data[mutation]["__typename"]
