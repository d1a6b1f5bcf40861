"""Creatives: what an ad shows, set by advertisers, served with the ad, and stored with its image."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest

from portico.resolvers.ads.ads import ad_key
from tests.ads.support.ads import Given, ad, deactivate, keyed, place, problems_of
from tests.ads.support.creatives import LINK, banner, creative, follow, send, served_page, set_creative
from tests.ads.support.serving import view
from tests.support.harness import GatewayClient, assert_invariants

NO_LINK = "The URL must begin with http:// or https://, and must have a host and no blanks."
ZONE = """{ adZone(siteId: "shop.example", zoneId: "front") {
  ads { adUnitId clickUrl creative { id text imageUrl } } } }"""


async def refused(gateway: GatewayClient, image: bytes | None = None, **fields: Any) -> Any:
    return (await send(gateway, creative(**fields), image)).data["setAdCreative"]


async def images(gateway: GatewayClient) -> set[str]:
    return {one["_id"] async for one in gateway.db["ads.images"].find({}, {"_id": 1})}


async def test_an_ad_is_served_with_its_creative(gateway: GatewayClient) -> None:
    await place(gateway, ad(), ad(unit="plain", ecpm=1))
    stored = await set_creative(gateway, image=banner())

    with_it, without = await served_page(gateway, view(limit=2))

    assert with_it["creative"] == stored
    assert without["creative"] is None
    assert (stored["text"], stored["link"]) == ("Spring is here.", LINK)
    assert stored["size"] == {"width": 60, "height": 20}
    assert with_it["id"] != without["id"]
    await assert_invariants(gateway)


async def test_all_zones_show_the_creative_of_an_ad_and_one_command_reads_those_of_many(gateway: GatewayClient) -> None:
    units = [f"unit-{number}" for number in range(8)]
    for unit in units:
        await place(gateway, ad(unit=unit))
        await set_creative(gateway, creative(unit=unit, text=unit))
    await place(gateway, ad(unit="unit-3"), zone="side")
    gateway.commands.clear()

    zone = (await gateway.data(ZONE))["adZone"]
    sent = gateway.commands.names()
    (elsewhere,) = await served_page(gateway, view(zone="side"))

    assert {one["adUnitId"]: one["creative"]["text"] for one in zone["ads"]} == {unit: unit for unit in units}
    assert {one["clickUrl"] for one in zone["ads"]} == {None}
    assert sent == ["find ads.zones", "find ads.creatives"]
    assert elsewhere["creative"]["text"] == "unit-3"


async def test_the_image_is_served_by_its_bytes_for_ever(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    data = banner()
    url = (await set_creative(gateway, image=data))["imageUrl"]

    whole = await follow(gateway, url)
    head = await follow(gateway, url, "HEAD")
    again = await follow(gateway, url, **{"If-None-Match": whole.headers["etag"]})

    assert url == f"/ads/images/{hashlib.sha256(data).hexdigest()}.png"
    assert (whole.status_code, whole.content) == (200, data)
    assert whole.headers["content-type"] == "image/png"
    assert whole.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in whole.headers["content-security-policy"]
    assert (head.content, head.headers["content-length"]) == (b"", str(len(data)))
    assert (again.status_code, again.content) == (304, b"")
    for path in (url.replace(".png", ".gif"), "/ads/images/none.png", url.replace("images/", "images/0")):
        assert (await follow(gateway, path)).status_code == 404
    assert (await follow(gateway, url, "POST")).status_code == 405


async def test_left_out_an_image_stays_and_null_removes_it(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    first = await set_creative(gateway, image=banner())

    kept = await set_creative(gateway, creative(text="Changed."))
    removed = await set_creative(gateway, creative(image=None))

    assert (kept["text"], kept["imageUrl"], kept["size"]) == ("Changed.", first["imageUrl"], first["size"])
    assert (removed["imageUrl"], removed["size"]) == (None, None)


async def test_the_advertiser_can_give_another_size(gateway: GatewayClient) -> None:
    await place(gateway, ad())

    found = await set_creative(gateway, creative(size={"width": 300, "height": 250}), banner())

    assert found["size"] == {"width": 300, "height": 250}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"link": "javascript:alert(1)"}, ["link"]),
        ({"link": "//acme.example/x"}, ["link"]),
        ({"link": "/cart"}, ["link"]),
        ({"link": "ftp://acme.example"}, ["link"]),
        ({"link": "https:///nowhere"}, ["link"]),
        ({"link": "https://acme.example/a b"}, ["link"]),
        ({"link": "https://acme.example/\r\nSet-Cookie: a=b"}, ["link"]),
        ({"link": "https://acme.example/" + 2_000 * "x"}, ["link"]),
        ({"text": " "}, ["text"]),
        ({"text": 501 * "x"}, ["text"]),
        ({"size": {"width": 0, "height": 1}}, ["size", "width"]),
        ({"size": {"width": 1, "height": 10_001}}, ["size", "height"]),
        ({"unit": "", "text": "x"}, ["adUnitId"]),
        ({"campaign": "acme"}, ["campaignId"]),
        ({"campaign": "no:such"}, ["campaignId"]),
    ],
)
async def test_invalid_values_are_refused(gateway: GatewayClient, fields: Given, path: list[str]) -> None:
    await place(gateway, ad())

    result = await refused(gateway, **fields)

    assert (result["__typename"], result["path"]) == ("InvalidInput", path)
    assert await gateway.db["ads.creatives"].count_documents({}) == 0


async def test_a_creative_of_a_deactivated_campaign_is_refused(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    await deactivate(gateway)

    assert (await refused(gateway))["path"] == ["campaignId"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no picture",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        banner()[:-20],
        banner(5_000, 1),
        1_000_001 * b"x",
    ],
    ids=["nothing", "text", "SVG", "cut", "long", "large"],
)
async def test_a_file_that_is_no_picture_is_refused_and_leaves_nothing(gateway: GatewayClient, data: bytes) -> None:
    await place(gateway, ad())

    assert (await refused(gateway, data))["__typename"] == "UnacceptableFile"
    assert await images(gateway) == set()


async def test_a_repeated_upload_has_one_effect_and_another_file_is_refused(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    given = keyed(**creative())

    first = await send(gateway, given, banner())
    await set_creative(gateway, creative(text="Later."))
    again = await send(gateway, given, banner())
    other = await send(gateway, given, banner(color="red"))

    assert first.data["setAdCreative"]["creative"]["text"] == "Spring is here."
    assert again.data["setAdCreative"]["creative"]["text"] == "Later."
    assert other.codes == ["IDEMPOTENCY_KEY_REUSED"]


async def test_an_image_that_no_creative_uses_is_forgotten_after_a_day(gateway: GatewayClient) -> None:
    await place(gateway, ad(), ad(unit="second"))
    old = await set_creative(gateway, image=banner(color="red"))
    await set_creative(gateway, creative(unit="second"), banner(color="blue"))
    new = await set_creative(gateway, image=banner(color="green"))
    used = {url.rpartition("/")[2].partition(".")[0] for url in (new["imageUrl"],)}

    await gateway.run_jobs("forget-ad-images")
    assert len(await images(gateway)) == 3
    await gateway.run_jobs("forget-ad-images", seconds=timedelta(days=1).total_seconds())

    assert used < await images(gateway)
    assert len(await images(gateway)) == 2
    assert (await follow(gateway, old["imageUrl"])).status_code == 404
    assert (await follow(gateway, new["imageUrl"])).status_code == 200
    await gateway.run_jobs("forget-ad-images", seconds=timedelta(days=3).total_seconds())
    assert len(await images(gateway)) == 2
    await assert_invariants(gateway)


async def test_the_doctor_names_a_missing_image_a_damaged_one_and_a_dangerous_link(gateway: GatewayClient) -> None:
    await place(gateway, ad(), ad(unit="second"), ad(unit="third"))
    await set_creative(gateway, image=banner(color="red"))
    await set_creative(gateway, creative(unit="second"), banner(color="blue"))
    await set_creative(gateway, creative(unit="third"))
    creatives, stored = gateway.db["ads.creatives"], gateway.db["ads.images"]
    red, blue, _ = await creatives.find({}).sort("ad_unit_id").to_list()
    await stored.delete_one({"_id": red["image"]["checksum"]})
    await stored.update_one({"_id": blue["image"]["checksum"]}, {"$set": {"data": b"x"}})
    await creatives.update_one({"ad_unit_id": "third"}, {"$set": {"link": "javascript:alert(1)"}})

    problems = [(one.subject, one.text) for one in await problems_of(gateway)]

    assert set(problems) == {
        (f"ad creative {red['_id']}", f"its image {red['image']['checksum']} is missing"),
        (f"ad image {blue['image']['checksum']}", "its bytes do not match its checksum"),
        (f"ad creative {ad_key('acme:spring', 'third')}", f"its link cannot be followed: {NO_LINK}"),
    }
