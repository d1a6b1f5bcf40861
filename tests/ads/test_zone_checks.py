"""The doctor finds damaged zones and campaigns, and mends what has one right state."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ads.support.ads import ad, deactivate, place, problems_of, units, zone_of
from tests.ads.support.serving import serve, units_of, view
from tests.support.harness import GatewayClient, assert_invariants


async def assert_mended(gateway: GatewayClient, text: str) -> None:
    """Asserts that the doctor finds this problem alone, and mends it."""
    (problem,) = await problems_of(gateway)
    assert problem.text.startswith(text)
    assert await problem.mend()
    await assert_invariants(gateway)


DAMAGE: dict[str, tuple[str, dict[str, Any], str]] = {
    "a wrong key": ("ads.zones", {"$set": {"site_id": "another"}}, "its `_id` is not that of its site and zone"),
    "no nonce": ("ads.zones", {"$unset": {"nonce": ""}}, "a field is missing or invalid (KeyError: 'nonce')"),
    "no ads": ("ads.zones", {"$set": {"ads": None}}, "a field is missing or invalid (TypeError: "),
    "a price as text": ("ads.zones", {"$set": {"ads.1.ecpm": "1"}}, "a field is missing or invalid (TypeError: "),
    "a negative price": (
        "ads.zones",
        {"$set": {"ads.1.ecpm": -1}},
        "a field is missing or invalid (ValueError: `ecpm`",
    ),
    "a lost campaign": ("ads.zones", {"$set": {"ads.0.campaign_id": "a:b"}}, "the campaign a:b of its ads is missing"),
    "an ad twice": (
        "ads.zones",
        {"$set": {"ads.1.ad_unit_id": "banner"}},
        "it has the ad banner of acme:spring 2 times",
    ),
    "a wrong state": ("ads.campaigns", {"$set": {"state": "PAUSED"}}, "its state is 'PAUSED'"),
    "a wrong advertiser": ("ads.campaigns", {"$set": {"advertiser": "x"}}, "its advertiser is not the one in its id"),
}


@pytest.mark.parametrize("what", DAMAGE)
async def test_damage_is_reported(gateway: GatewayClient, what: str) -> None:
    await place(gateway, ad(), ad(unit="second"))
    collection, update, text = DAMAGE[what]
    await gateway.db[collection].update_one({}, update)

    found = await problems_of(gateway)

    assert [problem.text for problem in found if problem.text.startswith(text)] != [], found
    assert not any(problem.repair for problem in found)


async def test_ads_in_the_wrong_order_are_sorted(gateway: GatewayClient) -> None:
    await place(gateway, ad(ecpm=5), ad(unit="second", ecpm=4))
    await gateway.db["ads.zones"].update_one({}, {"$set": {"ads.0.ecpm": 1}})

    await assert_mended(gateway, "its ads are not in the order of their prices")

    assert units((await zone_of(gateway))["ads"]) == ["second", "banner"]


@pytest.mark.parametrize(
    ("collection", "change"),
    [
        ("ads.counters", {"$set": {"cap": 1}}),
        ("ads.counters", {"$unset": {"cap": ""}}),
        ("ads.counters", {"$inc": {"cap_version": 1}}),
        ("ads.zones", {"$set": {"ads.0.cap": 9}}),
        ("ads.zones", {"$set": {"ads.0.total_cap": 1}}),
        ("ads.zones", {"$unset": {"ads.0.cap": "", "ads.0.cap_version": ""}}),
    ],
)
async def test_a_wrong_cap_is_worked_out_again(gateway: GatewayClient, collection: str, change: dict[str, Any]) -> None:
    await place(gateway, ad(totalCap=3))
    await place(gateway, ad(), zone="side")
    await assert_invariants(gateway)
    await gateway.db[collection].update_one({}, change)

    await assert_mended(gateway, "the cap of its ad banner is ")


async def test_caps_of_zones_that_an_earlier_version_has_stored_are_worked_out_by_jobs(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=2))
    await place(gateway, ad(), zone="side")
    old = {"schema_version": "", "ads.0.cap": "", "ads.0.cap_version": ""}
    await gateway.db["ads.zones"].update_many({}, {"$unset": old, "$set": {"nonce": -1.0}})
    await gateway.db["ads.counters"].update_many({}, {"$unset": {"cap": "", "cap_version": ""}})
    # The zone with the cap keeps to it meanwhile.
    await assert_invariants(gateway)

    await gateway.run_jobs("upgrade-documents")
    await gateway.run_jobs("settle-ads")

    served = [await serve(gateway, view(f"user-{number}", "side")) for number in range(3)]
    assert units_of(served) == {"banner": 2}
    assert await gateway.db["ads.zones"].count_documents({"ads.capping": {"$exists": True}}) == 0
    await assert_invariants(gateway)


async def test_ads_of_a_deactivated_campaign_are_removed(gateway: GatewayClient) -> None:
    await place(gateway, ad(), ad("other:one"))
    before = await gateway.stored("ads.zones")
    await deactivate(gateway)
    await gateway.db["ads.zones"].update_one({}, {"$set": {"ads": before["ads"]}})

    await assert_mended(gateway, "the campaign acme:spring of its ads is deactivated")

    assert [one["campaignId"] for one in (await zone_of(gateway))["ads"]] == ["other:one"]


async def test_a_deactivation_that_no_job_finds_is_finished(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    await gateway.db["ads.campaigns"].update_one({}, {"$set": {"state": "ENDING"}})

    await assert_mended(gateway, "no job finds that it is being deactivated")

    assert (await deactivate(gateway))["zones"] == 1
    await assert_invariants(gateway)
