"""The commands of zones, choices and campaigns: their number, their shards and their indexes."""

from __future__ import annotations

from typing import Any

from portico.testing.kits import mutation_text
from tests.ads.kit import KIT
from tests.ads.support.ads import CHOOSE, SITE, ZONE_OF, ad, choose, fill_zone, keyed, place, placement
from tests.ads.support.creatives import banner, creative, send, set_creative
from tests.ads.support.serving import PROFILE
from tests.support.domains import SCHEMA
from tests.support.harness import MUTATIONS, GatewayClient
from tests.support.sending import assert_sends, names, sent

BUDGETS = KIT.budgets
READS: dict[str, tuple[str, dict[str, Any]]] = {
    "an ad zone": (ZONE_OF, {"zone": "front"}),
    "a choice of ads": (CHOOSE, {"zone": "front"}),
    "a choice of ads with their creatives": (
        f'{{ chooseAds(siteId: "{SITE}", zoneId: "front", limit: 9) {{ ads {{ creative {{ text imageUrl }} }} }} }}',
        {},
    ),
    "the events of a user": (PROFILE, {"user": "robin"}),
    "a choice of ads for a user": (CHOOSE, {"zone": "front", "user": "robin", "keywords": ["jazz"], "why": True}),
}
WRITES: dict[str, tuple[str, dict[str, Any]]] = {
    "place a new ad": ("placeAd", placement(ad(unit="second"))),
    "place a new ad with a cap by a key": ("placeAd", keyed(**placement(ad(unit="third", totalCap=5)))),
    "change an ad": ("placeAd", placement(ad(ecpm=7))),
    "set a creative": ("setAdCreative", creative()),
    "deactivate a campaign": ("deactivateCampaign", {"campaignId": "acme:spring"}),
}
# A deactivation finds the zones of its campaign on all shards, and a cap those of its ad.
ASTRAY = {
    "place a new ad with a cap by a key": [
        "aggregate ads.zones ads ads.campaign_id",
        "update ads.zones ads ads.campaign_id",
    ],
    "deactivate a campaign": [
        "update ads.zones ads.campaign_id",
        "find ads.zones ads",
        "update ads.zones ads.campaign_id",
    ],
}


async def test_every_read_sends_the_indexed_commands_of_its_budget_each_to_one_shard(gateway: GatewayClient) -> None:
    await place(gateway, ad(), ad(unit="other", keywords=["jazz"]))
    for name, (text, variables) in READS.items():
        # Nobody knows on which shard the clicks of a user are.
        astray = ["find ads.clicks profile"] if name == "the events of a user" else []
        # The first choice reads the whole zone, later ones its nonce.
        for _ in range(2):
            assert await assert_sends(gateway, gateway.data(text, variables), BUDGETS[name], name) == astray, name


async def test_every_write_sends_the_indexed_commands_of_its_budget(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    for name, (mutation, given) in WRITES.items():
        call = gateway.data(MUTATIONS[mutation], {"input": given})

        assert await assert_sends(gateway, call, BUDGETS[name], name) == ASTRAY.get(name, []), name


async def test_an_image_takes_two_more_commands(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    await set_creative(gateway)

    name = "set a creative with an image"
    assert await assert_sends(gateway, send(gateway, creative(), banner()), BUDGETS[name], name) == []


async def test_a_creative_finds_the_zones_of_its_ad_by_an_index(gateway: GatewayClient) -> None:
    await place(gateway, ad(), ad(unit="other"))
    text = mutation_text(SCHEMA._schema, "setAdCreative", "... on AdCreativePayload { changedZones { id } }")

    expected = sorted([*BUDGETS["set a creative"], "find ads.zones", "find ads.zones"])
    astray = await assert_sends(gateway, gateway.data(text, {"input": creative()}), expected, "setAdCreative")

    assert astray == ["find ads.zones ads ads.campaign_id"]


async def test_choices_of_a_zone_with_a_thousand_ads_send_as_many_commands(gateway: GatewayClient) -> None:
    await place(gateway, ad(keywords=["jazz"]))
    await fill_zone(gateway, ({"ad_unit_id": f"unit-{number:03}", "ecpm": 1000 - number} for number in range(1000)))

    commands = await sent(gateway, choose(gateway, user="robin", keywords=["jazz"], limit=100))
    chosen = await choose(gateway, keywords=["jazz"], limit=100)

    assert names(commands) == BUDGETS["a choice of ads for a user"]
    assert [one["ecpm"] for one in chosen["ads"]] == list(range(1000, 900, -1))
    assert [one["ad"]["ecpm"] for one in chosen["rejected"]] == list(range(900, 0, -1))
