"""The slug of a product finds it, and belongs to it alone."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId
from pymongo.errors import BulkWriteError

from portico.gateway.imports import runs
from portico.gateway.mongo.faults import FaultyDatabase
from portico.resolvers.catalog import product_slugs
from tests.catalog.support.cases import id_and_nonce, id_and_nonce_of
from tests.catalog.support.catalog import product
from tests.catalog.support.slugs import SLUGS
from tests.support.harness import GatewayClient, assert_invariants, create_category, create_product, product_input
from tests.support.importing import put
from tests.support.interruptions import database_of, interrupted
from tests.support.moments import meanwhile
from tests.support.outcomes import kinds
from tests.support.selections import shortest


async def sku_of(gateway: GatewayClient, slug: str) -> str | None:
    found = (await gateway.data("query ($slug: String!) { product(slug: $slug) { sku } }", {"slug": slug}))["product"]
    return None if found is None else str(found["sku"])


async def rename(gateway: GatewayClient, one: dict[str, Any], slug: str | None) -> Any:
    return await gateway.result("updateProduct", {**id_and_nonce(one), "slug": slug})


async def test_a_product_is_found_by_its_slug(gateway: GatewayClient) -> None:
    await create_product(gateway, sku="A", slug="a-love-supreme")

    text = '{ one: product(slug: " a-love-supreme ") { sku slug title } none: product(slug: "b") { sku } }'
    data = await gateway.data(text)

    assert (data["one"]["sku"], data["one"]["slug"], data["none"]) == ("A", "a-love-supreme", None)


async def test_a_product_is_named_by_one_key(gateway: GatewayClient) -> None:
    for text in ("{ product { sku } }", '{ product(sku: "A", slug: "a") { sku } }'):
        answer = await gateway.ask(text)
        assert (answer.body["data"], answer.codes) == ({"product": None}, ["BAD_USER_INPUT"])
        assert answer.body["errors"][0]["extensions"]["argument"] == ["slug"]


async def test_an_invalid_slug_is_refused(gateway: GatewayClient) -> None:
    refused = await gateway.result("createProduct", product_input(slug="A b"))

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["slug"])


async def test_one_of_many_concurrent_products_gets_a_slug(gateway: GatewayClient) -> None:
    made = [await create_product(gateway, sku=f"old-{number}") for number in range(5)]
    news = [gateway.result("createProduct", product_input(sku=f"new-{number}", slug="blue")) for number in range(5)]

    results = await asyncio.gather(*news, *(rename(gateway, one, "blue") for one in made))

    assert kinds(results) == {"ProductPayload": 1, "SlugTaken": 9}
    await assert_invariants(gateway)


async def test_concurrent_edits_of_one_product_leave_it_one_slug(gateway: GatewayClient) -> None:
    one = await create_product(gateway, sku="A", slug="blue")

    results = await asyncio.gather(*(rename(gateway, one, slug) for slug in ("red", "green", "red", "white")))

    assert kinds(results) == {"ProductPayload": 1, "ProductEditConflict": 3}
    await gateway.run_jobs(seconds=6)
    slug = (await gateway.data('{ product(sku: "A") { slug } }'))["product"]["slug"]
    assert await gateway.db[SLUGS].distinct("_id") == [slug]
    await assert_invariants(gateway)


async def test_a_claim_that_meets_another_of_the_same_product_is_made_again(gateway: GatewayClient) -> None:
    one: Any = {"_id": ObjectId(), "sku": "A", "slug": "blue"}

    async def meet() -> None:
        await product_slugs.Claims(gateway.db, gateway.clock.now()).mark([one])
        raise BulkWriteError({"writeErrors": [{"index": 0, "code": 11000}], "writeConcernErrors": []})

    claims = product_slugs.Claims(interrupted(gateway.db, SLUGS, "bulk_write", meet), gateway.clock.now())

    assert await claims.mark([one]) == set()
    claim = await gateway.stored(SLUGS, {"_id": "blue"})
    assert claim["by"] == claims.key


async def test_slugs_are_imported(gateway: GatewayClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A record whose slug is taken is tried again after each of them.
    monkeypatch.setattr(runs, "PAUSES", (0.01, 0.01))
    await create_category(gateway, slug="jazz")
    file = tmp_path / "records.jsonl"
    first = [product(sku="A", slug="blue", categories=["jazz"]), product(sku="B", slug="blue"), product(sku="C")]

    done = await put(gateway.db, "products", file, first)
    assert (done.counts, done.reasons) == ({"created": 2, "failed": 1}, [(2, "The slug 'blue' is taken.")])
    assert [await sku_of(gateway, slug) for slug in ("blue", "red")] == ["A", None]

    done = await put(gateway.db, "products", file, [product(sku="A", slug="red"), product(sku="C", slug="green")])
    assert done.counts == {"changed": 2}
    assert [await sku_of(gateway, slug) for slug in ("blue", "red", "green")] == [None, "A", "C"]
    assert (await put(gateway.db, "products", file, [product(sku="A", slug="red")])).counts == {"changed": 1}
    await assert_invariants(gateway)


async def test_the_check_finds_a_slug_of_two_products_and_one_of_none(gateway: GatewayClient) -> None:
    await create_product(gateway, sku="A", slug="blue")
    await create_product(gateway, sku="B", slug="red")
    await gateway.db["products"].update_one({"sku": "B"}, {"$set": {"slug": "blue"}})

    problems = [problem async for problem in product_slugs.find_wrong_slugs(gateway.db)]
    assert [(problem.subject, problem.text) for problem in problems] == [
        ("product B", "its slug does not belong to it"),
        ("slug red", "no product has it"),
    ]
    assert [await problem.mend() for problem in problems] == [True, True]

    await assert_invariants(gateway)
    assert [await sku_of(gateway, slug) for slug in ("blue", "red")] == ["A", None]


async def test_a_product_with_a_sku_and_a_slug_that_are_taken_is_refused_for_its_sku(gateway: GatewayClient) -> None:
    await create_product(gateway, sku="A", slug="blue")
    await create_product(gateway, sku="B", slug="red")

    results = [await gateway.result("createProduct", product_input(sku="A", slug=slug)) for slug in ("blue", "red")]

    assert [result["__typename"] for result in results] == ["SkuTaken", "SkuTaken"]
    assert [await sku_of(gateway, slug) for slug in ("blue", "red")] == ["A", "B"]


async def test_an_edit_that_crashes_before_the_creation_is_confirmed_frees_its_former_slug(
    gateway: GatewayClient,
) -> None:
    own, place = gateway.db, (await create_category(gateway))["id"]

    async def edit() -> None:
        given = {**await id_and_nonce_of(gateway, "A"), "slug": "red", "idempotencyKey": "e"}
        # It crashes when it has changed the product: its former slug is still marked.
        with database_of(gateway, FaultyDatabase(own, 4)) as faulty:
            await gateway.ask(shortest("updateProduct"), {"input": given})
        assert faulty.changes[-1] == ("products", "update_one")

    # The first command after the insert withdraws the intent of the creation.
    with database_of(gateway, interrupted(own, "intents", "delete_one", edit)):
        made = await gateway.result("createProduct", product_input(sku="A", slug="blue", categoryIds=[place]))
    assert made["__typename"] == "ProductPayload"
    await gateway.run_jobs(seconds=61)
    await gateway.run_jobs()

    assert [await sku_of(gateway, slug) for slug in ("blue", "red")] == [None, "A"]
    await create_product(gateway, sku="B", slug="blue")
    await assert_invariants(gateway)


async def test_a_product_that_is_renamed_before_its_creation_is_confirmed_is_created(gateway: GatewayClient) -> None:
    place = (await create_category(gateway))["id"]

    async def rename_and_take() -> None:
        one = await id_and_nonce_of(gateway, "A")
        assert (await rename(gateway, one, "red"))["__typename"] == "ProductPayload"
        await create_product(gateway, sku="B", slug="blue")

    with meanwhile(gateway, rename_and_take, "intents", "delete_one"):
        made = await gateway.result("createProduct", product_input(sku="A", slug="blue", categoryIds=[place]))

    assert made["__typename"] == "ProductPayload"
    await gateway.run_jobs(seconds=61)
    assert [await sku_of(gateway, slug) for slug in ("blue", "red")] == ["B", "A"]
    await assert_invariants(gateway)


async def test_an_edit_that_loses_against_another_one_frees_the_slug_that_it_has_claimed(
    gateway: GatewayClient,
) -> None:
    one = await create_product(gateway, sku="A", slug="blue")
    edit = partial(gateway.payload, "updateProduct", {**id_and_nonce(one), "title": "Another title"})

    # The slug is claimed by then, and the product is marked.
    with meanwhile(gateway, edit, "products", "update_one", skip=1):
        refused = await rename(gateway, one, "red")

    assert refused["__typename"] == "ProductEditConflict"
    await create_product(gateway, sku="B", slug="red")
    assert [await sku_of(gateway, slug) for slug in ("blue", "red")] == ["A", "B"]


async def test_an_edit_that_is_refused_leaves_the_slug_to_another_edit_of_the_product(gateway: GatewayClient) -> None:
    one = await create_product(gateway, sku="A", slug="blue")
    edit = partial(gateway.payload, "updateProduct", {**id_and_nonce(one), "slug": "red"})

    with meanwhile(gateway, edit, "products", "update_one", skip=1):
        refused = await rename(gateway, one, "red")

    assert refused["__typename"] == "ProductEditConflict"
    assert [await sku_of(gateway, slug) for slug in ("blue", "red")] == [None, "A"]
    other = await gateway.result("createProduct", product_input(sku="B", slug="red"))
    assert other["__typename"] == "SlugTaken"


async def test_an_imported_product_without_a_slug_keeps_it_and_null_removes_it(
    gateway: GatewayClient, tmp_path: Path
) -> None:
    await create_product(gateway, sku="A", slug="blue")
    file = tmp_path / "records.jsonl"

    done = await put(gateway.db, "products", file, [product(sku="A", title="Another title")])
    kept = await sku_of(gateway, "blue")
    again = await put(gateway.db, "products", file, [product(sku="A", title="Another title")])
    removed = await put(gateway.db, "products", file, [product(sku="A", title="Another title", slug=None)])

    assert (done.counts, again.counts, removed.counts) == ({"changed": 1}, {"unchanged": 1}, {"changed": 1})
    assert (kept, await sku_of(gateway, "blue")) == ("A", None)
    await assert_invariants(gateway)
