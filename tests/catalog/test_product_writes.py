"""Catalog writes that run concurrently, or that crash anywhere."""

from __future__ import annotations

import asyncio

import pytest

from tests.catalog.support.cases import id_and_nonce
from tests.catalog.support.stages import WRITES, Products, assert_products_settled, crash_without_a_key
from tests.support.harness import GatewayClient, create_category, create_product, product_input, some_stops
from tests.support.interruptions import crashing
from tests.support.moments import meanwhile
from tests.support.outcomes import kinds


@pytest.mark.parametrize("adds_categories", [False, True], ids=["titles", "categories"])
async def test_exactly_one_of_twenty_edits_with_one_nonce_succeeds(
    gateway: GatewayClient, *, adds_categories: bool
) -> None:
    product = await create_product(gateway)
    places = [await create_category(gateway) for _ in range(20)] if adds_categories else []
    adding = [{"categoryIds": [place["id"]]} for place in places] or [{}] * 20
    edits = [{**id_and_nonce(product), "title": f"Title {n}", **categories} for n, categories in enumerate(adding)]

    results = await asyncio.gather(*(gateway.result("updateProduct", given) for given in edits))

    assert kinds(results) == {"ProductPayload": 1, "ProductEditConflict": 19}
    (winner,) = [result["product"] for result in results if "product" in result]
    current = {"title": winner["title"], "nonce": winner["nonce"]}
    assert all(result["current"] == current for result in results if "current" in result)
    found = await gateway.data("{ products { nodes { title nonce categories { slug } } } }")
    assert found["products"]["nodes"] == [{**current, "categories": winner["categories"]}]
    await assert_products_settled(gateway)


async def test_exactly_one_of_many_creations_with_one_sku_succeeds(gateway: GatewayClient) -> None:
    category = await create_category(gateway)

    results = await asyncio.gather(
        *(
            gateway.result("createProduct", product_input(sku="S", title=f"Title {n}", categoryIds=ids))
            for n, ids in enumerate([[], [category["id"]]] * 10)
        )
    )

    assert kinds(results) == {"ProductPayload": 1, "SkuTaken": 19}
    (winner,) = [result["product"] for result in results if "product" in result]
    assert await gateway.data('{ product(sku: "S") { title nonce } }') == {
        "product": {"title": winner["title"], "nonce": winner["nonce"]}
    }
    await assert_products_settled(gateway)


async def test_either_an_edit_or_a_deletion_with_the_same_nonce_succeeds(gateway: GatewayClient) -> None:
    for number in range(15):
        product = await create_product(gateway)
        category = await create_category(gateway)
        change = {"categoryIds": [category["id"]]} if number % 2 else {"title": "New"}

        edited, deleted = await asyncio.gather(
            gateway.result("updateProduct", {**id_and_nonce(product), **change}),
            gateway.result("deleteProduct", id_and_nonce(product)),
        )

        found = await gateway.db["products"].count_documents({"sku": product["sku"]})
        assert (edited["__typename"], deleted["__typename"], found) in {
            ("ProductPayload", "ProductEditConflict", 1),
            ("NotFound", "DeletedPayload", 0),
        }
        if found:
            assert deleted["current"]["nonce"] == edited["product"]["nonce"]
    await assert_products_settled(gateway)


async def test_exactly_one_of_many_deletions_with_one_nonce_succeeds(gateway: GatewayClient) -> None:
    product = await create_product(gateway)

    results = await asyncio.gather(*(gateway.result("deleteProduct", id_and_nonce(product)) for _ in range(10)))

    assert kinds(results) == {"DeletedPayload": 1, "NotFound": 9}


async def test_no_product_keeps_a_category_that_is_deleted_while_edits_add_it(gateway: GatewayClient) -> None:
    for _ in range(6):
        category = await create_category(gateway)
        products, ids = [await create_product(gateway) for _ in range(4)], [category["id"]]

        deleted, *edited = await asyncio.gather(
            gateway.result("deleteCategory", {"id": category["id"]}),
            *(gateway.result("updateProduct", {**id_and_nonce(one), "categoryIds": ids}) for one in products),
            *(gateway.result("createProduct", product_input(categoryIds=ids)) for _ in range(2)),
        )

        outcome = kinds(edited)
        assert set(outcome) <= {"ProductPayload", "NotFound"}
        if deleted["__typename"] == "DeletedPayload":
            assert outcome == {"NotFound": 6}
        else:
            assert deleted["__typename"] == "CategoryNotEmpty"
        await assert_products_settled(gateway)


async def test_an_edit_whose_mark_a_job_has_removed_checks_the_category_again(gateway: GatewayClient) -> None:
    product, category = await create_product(gateway), await create_category(gateway)

    async def settle_and_delete() -> None:
        """Run while the edit pauses between its check of the category and its write."""
        await gateway.run_jobs(seconds=6)
        assert (await gateway.result("deleteCategory", {"id": category["id"]}))["__typename"] == "DeletedPayload"

    with meanwhile(gateway, settle_and_delete, "products", "update_one", skip=1):
        edited = await gateway.result("updateProduct", {**id_and_nonce(product), "categoryIds": [category["id"]]})

    assert edited == {"__typename": "NotFound", "message": "There is no such category.", "missingId": category["id"]}
    await assert_products_settled(gateway)


