"""Catalog writes that run concurrently, or that crash anywhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.catalog.support.stages import WRITES, Products, crash_without_a_key, own
from tests.support.harness import (
    GatewayClient,
    SettableClock,
    assert_invariants,
    create_category,
    create_product,
    product_input,
    run_jobs,
    some_stops,
)
from tests.support.interruptions import crashing, database_of, interrupted


def kinds(results: list[Any]) -> Counter[str]:
    return Counter(result["__typename"] for result in results)


async def assert_settled(gateway: GatewayClient) -> None:
    """Assert that no intent is left, and that the invariants hold."""
    assert await gateway.db["intents"].find_one({}) is None
    assert await gateway.db["products"].find_one({"incoming.0": {"$exists": True}}) is None
    assert await gateway.db["categories"].find_one({"deleting": {"$exists": True}}) is None
    await assert_invariants(gateway)


# --------------------------------------------------------------- concurrency


@pytest.mark.parametrize("adds_categories", [False, True], ids=["titles", "categories"])
async def test_exactly_one_of_twenty_edits_with_one_nonce_succeeds(
    gateway: GatewayClient, *, adds_categories: bool
) -> None:
    product = await create_product(gateway)
    places = [await create_category(gateway) for _ in range(20)] if adds_categories else []

    results = await asyncio.gather(
        *(
            gateway.result(
                "updateProduct",
                {**own(product), "title": f"Title {n}", **({"categoryIds": [places[n]["id"]]} if places else {})},
            )
            for n in range(20)
        )
    )

    assert kinds(results) == {"ProductPayload": 1, "ProductEditConflict": 19}
    (winner,) = [result["product"] for result in results if "product" in result]
    current = {"title": winner["title"], "nonce": winner["nonce"]}
    assert all(result["current"] == current for result in results if "current" in result)
    found = await gateway.data("{ products { nodes { title nonce categories { slug } } } }")
    assert found["products"]["nodes"] == [{**current, "categories": winner["categories"]}]
    await assert_settled(gateway)


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
    await assert_settled(gateway)


async def test_either_an_edit_or_a_deletion_with_the_same_nonce_succeeds(gateway: GatewayClient) -> None:
    for number in range(15):
        product = await create_product(gateway)
        category = await create_category(gateway)
        change = {"categoryIds": [category["id"]]} if number % 2 else {"title": "New"}

        edited, deleted = await asyncio.gather(
            gateway.result("updateProduct", {**own(product), **change}),
            gateway.result("deleteProduct", own(product)),
        )

        found = await gateway.db["products"].count_documents({"sku": product["sku"]})
        assert (edited["__typename"], deleted["__typename"], found) in {
            ("ProductPayload", "ProductEditConflict", 1),
            ("NotFound", "DeletedPayload", 0),
        }
        if found:
            assert deleted["current"]["nonce"] == edited["product"]["nonce"]
    await assert_settled(gateway)


async def test_exactly_one_of_many_deletions_with_one_nonce_succeeds(gateway: GatewayClient) -> None:
    product = await create_product(gateway)

    results = await asyncio.gather(*(gateway.result("deleteProduct", own(product)) for _ in range(10)))

    assert kinds(results) == {"DeletedPayload": 1, "NotFound": 9}


async def test_no_product_keeps_a_category_that_is_deleted_while_edits_add_it(
    gateway: GatewayClient,
) -> None:
    for _ in range(6):
        category = await create_category(gateway)
        products = [await create_product(gateway) for _ in range(4)]

        deleted, *edited = await asyncio.gather(
            gateway.result("deleteCategory", {"id": category["id"]}),
            *(gateway.result("updateProduct", {**own(one), "categoryIds": [category["id"]]}) for one in products),
            *(gateway.result("createProduct", product_input(categoryIds=[category["id"]])) for _ in range(2)),
        )

        outcome = kinds(edited)
        assert set(outcome) <= {"ProductPayload", "NotFound"}
        if deleted["__typename"] == "DeletedPayload":
            assert outcome == {"NotFound": 6}
        else:
            assert deleted["__typename"] == "CategoryNotEmpty"
        await assert_settled(gateway)


async def test_an_edit_whose_mark_a_job_has_removed_checks_the_category_again(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    product, category = await create_product(gateway), await create_category(gateway)

    async def settle_and_delete() -> None:
        """Run while the edit pauses between its check of the category and its write."""
        clock.advance(seconds=6)
        await run_jobs(gateway, clock)
        assert (await gateway.result("deleteCategory", {"id": category["id"]}))["__typename"] == "DeletedPayload"

    with database_of(gateway, interrupted(gateway.db, "products", "update_one", settle_and_delete, skip=1)):
        edited = await gateway.result("updateProduct", {**own(product), "categoryIds": [category["id"]]})

    assert edited == {"__typename": "NotFound", "message": "There is no such category.", "missingId": category["id"]}
    await assert_settled(gateway)


async def test_a_job_that_undoes_a_creation_leaves_a_later_edit_alone(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    gone, kept = await create_category(gateway), await create_category(gateway)
    given = product_input(sku="S", categoryIds=[gone["id"]])
    # The creation crashes right after it has inserted the product.
    assert await Products(gateway, clock).crash("createProduct", given, 3)
    (product,) = (await gateway.data("{ products { nodes { id nonce } } }"))["products"]["nodes"]
    clock.advance(seconds=6)

    async def move_and_delete() -> None:
        """Run after the job has read the product in the first category."""
        moved = await gateway.result("updateProduct", {**own(product), "categoryIds": [kept["id"]]})
        assert moved["__typename"] == "ProductPayload"
        deleted = await gateway.result("deleteCategory", {"id": gone["id"]})
        assert deleted["__typename"] == "DeletedPayload"

    await run_jobs_on(gateway, clock, interrupted(gateway.db, "categories", "find", move_and_delete, skip=4))

    found = await gateway.data('{ product(sku: "S") { categories { slug } } }')
    assert found == {"product": {"categories": [{"slug": kept["slug"]}]}}
    await assert_settled(gateway)


async def run_jobs_on(gateway: GatewayClient, clock: SettableClock, database: Any) -> None:
    with database_of(gateway, database):
        await run_jobs(gateway, clock)


async def test_a_retried_creation_announces_its_intent_again(gateway: GatewayClient, clock: SettableClock) -> None:
    category = await create_category(gateway)
    given = product_input(sku="S", categoryIds=[category["id"]], idempotencyKey="key")
    inserts = ("products", "insert_one")
    with crashing(gateway, None) as faulty:
        await gateway.result("createProduct", product_input(categoryIds=[category["id"]], idempotencyKey="other"))
    insert = faulty.changes.index(inserts)
    await gateway.db["products"].delete_many({})
    # The first call crashes before its insert, the second one right after.
    assert await Products(gateway, clock).crash("createProduct", given, insert)
    clock.advance(seconds=61)

    db = gateway.db

    async def settle_and_delete() -> None:
        with database_of(gateway, db):
            await run_jobs(gateway, clock)
            deleted = await gateway.result("deleteCategory", {"id": category["id"]})
        assert deleted["__typename"] == "DeletedPayload"

    with database_of(gateway, interrupted(db, *inserts, settle_and_delete)):
        assert await Products(gateway, clock).crash("createProduct", given, insert + 1)
    clock.advance(seconds=6)
    await run_jobs(gateway, clock)

    assert await gateway.db["products"].count_documents({}) == 0
    await assert_settled(gateway)


# -------------------------------------------------------------------- crashes


@pytest.mark.sample(2)
@pytest.mark.parametrize("mutation", WRITES)
async def test_a_write_without_a_key_that_crashes_anywhere_is_finished_or_undone_and_can_be_retried(
    gateway: GatewayClient, clock: SettableClock, mutation: str
) -> None:
    assert await crash_without_a_key(Products(gateway, clock), mutation) > 0


async def test_a_retry_of_a_deletion_that_found_nothing_does_not_claim_success(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    scene = Products(gateway, clock)
    for stop in some_stops(2):
        await scene.restore()
        await gateway.result("deleteProduct", own(scene.product))
        given = {**own(scene.product), "idempotencyKey": "key"}
        if not await scene.crash("deleteProduct", given, stop):
            break

        clock.advance(seconds=31)
        again = await gateway.result("deleteProduct", given)

        assert again["__typename"] == "NotFound", stop


async def test_other_calls_get_a_clear_answer_while_writes_are_unfinished(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    scene = Products(gateway, clock)
    await scene.restore()
    new = await create_category(gateway)

    # A category is not empty while a product may be in it, or may be about to be added.
    assert await scene.crash("updateProduct", {**own(scene.product), "categoryIds": [scene.place]}, 1)
    assert await scene.crash("createProduct", product_input(sku="N", categoryIds=[new["id"]]), 3)
    for category in (scene.there, scene.place, new["id"]):
        assert (await gateway.result("deleteCategory", {"id": category}))["__typename"] == "CategoryNotEmpty"
    assert (await gateway.result("createProduct", product_input(sku="N")))["__typename"] == "SkuTaken"
    # A mark does not block other editors.
    edited = await gateway.result("updateProduct", {**own(scene.product), "title": "Other"})
    assert edited["__typename"] == "ProductPayload"
    created = (await gateway.data('{ product(sku: "N") { id nonce } }'))["product"]
    assert (await gateway.result("deleteProduct", own(created)))["__typename"] == "DeletedPayload"

    clock.advance(seconds=61)
    await run_jobs(gateway, clock)
    assert await scene.state() == {"S": ("Other", ["there"])}
    assert (await gateway.result("deleteCategory", {"id": scene.place}))["__typename"] == "DeletedPayload"
    await scene.assert_settled()
