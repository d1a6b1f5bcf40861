"""The doctor finds damage to counters and profiles, and nothing else."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.ads import serving_checks
from portico.resolvers.ads.ads import ad_key
from portico.resolvers.documents import Document
from tests.ads.support.ads import ad, keyed, place
from tests.ads.support.serving import counts, record, seen, serve, settle_old_claims, settled, view
from tests.support.harness import GatewayClient, assert_invariants

BANNER = ad_key("acme:spring", "banner")
LONG_AGO = datetime(2020, 1, 1)  # noqa: DTZ001 - as the driver gives it
CLAIM = {"token": ObjectId("0" * 24), "at": LONG_AGO, "profile": "x"}
EVENT = {"kind": "IMPRESSION", "at": LONG_AGO, "campaign_id": "acme:spring", "ad_unit_id": "banner"}


async def _populate(gateway: GatewayClient) -> None:
    await place(gateway, ad(totalCap=5, dailyCap=5))
    for given in (view(), keyed(**view()), keyed(**view(None)), view(None)):
        await serve(gateway, given)
    await record(gateway, seen("CLICK", "sam"))
    await settled(gateway)


COUNTERS: dict[str, tuple[Document, str]] = {
    "an impression above the cap": ({"$set": {"shown": 6}}, "it has 6 impressions and 0 claims, above its cap of 5"),
    "claims above the cap": (
        {"$set": {"claims": [CLAIM | {"token": ObjectId()} for _ in range(2)], "claims_since": LONG_AGO}},
        "it has 4 impressions and 2 claims, above its cap of 5",
    ),
    "a negative number": ({"$set": {"shown": -1}}, "it has -1 impressions"),
    "another ad": ({"$set": {"ad_unit_id": "other"}}, "its `_id` is not that of its ad"),
    "a claim that no job finds": (
        {"$set": {"claims": [CLAIM]}, "$unset": {"claims_since": ""}},
        "it has a claim that no job finds",
    ),
    "a claim twice": (
        {"$set": {"claims": [CLAIM, CLAIM], "claims_since": LONG_AGO, "shown": 0}},
        "it has a claim twice",
    ),
    "a text": ({"$set": {"claims": "many"}}, "a field is missing or invalid"),
}


@pytest.mark.parametrize("name", COUNTERS)
async def test_damage_to_a_counter_is_found(gateway: GatewayClient, name: str) -> None:
    await _populate(gateway)
    await assert_invariants(gateway)
    change, problem = COUNTERS[name]

    await gateway.db["ads.counters"].update_one({"_id": BANNER}, change)

    found = [wrong async for wrong in serving_checks.find_wrong_counters(gateway.db)]
    assert [wrong.subject for wrong in found] == [f"ad counter {BANNER}"]
    assert found[0].text.startswith(problem)


PROFILES: dict[str, tuple[Document, str]] = {
    "a count that is too low": ({"$set": {f"shown.{BANNER}": 1}}, "it counts fewer impressions than it has recorded"),
    "a count of zero": ({"$set": {f"shown.{'0' * 24}": 0}}, "it counts an ad less than once"),
    "too many ads": (
        {"$set": {f"shown.{number:024x}": 1 for number in range(2_000)}},
        "it counts 2,001 ads, more than 2,000",
    ),
    "too many events": (
        {"$push": {"events": {"$each": [EVENT] * 251}}, "$set": {"events_since": LONG_AGO}},
        "it has 253 events, more than 250",
    ),
    "an event that no job forgets": ({"$push": {"events": EVENT}}, "it has an event that no job forgets"),
    "no time": ({"$unset": {"events_since": ""}}, "no job forgets it"),
    "a day that begins at noon": ({"$set": {"day": LONG_AGO + timedelta(hours=12)}}, "its day begins at 12:00"),
    "no fence": ({"$unset": {"fence": ""}}, "a field is missing or invalid"),
    "a call twice": (
        {"$push": {"serves": {"$each": [{"op": "k-1", "token": ObjectId(), "ads": []} for _ in range(2)]}}},
        "it has a call twice",
    ),
}


@pytest.mark.parametrize("name", PROFILES)
async def test_damage_to_a_profile_is_found(gateway: GatewayClient, name: str) -> None:
    await _populate(gateway)
    change, problem = PROFILES[name]
    key = {f"shown.{BANNER}": 2}

    assert (await gateway.db["ads.profiles"].update_one(key, change)).matched_count == 1

    found = [wrong.text async for wrong in serving_checks.find_wrong_profiles(gateway.db)]
    assert [text for text in found if text.startswith(problem)], found
    assert len({wrong.subject async for wrong in serving_checks.find_wrong_profiles(gateway.db)}) == 1


async def test_a_damaged_counter_does_not_keep_the_job_from_others(gateway: GatewayClient) -> None:
    await _populate(gateway)
    stale: dict[str, Any] = {"claims_since": LONG_AGO, "shown": 0}
    await gateway.db["ads.counters"].insert_one({"_id": "0", **stale, "claims": [{"at": LONG_AGO}]})
    await gateway.db["ads.counters"].insert_one(
        {"_id": ad_key("a:b", "c"), **stale, "claims": [CLAIM], "campaign_id": "a:b", "ad_unit_id": "c"}
    )

    with pytest.raises(ExceptionGroup) as failed:
        await settle_old_claims(gateway)

    assert failed.value.subgroup(KeyError) is not None
    found = await gateway.stored("ads.counters", {"_id": ad_key("a:b", "c")})
    assert (found["claims"], found["shown"]) == ([], 0)
    assert await counts(gateway) == {BANNER: 2}
