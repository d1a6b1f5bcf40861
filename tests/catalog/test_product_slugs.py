"""The slug of a product finds it, and belongs to it alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from bson import ObjectId
from pymongo.errors import BulkWriteError

from portico.resolvers.catalog import product_slugs
from tests.catalog.support.cases import id_and_nonce
from tests.catalog.support.catalog import product
from tests.catalog.support.slugs import SLUGS
from tests.support.harness import (
    GatewayClient,
    SettableClock,
    assert_invariants,
    create_category,
    create_product,
    product_input,
    run_jobs,
)
from tests.support.importing import put
from tests.support.interruptions import interrupted


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


async def test_a_new_slug_frees_the_former_one(gateway: GatewayClient) -> None:
    one = await create_product(gateway, sku="A", slug="blue")

    one = (await rename(gateway, one, "red"))["product"]
    assert [await sku_of(gateway, slug) for slug in ("blue", "red")] == [None, "A"]
    await create_product(gateway, sku="B", slug="blue")
    assert (await rename(gateway, one, "blue"))["__typename"] == "SlugTaken"
    one = (await rename(gateway, one, None))["product"]

    assert [await sku_of(gateway, slug) for slug in ("blue", "red")] == ["B", None]
    await assert_invariants(gateway)


async def test_a_deleted_product_frees_its_slug(gateway: GatewayClient) -> None:
    one = await create_product(gateway, sku="A", slug="blue")

    await gateway.result("deleteProduct", id_and_nonce(one))

    assert await sku_of(gateway, "blue") is None
    await create_product(gateway, sku="B", slug="blue")
    assert await sku_of(gateway, "blue") == "B"


async def test_a_product_that_is_refused_takes_no_slug(gateway: GatewayClient) -> None:
    await create_product(gateway, sku="A")

    refused = await gateway.result("createProduct", product_input(sku="A", slug="blue"))

    assert refused["__typename"] == "SkuTaken"
    await create_product(gateway, sku="B", slug="blue")


async def test_an_invalid_slug_is_refused(gateway: GatewayClient) -> None:
    refused = await gateway.result("createProduct", product_input(slug="A b"))

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["slug"])


async def test_one_of_many_concurrent_products_gets_a_slug(gateway: GatewayClient) -> None:
    made = [await create_product(gateway, sku=f"old-{number}") for number in range(5)]
    news = [gateway.result("createProduct", product_input(sku=f"new-{number}", slug="blue")) for number in range(5)]

    results = await asyncio.gather(*news, *(rename(gateway, one, "blue") for one in made))

    assert Counter(result["__typename"] for result in results) == {"ProductPayload": 1, "SlugTaken": 9}
    await assert_invariants(gateway)


async def test_concurrent_edits_of_one_product_leave_it_one_slug(gateway: GatewayClient, clock: SettableClock) -> None:
    one = await create_product(gateway, sku="A", slug="blue")

    results = await asyncio.gather(*(rename(gateway, one, slug) for slug in ("red", "green", "red", "white")))

    assert Counter(result["__typename"] for result in results) == {"ProductPayload": 1, "ProductEditConflict": 3}
    clock.advance(seconds=6)
    await run_jobs(gateway, clock)
    slug = (await gateway.data('{ product(sku: "A") { slug } }'))["product"]["slug"]
    assert await gateway.db[SLUGS].distinct("_id") == [slug]
    await assert_invariants(gateway)


async def test_a_claim_that_meets_another_of_the_same_product_is_made_again(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    one: Any = {"_id": ObjectId(), "sku": "A", "slug": "blue"}

    async def meet() -> None:
        await product_slugs.Claims(gateway.db, clock.now()).mark([one])
        raise BulkWriteError({"writeErrors": [{"index": 0, "code": 11000}], "writeConcernErrors": []})

    claims = product_slugs.Claims(interrupted(gateway.db, SLUGS, "bulk_write", meet), clock.now())

    assert await claims.mark([one]) == set()
    claim = await gateway.db[SLUGS].find_one({"_id": "blue"})
    assert claim is not None
    assert claim["by"] == claims.key


async def test_slugs_are_imported(gateway: GatewayClient, tmp_path: Path) -> None:
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