async def test_a_job_that_undoes_a_creation_leaves_a_later_edit_alone(gateway: GatewayClient) -> None:
    gone, kept = await create_category(gateway), await create_category(gateway)
    given = product_input(sku="S", categoryIds=[gone["id"]])
    # The creation crashes right after it has inserted the product.
    assert await Products(gateway, gateway.clock).crash("createProduct", given, 3)
    (product,) = (await gateway.data("{ products { nodes { id nonce } } }"))["products"]["nodes"]
    gateway.clock.advance(seconds=6)

    async def move_and_delete() -> None:
        """Run after the job has read the product in the first category."""
        await gateway.payload("updateProduct", {**id_and_nonce(product), "categoryIds": [kept["id"]]})
        await gateway.payload("deleteCategory", {"id": gone["id"]})

    with meanwhile(gateway, move_and_delete, "categories", "find", skip=4):
        await gateway.run_jobs()

    found = await gateway.data('{ product(sku: "S") { categories { slug } } }')
    assert found == {"product": {"categories": [{"slug": kept["slug"]}]}}
    await assert_products_settled(gateway)


async def test_a_retried_creation_announces_its_intent_again(gateway: GatewayClient) -> None:
    category = await create_category(gateway)
    given = product_input(sku="S", categoryIds=[category["id"]], idempotencyKey="key")
    inserts = ("products", "insert_one")
    with crashing(gateway, None) as faulty:
        await gateway.result("createProduct", product_input(categoryIds=[category["id"]], idempotencyKey="other"))
    insert = faulty.changes.index(inserts)
    await gateway.db["products"].delete_many({})
    # The first call crashes before its insert, the second one right after.
    assert await Products(gateway, gateway.clock).crash("createProduct", given, insert)
    gateway.clock.advance(seconds=61)

    async def settle_and_delete() -> None:
        await gateway.run_jobs()
        await gateway.payload("deleteCategory", {"id": category["id"]})

    with meanwhile(gateway, settle_and_delete, *inserts):
        assert await Products(gateway, gateway.clock).crash("createProduct", given, insert + 1)
    await gateway.run_jobs(seconds=6)

    assert await gateway.db["products"].count_documents({}) == 0
    await assert_products_settled(gateway)


@pytest.mark.sample(2)
@pytest.mark.parametrize("mutation", WRITES)
async def test_a_write_without_a_key_that_crashes_anywhere_is_finished_or_undone_and_can_be_retried(
    gateway: GatewayClient, mutation: str
) -> None:
    assert await crash_without_a_key(Products(gateway, gateway.clock), mutation) > 0


async def test_a_retry_of_a_deletion_that_found_nothing_does_not_claim_success(gateway: GatewayClient) -> None:
    scene = Products(gateway, gateway.clock)
    for stop in some_stops(2):
        await scene.restore()
        await gateway.result("deleteProduct", id_and_nonce(scene.product))
        given = {**id_and_nonce(scene.product), "idempotencyKey": "key"}
        if not await scene.crash("deleteProduct", given, stop):
            break

        gateway.clock.advance(seconds=31)
        again = await gateway.result("deleteProduct", given)

        assert again["__typename"] == "NotFound", stop


async def test_other_calls_get_a_clear_answer_while_writes_are_unfinished(gateway: GatewayClient) -> None:
    scene = Products(gateway, gateway.clock)
    await scene.restore()
    new = await create_category(gateway)

    # A category is not empty while a product may be in it, or may be about to be added.
    assert await scene.crash("updateProduct", {**id_and_nonce(scene.product), "categoryIds": [scene.place]}, 1)
    assert await scene.crash("createProduct", product_input(sku="N", categoryIds=[new["id"]]), 3)
    for category in (scene.there, scene.place, new["id"]):
        assert (await gateway.result("deleteCategory", {"id": category}))["__typename"] == "CategoryNotEmpty"
    assert (await gateway.result("createProduct", product_input(sku="N")))["__typename"] == "SkuTaken"
    # A mark does not block other editors.
    await gateway.payload("updateProduct", {**id_and_nonce(scene.product), "title": "Other"})
    created = (await gateway.data('{ product(sku: "N") { id nonce } }'))["product"]
    assert (await gateway.result("deleteProduct", id_and_nonce(created)))["__typename"] == "DeletedPayload"

    await gateway.run_jobs(seconds=61)
    assert await scene.state() == {"S": ("Other", ["there"])}
    assert (await gateway.result("deleteCategory", {"id": scene.place}))["__typename"] == "DeletedPayload"
    await scene.assert_settled()
