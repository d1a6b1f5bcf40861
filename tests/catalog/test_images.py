"""Images of products and categories: uploads, imports, what is served, and crashes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from portico.gateway.domains.catalog.setting_limits import MAX_IMAGE_BYTES, require
from portico.gateway.imports import runs
from portico.gateway.imports.runs import BadRecord, Import
from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.gateway.settings import SettingsError
from portico.resolvers.attachments import Attachments
from portico.resolvers.catalog import category_edits, product_deletions
from portico.resolvers.catalog.image_edits import ImageRecord, ImageRules, Owner, add_image, import_images, remove_image
from portico.resolvers.catalog.images import MAX_IMAGES
from portico.resolvers.catalog.settings import CatalogSettings
from portico.resolvers.declarations import Resources
from tests.catalog.support.cases import id_and_nonce
from tests.catalog.support.images import IMAGES, add, add_directly, ask
from tests.content.support.photos import picture
from tests.support.domains import IMPORTERS
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, create_category, create_product
from tests.support.ids import key_in
from tests.support.interruptions import interrupted

READ = f"query ($sku: String) {{ product(sku: $sku) {{ {IMAGES} }} }}"
REMOVE = """
mutation ($input: RemoveImageInput!) {
  removeImage(input: $input) {
    __typename
    ... on ImagesPayload { product { images { id } } }
    ... on UserError { message }
  }
}
"""
PAGE = """
query ($filter: ProductFilter) {
  category(slug: "jazz") {
    name description images { url alt }
    products(filter: $filter, first: 20) {
      nodes { title images(first: 1) { url width height alt } stock { available } }
      facets { types { name count filter } genres { name count filter } prices { min max count } }
    }
  }
}
"""


async def images_of(gateway: GatewayClient, sku: str = "A") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await gateway.data(READ, {"sku": sku}))["product"]["images"]
    return found


async def stored(gateway: GatewayClient) -> int:
    return await gateway.db["images"].count_documents({})


async def remove(gateway: GatewayClient, product: dict[str, Any], image: dict[str, Any]) -> Any:
    given = {"ofId": product["id"], "imageId": image["id"]}
    return (await gateway.data(REMOVE, {"input": given}))["removeImage"]


async def test_only_merchants_add_images(gateway: GatewayClient) -> None:
    product = await create_product(gateway, sku="A")

    refused = await ask(gateway, {"ofId": product["id"]}, picture(), token=gateway.token("buyer", []))

    assert refused.codes == ["FORBIDDEN"]
    assert await stored(gateway) == 0


async def test_images_keep_their_order_and_say_what_they_are(gateway: GatewayClient) -> None:
    product, category = await create_product(gateway, sku="A"), await create_category(gateway, slug="jazz")

    await add(gateway, {"ofId": product["id"], "alt": " Front "}, picture(40, 30))
    added = await add(gateway, {"ofId": product["id"]}, picture(20, 50, "JPEG"))
    of_category = await add(gateway, {"ofId": category["id"], "alt": "Jazz"}, picture(10, 10))

    front, back = added["product"]["images"]
    assert (front["width"], front["height"], front["alt"], front["contentType"]) == (40, 30, "Front", "image/png")
    assert (back["width"], back["height"], back["alt"], back["contentType"]) == (20, 50, "", "image/jpeg")
    assert added["category"] is of_category["product"] is None
    assert [one["alt"] for one in of_category["category"]["images"]] == ["Jazz"]
    assert await images_of(gateway) == [front, back]
    await assert_invariants(gateway)


async def test_the_bytes_and_thumbnails_are_served(gateway: GatewayClient) -> None:
    product = await create_product(gateway, sku="A")
    data = picture(200, 100)
    image = (await add(gateway, {"ofId": product["id"]}, data))["product"]["images"][0]

    whole = await gateway.http.get(image["url"])
    small = await gateway.http.get(image["thumbnailUrl"])
    again = await gateway.http.get(image["thumbnailUrl"])
    known = await gateway.http.get(image["url"], headers={"If-None-Match": whole.headers["ETag"]})

    assert (whole.status_code, whole.content, whole.headers["Content-Type"]) == (200, data, "image/png")
    assert "immutable" in whole.headers["Cache-Control"]
    assert (small.status_code, small.headers["Content-Type"]) == (200, "image/webp")
    assert again.content == small.content
    assert (known.status_code, known.content) == (304, b"")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/images/000000000000000000000000.png", 404),
        ("/images/..%2Fsecret.png", 404),
        ("/images/x.png", 404),
        ("{url}?width=4", 400),
        ("{url}?width=many", 400),
        ("{other}", 404),
    ],
)
async def test_other_paths_are_refused(gateway: GatewayClient, path: str, status: int) -> None:
    product = await create_product(gateway, sku="A")
    url = (await add(gateway, {"ofId": product["id"]}))["product"]["images"][0]["url"]

    answer = await gateway.http.get(path.format(url=url, other=url.replace(".png", ".jpg")))

    assert answer.status_code == status


async def test_the_same_file_is_one_image_and_changes_its_text(gateway: GatewayClient) -> None:
    product, other = await create_product(gateway, sku="A"), await create_product(gateway, sku="B")
    await add(gateway, {"ofId": product["id"], "alt": "One"})
    await add(gateway, {"ofId": other["id"], "alt": "Other"})

    await add(gateway, {"ofId": product["id"], "alt": "Two"})

    assert [one["alt"] for one in await images_of(gateway)] == ["Two"]
    assert [one["alt"] for one in await images_of(gateway, "B")] == ["Other"]
    assert await stored(gateway) == 2


async def test_refused_files_leave_nothing(gateway: GatewayClient) -> None:
    product = await create_product(gateway, sku="A")

    no_picture = await add(gateway, {"ofId": product["id"]}, b"no picture")
    broken = await add(gateway, {"ofId": product["id"]}, picture(300, 300)[:-200])
    too_long = await add(gateway, {"ofId": product["id"], "alt": "x" * 501})
    disturbing = await add(gateway, {"ofId": product["id"], "alt": "\u202ex"})
    nowhere = await add(gateway, {"ofId": "UHJvZHVjdDpub25l"})

    assert no_picture["__typename"] == broken["__typename"] == "UnacceptableFile"
    assert (too_long["__typename"], too_long["path"]) == ("InvalidInput", ["alt"])
    assert disturbing["__typename"] == "InvalidInput"
    assert nowhere["__typename"] == "NotFound"
    assert await stored(gateway) == 0


async def test_a_product_has_a_bounded_number_of_images(gateway: GatewayClient) -> None:
    await create_product(gateway, sku="A")
    made = [
        add_directly(gateway.db, "Product", "A", gateway.clock.now(), f"#0000{n:02x}") for n in range(MAX_IMAGES + 5)
    ]

    outcomes = await asyncio.gather(*made, return_exceptions=True)

    assert sum(isinstance(one, Exception) for one in outcomes) == 5
    assert len(await images_of(gateway)) == MAX_IMAGES
    await gateway.run_jobs("settle-images", minutes=2)
    assert await stored(gateway) == MAX_IMAGES
    await assert_invariants(gateway)


async def test_a_removed_image_is_gone_and_can_be_removed_again(gateway: GatewayClient) -> None:
    product = await create_product(gateway, sku="A")
    image = (await add(gateway, {"ofId": product["id"]}))["product"]["images"][0]

    for _ in range(2):
        removed = await remove(gateway, product, image)
        assert removed == {"__typename": "ImagesPayload", "product": {"images": []}}

    assert await stored(gateway) == 0
    assert (await gateway.http.get(image["url"])).status_code == 404
    assert (await remove(gateway, product, {"id": product["id"]}))["__typename"] == "NotFound"


async def test_images_go_with_their_owner_and_survive_edits(gateway: GatewayClient) -> None:
    category = await create_category(gateway, slug="jazz")
    product = await create_product(gateway, sku="A")
    await add(gateway, {"ofId": product["id"]})
    await add(gateway, {"ofId": category["id"]})

    edited = await gateway.result("updateProduct", {**id_and_nonce(product), "title": "New"})
    assert len(await images_of(gateway)) == 1
    await gateway.result("deleteProduct", id_and_nonce(edited["product"]))
    await gateway.result("deleteCategory", {"id": category["id"]})

    assert await stored(gateway) == 0
    await assert_invariants(gateway)


async def test_concurrent_changes_leave_owners_and_images_in_agreement(gateway: GatewayClient) -> None:
    product = await create_product(gateway, sku="A")
    colors = [f"#0000{number:02x}" for number in range(4)]
    first = (await add(gateway, {"ofId": product["id"]}, picture(color=colors[0])))["product"]["images"][0]

    await asyncio.gather(
        *(add_directly(gateway.db, "Product", "A", gateway.clock.now(), color) for color in colors * 2),
        *(remove(gateway, product, first) for _ in range(3)),
        gateway.result("deleteProduct", id_and_nonce(product)),
        return_exceptions=True,
    )

    await gateway.run_jobs(minutes=2)
    await assert_invariants(gateway)


Write = Callable[[GatewayClient, Any, SettableClock, dict[str, Any]], Awaitable[Any]]


async def _add(_gateway: GatewayClient, db: Any, clock: SettableClock, _scene: dict[str, Any]) -> None:
    await add_directly(db, "Product", "A", clock.now(), "red")


async def _remove(_gateway: GatewayClient, db: Any, clock: SettableClock, scene: dict[str, Any]) -> None:
    await remove_image(db, Owner("Product", "A"), scene["image"], now=clock.now())


async def _delete_product(gateway: GatewayClient, db: Any, clock: SettableClock, scene: dict[str, Any]) -> None:
    attachments = gateway.state.resources.of(Attachments)
    nonce = scene["product"]["nonce"]
    await product_deletions.delete_product(
        db, attachments, sku="A", nonce=nonce, now=clock.now(), operation_id="k-delete-product"
    )


async def _delete_category(_gateway: GatewayClient, db: Any, clock: SettableClock, scene: dict[str, Any]) -> None:
    await category_edits.delete_category(
        db, category_id=scene["category"], now=clock.now(), operation_id="k-delete-category"
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("write", [_add, _remove, _delete_product, _delete_category])
async def test_a_write_that_crashes_anywhere_leaves_no_image_behind(gateway: GatewayClient, write: Write) -> None:
    stop = 0
    while True:
        await gateway.db["products"].delete_many({})
        await gateway.db["categories"].delete_many({})
        await gateway.db["images"].delete_many({})
        category = await create_category(gateway, slug="jazz")
        scene = {"product": await create_product(gateway, sku="A"), "category": key_in("Category", category["id"])}
        added = await add_directly(gateway.db, "Product", "A", gateway.clock.now(), "teal")
        await add_directly(gateway.db, "Category", scene["category"], gateway.clock.now(), "teal")
        scene["image"] = added["images"][0]["_id"]
        faulty, db = FaultyDatabase.around(gateway.db, stop)
        try:
            await write(gateway, db, gateway.clock, scene)
        except Crash:
            assert faulty.has_crashed

        await gateway.run_jobs(minutes=2)
        await gateway.run_jobs()

        await assert_invariants(gateway)
        assert await gateway.db["images"].count_documents({"unsettled": {"$ne": None}}) == 0
        if not faulty.has_crashed:
            break
        stop += 1
    assert stop > 1


async def test_images_are_imported_by_file_name(
    gateway: GatewayClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The record of a product that does not exist is tried again after each of them.
    monkeypatch.setattr(runs, "PAUSES", (0.01, 0.01))
    await create_product(gateway, sku="A")
    await create_category(gateway, slug="jazz")
    (tmp_path / "a.png").write_bytes(picture())
    records = [
        {"product": "A", "file": "a.png", "alt": "Front"},
        {"category": "jazz", "file": "a.png"},
        {"product": "none", "file": "a.png"},
        {"product": "A", "file": "../a.png"},
        {"file": "a.png"},
    ]
    file = tmp_path / "covers.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))

    async def run() -> tuple[int, int, int]:
        bad: list[BadRecord] = []
        importer, resources = IMPORTERS["images"], gateway.state.resources
        done = await Import(gateway.db, importer, gateway.state.clock, bad.append, lambda _: None, resources).run(
            [file]
        )
        return done.counts["created"], done.counts["unchanged"], len(bad)

    assert [await run(), await run()] == [(2, 0, 3), (0, 2, 3)]
    assert [one["alt"] for one in await images_of(gateway)] == ["Front"]
    await assert_invariants(gateway)


async def test_a_category_page_with_images_facets_and_stock_takes_six_commands(gateway: GatewayClient) -> None:
    category = await create_category(gateway, slug="jazz", description="All of it.")
    product = await create_product(gateway, sku="A", categoryIds=[category["id"]])
    await add(gateway, {"ofId": product["id"], "alt": "Front"})
    await gateway.data(PAGE, {"filter": {"minPrice": 1}}, token=None)

    # The size of the catalog, by which lists are bounded, is known for some seconds.
    for given in ({}, {"minPrice": 1}):
        gateway.commands.clear()
        page = (await gateway.data(PAGE, {"filter": given}, token=None))["category"]
        assert len(gateway.commands.sent) <= 6, gateway.commands.names()

    assert page["description"] == "All of it."
    assert page["products"]["nodes"][0]["images"][0]["alt"] == "Front"


def test_an_image_must_fit_into_a_document() -> None:
    require(Resources({CatalogSettings: CatalogSettings(max_image_bytes=MAX_IMAGE_BYTES)}))

    with pytest.raises(SettingsError, match="must be at most 12,000,000"):
        require(Resources({CatalogSettings: CatalogSettings(max_image_bytes=MAX_IMAGE_BYTES + 1)}))


async def test_the_number_of_images_is_bounded(gateway: GatewayClient) -> None:
    await create_product(gateway, sku="A")

    for first in (0, MAX_IMAGES + 1):
        answer = await gateway.ask(f'{{ product(sku: "A") {{ images(first: {first}) {{ url }} }} }}')
        assert answer.codes == ["BAD_USER_INPUT"]


@pytest.mark.parametrize("is_import", [False, True])
async def test_a_slow_upload_is_marked_with_the_time_when_it_is_stored(
    gateway: GatewayClient, *, is_import: bool
) -> None:
    await create_product(gateway, sku="A")
    rules, marks = gateway.state.resources.of(ImageRules), list[datetime]()
    now = gateway.clock.now()

    async def look() -> None:
        marks.append((await gateway.db["images"].find({}).to_list())[0]["unsettled"])

    async def slowly() -> AsyncIterator[bytes]:
        await asyncio.sleep(0.1)
        yield picture()

    db = interrupted(gateway.db, "products", "find_one_and_update", look)
    if is_import:
        record = ImageRecord("Product", "A", "", slowly)
        assert await import_images(db, [record], rules=rules, now=now) == ["created"]
    else:
        await add_image(db, Owner("Product", "A"), alt="", file=slowly(), rules=rules, now=now)

    assert marks[0] >= now + timedelta(seconds=0.1)
