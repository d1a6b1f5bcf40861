"""Imported campaigns, ads and past events."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.dataset import shared_folder
from portico.gateway.imports.runs import BadRecord, Import
from tests.ads.support.ads import ad, deactivate, place, units, zone_of
from tests.ads.support.creatives import banner, follow, served_page
from tests.ads.support.serving import counts, profile, record, seen, serve, shown, view
from tests.support import real_data
from tests.support.domains import IMPORTERS
from tests.support.harness import GatewayClient, SettableClock, assert_invariants

Line = dict[str, Any]
BANNER: Line = {"siteId": "shop.example", "zoneId": "front", "adUnitId": "banner", "ecpm": 100}
SPRING: Line = {"campaignId": "acme:spring", "ads": [BANNER, {**BANNER, "adUnitId": "box", "keywords": ["Jazz"]}]}
PLACED: Line = {**BANNER, "campaignId": "acme:spring", "keywords": ["Jazz"], "dailyCap": 2, "totalCap": 3}
CLICKED: Line = {
    "userId": "robin",
    "kind": "CLICK",
    "at": "2020-01-02T03:04:05Z",
    "campaignId": "acme:spring",
    "adUnitId": "banner",
    "siteId": "shop.example",
    "zoneId": "front",
}


@pytest.fixture
def imported(gateway: GatewayClient, clock: SettableClock, tmp_path: Path) -> Any:
    """A function that imports lines, and returns the counts, and the reasons of bad records by line."""

    async def run(subject: str, *lines: Line, **options: Any) -> tuple[dict[str, int], dict[int, str]]:
        bad: list[BadRecord] = []
        importer = IMPORTERS[subject].configured(options)
        work = Import(gateway.db, importer, clock, bad.append, lambda _: None, gateway.state.resources)
        done = await work.run([real_data.write(tmp_path / "rows.jsonl", list(lines))])
        return dict(done.counts), {one.line: one.reason for one in bad}

    return run


async def test_a_campaign_is_imported_with_its_ads(gateway: GatewayClient, imported: Any) -> None:
    first, again = await imported("campaigns", SPRING), await imported("campaigns", SPRING)

    assert (first, again) == (({"created": 1}, {}), ({"unchanged": 1}, {}))
    zone = await zone_of(gateway)
    assert [(one["campaignId"], one["adUnitId"], one["ecpm"], one["keywords"]) for one in zone["ads"]] == [
        ("acme:spring", "banner", 100, []),
        ("acme:spring", "box", 100, ["Jazz"]),
    ]


SHOWN: Line = {"text": "Spring is here.", "link": "https://acme.example/spring", "image": "spring.png"}


async def test_an_ad_is_imported_with_what_it_shows(gateway: GatewayClient, imported: Any, tmp_path: Path) -> None:
    (tmp_path / "spring.png").write_bytes(banner())
    campaign = {"campaignId": "acme:spring", "ads": [{**BANNER, "creative": SHOWN}]}

    outcomes = [await imported("campaigns", campaign) for _ in range(2)]
    (first,) = await served_page(gateway)
    (tmp_path / "spring.png").write_bytes(banner(color="red"))
    outcomes.append(
        await imported(
            "ads", {**BANNER, "campaignId": "acme:spring", "creative": {**SHOWN, "size": {"width": 9, "height": 3}}}
        )
    )
    outcomes.append(await imported("ads", {**BANNER, "campaignId": "acme:spring"}))
    (second,) = await served_page(gateway, view("kim"))

    assert [counts for counts, _ in outcomes] == [{"created": 1}, {"unchanged": 1}, {"changed": 1}, {"unchanged": 1}]
    assert (first["creative"]["text"], first["creative"]["size"]["width"]) == ("Spring is here.", 60)
    assert second["creative"]["size"] == {"width": 9, "height": 3}
    assert second["creative"]["imageUrl"] != first["creative"]["imageUrl"]
    assert (await follow(gateway, second["creative"]["imageUrl"])).content == banner(color="red")
    await assert_invariants(gateway)


async def test_an_ad_whose_creative_cannot_be_shown_is_not_imported(
    gateway: GatewayClient, imported: Any, tmp_path: Path
) -> None:
    (tmp_path / "text.png").write_text("no picture")
    shown = [
        {**SHOWN, "link": "javascript:alert(1)"},
        {**SHOWN, "image": "missing.png"},
        {**SHOWN, "image": "../secret.png"},
        {**SHOWN, "other": 1},
        {**SHOWN, "size": {"width": 9}},
        {**SHOWN, "image": "text.png"},
    ]
    lines = [
        {**BANNER, "campaignId": "acme:spring", "adUnitId": str(number), "creative": one}
        for number, one in enumerate(shown)
    ]

    counts, reasons = await imported("ads", *lines)

    assert counts == {"failed": len(lines)}
    assert [reasons[line].partition(":")[0] for line in range(1, 6)] == [
        "creative.link",
        "file",
        "file",
        "creative.other",
        "creative.size",
    ]
    assert "must have one of these types" in reasons[6]
    assert await gateway.db["ads.creatives"].count_documents({}) == 0


async def test_a_later_import_changes_the_ads_that_differ(gateway: GatewayClient, imported: Any) -> None:
    await imported("ads", PLACED, {**PLACED, "adUnitId": "box"})

    again = await imported("ads", PLACED, {**PLACED, "adUnitId": "box", "ecpm": 300})

    assert again == ({"unchanged": 1, "changed": 1}, {})
    assert units((await zone_of(gateway))["ads"]) == ["box", "banner"]


async def test_imported_ads_have_the_caps_of_the_record(gateway: GatewayClient, imported: Any) -> None:
    await imported("ads", PLACED)

    served = [await shown(gateway, view(user)) for user in ("robin", "robin", "robin", "ada", "ada")]

    assert served == [["banner"], ["banner"], [], ["banner"], []]


async def test_repeating_an_import_does_not_reset_what_was_counted(gateway: GatewayClient, imported: Any) -> None:
    await imported("ads", {**PLACED, "totalCap": 1})
    await serve(gateway, view("ada"))

    again = [await imported("ads", {**PLACED, "totalCap": 1, "ecpm": ecpm}) for ecpm in (100, 200)]

    assert again == [({"unchanged": 1}, {}), ({"changed": 1}, {})]
    assert await shown(gateway, view("robin")) == []


async def test_a_campaign_that_is_not_active_is_deactivated_for_good(gateway: GatewayClient, imported: Any) -> None:
    await imported("campaigns", SPRING)
    ended = {"campaignId": "acme:spring", "isActive": False}

    runs = [await imported("campaigns", ended) for _ in range(2)]
    refused = await imported("ads", PLACED)
    new = await imported("campaigns", {"campaignId": "acme:autumn", "isActive": False})

    assert runs == [({"changed": 1}, {}), ({"unchanged": 1}, {})]
    assert refused[1][1].startswith("campaignId: The campaign is deactivated")
    assert new == ({"created": 1}, {})
    assert (await zone_of(gateway))["ads"] == []
    assert (await deactivate(gateway))["zones"] == 1


async def test_bad_campaigns_and_ads_are_named_by_line_and_the_others_are_stored(
    gateway: GatewayClient, imported: Any
) -> None:
    bad_ads: list[tuple[Line, str]] = [
        ({**PLACED, "campaignId": "acme"}, "campaignId: "),
        ({**PLACED, "ecpm": -1}, "ecpm: "),
        ({**PLACED, "ecpm": 1.5}, "ecpm: must be a whole number"),
        ({**PLACED, "dailyCap": 0}, "dailyCap: "),
        ({**PLACED, "totalCap": -1}, "totalCap: "),
        ({**PLACED, "keywords": "Jazz"}, "keywords: must be a list"),
        ({**PLACED, "keywords": ["x" * 101]}, "keywords.0: "),
        (
            {**PLACED, "keywords": ["x" * 98 + str(one) for one in range(10, 31)]},
            "keywords: The keywords have 2,100 bytes",
        ),
        ({**PLACED, "zoneId": ""}, "zoneId: "),
        ({**PLACED, "price": 3}, "price: unknown field"),
        ({"coupon_upc": 1, "campaign_ids": []}, "campaign_ids: must not be empty"),
        ({"coupon_upc": True, "campaign_ids": [1]}, "coupon_upc: "),
    ]
    bad_campaigns: list[tuple[Line, str]] = [
        ({"campaignId": "acme:"}, "campaignId: "),
        ({"campaignId": "acme:x", "isActive": "no"}, "isActive: must be true or false"),
        ({**SPRING, "isActive": False}, "ads: must be empty if the campaign is not active"),
        ({"campaignId": "acme:x", "ads": [BANNER, {**BANNER, "ecpm": None}]}, "ads.1.ecpm: is missing"),
        ({"campaignId": "acme:x", "ads": [{**BANNER, "campaignId": "acme:x"}]}, "ads.0.campaignId: unknown field"),
        ({"campaign_id": 1}, "coupons: must be a list"),
    ]

    for subject, bad, good in (("ads", bad_ads, PLACED), ("campaigns", bad_campaigns, {"campaignId": "acme:good"})):
        counted, reasons = await imported(subject, *(line for line, _ in bad), good)

        assert counted == {"created": 1, "failed": len(bad)}, subject
        for number, (_, reason) in enumerate(bad, start=1):
            assert reasons[number].startswith(reason), reasons[number]
    assert units((await zone_of(gateway))["ads"]) == ["banner"]


async def test_a_full_zone_refuses_more_ads_and_the_import_goes_on(gateway: GatewayClient, imported: Any) -> None:
    many = [{**PLACED, "adUnitId": f"unit {number}"} for number in range(3)]
    await place(gateway, ad())
    await gateway.db["ads.zones"].update_one(
        {}, [{"$set": {"ads": {"$map": {"input": {"$range": [0, 999]}, "in": {"$first": "$ads"}}}}}]
    )

    counted, reasons = await imported("ads", *many, {**PLACED, "zoneId": "other"})

    assert counted == {"created": 2, "failed": 2}
    assert reasons == dict.fromkeys((2, 3), "zoneId: The zone has 1,000 ads, which is the most.")


async def test_past_events_are_in_the_profile_once_and_in_order(gateway: GatewayClient, imported: Any) -> None:
    await place(gateway, ad())
    await record(gateway, seen("CLICK"))
    lines = [{**CLICKED, "at": f"2020-01-0{day}"} for day in (3, 1, 2)]

    runs = [await imported("ad-events", *lines) for _ in range(2)]

    assert runs == [({"created": 3}, {}), ({"unchanged": 3}, {})]
    events = await profile(gateway, kind="CLICK")
    assert [one["at"][:10] for one in events][1:] == ["2020-01-03", "2020-01-02", "2020-01-01"]
    assert events[1] == {**events[0], "at": "2020-01-03T00:00:00.000Z"}
    await assert_invariants(gateway)


async def test_past_impressions_count_for_no_cap(gateway: GatewayClient, clock: SettableClock, imported: Any) -> None:
    await place(gateway, ad(dailyCap=1, totalCap=1))
    yesterday = clock.now() - timedelta(days=1)

    await imported("ad-events", {**CLICKED, "kind": "IMPRESSION", "at": f"{yesterday:%Y-%m-%d}"})

    assert await counts(gateway) == {}
    assert await shown(gateway) == ["banner"]
    assert len(await profile(gateway)) == 2
    await assert_invariants(gateway)


async def test_an_import_after_midnight_begins_the_new_day_of_a_profile(gateway: GatewayClient, imported: Any) -> None:
    await place(gateway, ad(dailyCap=2))
    await serve(gateway)
    then = gateway.clock.now().isoformat() + "Z"
    gateway.clock.advance(seconds=86_400)

    await imported("ad-events", {**CLICKED, "kind": "IMPRESSION", "at": then, "adUnitId": "other"})

    assert await counts(gateway) == {}
    assert [await shown(gateway) for _ in range(3)] == [["banner"], ["banner"], []]
    await assert_invariants(gateway)


async def test_bad_events_are_named_by_line_and_the_others_are_stored(gateway: GatewayClient, imported: Any) -> None:
    await place(gateway, ad())
    now = gateway.clock.now()
    bad: list[tuple[Line, str]] = [
        ({**CLICKED, "kind": "VIEW"}, "kind: must be CLICK or IMPRESSION"),
        ({**CLICKED, "userId": ""}, "userId: must not be empty"),
        ({**CLICKED, "campaignId": "acme:other"}, "campaignId: There is no such campaign."),
        ({**CLICKED, "at": "yesterday"}, "at: "),
        ({**CLICKED, "at": "2999-01-01"}, "at: must not be in the future"),
        ({**CLICKED, "kind": "IMPRESSION", "at": f"{now:%Y-%m-%d}"}, "at: must be before today (UTC)"),
        ({**CLICKED, "note": ""}, "note: unknown field"),
        ({"household_id": 1, "coupon_upc": 2, "campaign_id": 3}, "redemption_date: is missing"),
    ]

    counted, reasons = await imported("ad-events", *(line for line, _ in bad), CLICKED)

    assert counted == {"created": 1, "failed": len(bad)}
    for number, (_, reason) in enumerate(bad, start=1):
        assert reasons[number].startswith(reason), reasons[number]


async def test_a_profile_keeps_the_latest_200_events_of_an_import(gateway: GatewayClient, imported: Any) -> None:
    await place(gateway, ad())
    lines = [{**CLICKED, "at": f"2020-01-02T00:{number // 60:02}:{number % 60:02}Z"} for number in range(230)]

    await imported("ad-events", *lines)
    again = await imported("ad-events", *lines)

    assert again == ({"unchanged": 230}, {})
    events = await profile(gateway, kind="CLICK", last=200)
    assert (len(events), events[0]["at"], events[-1]["at"]) == (
        200,
        "2020-01-02T00:03:49.000Z",
        "2020-01-02T00:00:30.000Z",
    )
    await assert_invariants(gateway)


async def test_imported_events_are_forgotten_like_others(gateway: GatewayClient, imported: Any) -> None:
    await place(gateway, ad())
    await imported("ad-events", CLICKED)
    await gateway.run_jobs("forget-ad-events", seconds=86_400)

    assert await profile(gateway, kind="CLICK") is None


COUPON: Line = {"coupon_upc": 51, "campaign_ids": [1, 2], "product_count": 3, "products": [7, 8, 9]}
PRODUCTS: list[Line] = [
    {"product_id": 7, "department": "DELI", "product_category": "CHEESE", "product_type": "CHEDDAR", "brand": "x"},
    {"product_id": 8, "department": "DELI", "product_category": "CHEESE", "product_type": "GOUDA"},
]


async def test_a_coupon_is_an_ad_with_the_words_of_its_products_as_keywords(
    gateway: GatewayClient, imported: Any, tmp_path: Path
) -> None:
    file = real_data.write(tmp_path / "products.jsonl", PRODUCTS)

    done = await imported("ads", COUPON, {**COUPON, "coupon_upc": 52, "products": []}, products=str(file), ecpm=50)

    assert done == ({"created": 2}, {})
    text = 'query ($zone: String!) { adZone(siteId: "grocery", zoneId: $zone) { ads { campaignId ecpm keywords } } }'
    found = [(await gateway.data(text, {"zone": zone}))["adZone"]["ads"] for zone in ("DELI", "coupons")]
    words = ["CHEESE", "CHEDDAR", "GOUDA"]
    assert found[0] == [{"campaignId": f"grocer:{one}", "ecpm": 50, "keywords": words} for one in (1, 2)]
    assert found[1] == [{"campaignId": f"grocer:{one}", "ecpm": 50, "keywords": []} for one in (1, 2)]


async def test_a_coupon_has_the_words_of_most_products_that_fit_in_an_ad(
    gateway: GatewayClient, imported: Any, tmp_path: Path
) -> None:
    types = ["\ufdfa" * 6, *(f"{number:02}" + "x" * 98 for number in range(25))]
    products = [{**PRODUCTS[0], "product_id": number, "product_type": word} for number, word in enumerate(types)]
    file = real_data.write(tmp_path / "products.jsonl", products)

    done = await imported("ads", {**COUPON, "products": list(range(len(types)))}, products=str(file))

    assert done == ({"created": 1}, {})
    text = '{ adZone(siteId: "grocery", zoneId: "DELI") { ads { keywords } } }'
    found = (await gateway.data(text))["adZone"]["ads"]
    assert found == [{"keywords": ["CHEESE", *types[1:20]]}] * 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"{", ":1: not JSON"), (b'{"product_id": 1}', ":1: product_category: is missing"), (None, ": No such file")],
)
def test_a_bad_list_of_products_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    file = tmp_path / "products.jsonl"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ValueError, match=reason):
        IMPORTERS["ads"].configured({"products": str(file)})


async def test_a_grocers_campaigns_coupons_and_redemptions_are_imported_completely(
    gateway: GatewayClient, imported: Any
) -> None:
    """A run imports a third of the coupons and of the redemptions, and a soak imports all of them."""
    campaigns, every = real_data.rows("campaigns"), [real_data.rows(name) for name in ("coupons", "coupon_redemptions")]
    coupons, redemptions = (real_data.some(rows, 3) for rows in every)
    products = {row["product_id"]: row for row in real_data.rows("grocery_products")}
    listed = str(shared_folder() / "grocery_products.jsonl")

    assert [len(rows) for rows in every] == [981, 2102]
    for done in ("created", "unchanged"):
        assert await imported("campaigns", *campaigns) == ({done: 27}, {})
        assert await imported("ads", *coupons, products=listed) == ({done: len(coupons)}, {})
        assert await imported("ad-events", *redemptions) == ({done: len(redemptions)}, {})

    expected: Counter[str] = Counter()
    for coupon in coupons:
        departments = {products[one]["department"] for one in coupon["products"]} or {"coupons"}
        expected.update({zone: len(coupon["campaign_ids"]) for zone in departments})
    text = 'query ($zone: String!) { adZone(siteId: "grocery", zoneId: $zone) { ads { adUnitId } } }'
    for zone, number in expected.items():
        assert len((await gateway.data(text, {"zone": zone}))["adZone"]["ads"]) == number, zone

    (household, clicks), *_ = Counter(row["household_id"] for row in redemptions).most_common(1)
    events = await profile(gateway, f"household-{household}", kind="CLICK", advertiser="grocer", last=200)
    assert len(events) == clicks
    assert await gateway.db["ads.profiles"].count_documents({}) == len({row["household_id"] for row in redemptions})
    households = {f"household-{row['household_id']}" for row in real_data.rows("households")}
    assert f"household-{household}" in households

    about_beef = {
        str(coupon["coupon_upc"])
        for coupon in coupons
        if any(products[one]["product_category"] == "BEEF" for one in coupon["products"])
    }
    text = 'query { chooseAds(siteId: "grocery", zoneId: "MEAT", keywords: ["beef"]) { ads { adUnitId } } }'
    (chosen,) = (await gateway.data(text))["chooseAds"]["ads"]
    assert chosen["adUnitId"] in about_beef
    await assert_invariants(gateway)
