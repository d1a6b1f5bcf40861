"""Failures of the mutations of the catalog."""

from __future__ import annotations

from typing import Any

from bson import ObjectId

from portico.schema.kinds import Kind
from portico.testing.kits import Failing, Failure, fails_with
from tests.catalog.support.cases import id_and_nonce
from tests.support.harness import GatewayClient, category_input, create_category, create_product, product_input

Given = dict[str, Any]


async def _slug_taken(gateway: GatewayClient, given: Given) -> Failure:
    other = await create_category(gateway, slug="taken")
    return Failure(given, lambda: gateway.result("renameCategory", {"id": other["id"], "slug": "free"}))


async def _create_slug_taken(gateway: GatewayClient) -> Failure:
    return await _slug_taken(gateway, category_input(slug="taken"))


async def _rename_slug_taken(gateway: GatewayClient) -> Failure:
    one = await create_category(gateway)
    return await _slug_taken(gateway, {"id": one["id"], "slug": "taken"})


async def _cycle(gateway: GatewayClient) -> Failure:
    one = await create_category(gateway)
    below = await create_category(gateway, parentId=one["id"])
    given = {"id": one["id"], "newParentId": below["id"]}
    return Failure(given, lambda: gateway.result("moveCategory", {"id": below["id"]}))


async def _not_empty(gateway: GatewayClient) -> Failure:
    one = await create_category(gateway)
    below = await create_category(gateway, parentId=one["id"])
    return Failure({"id": one["id"]}, lambda: gateway.result("deleteCategory", {"id": below["id"]}))


async def _sku_taken(gateway: GatewayClient) -> Failure:
    other = await create_product(gateway, sku="S")
    return Failure(product_input(sku="S"), lambda: gateway.result("deleteProduct", id_and_nonce(other)))


async def _edit_conflict(gateway: GatewayClient) -> Failure:
    product = await create_product(gateway)
    await gateway.result("updateProduct", {**id_and_nonce(product), "title": "Second"})
    return Failure(id_and_nonce(product))


def nowhere() -> str:
    return Kind.encode_id("Category", ObjectId())


NO_PRODUCT = {"id": Kind.encode_id("Product", "none"), "nonce": "n"}


FAILURES: dict[tuple[str, str], Failing] = {
    ("createCategory", "SlugTaken"): _create_slug_taken,
    ("createCategory", "NotFound"): fails_with(lambda: category_input(parentId=nowhere())),
    ("createCategory", "InvalidInput"): fails_with(lambda: category_input(name="")),
    ("renameCategory", "SlugTaken"): _rename_slug_taken,
    ("renameCategory", "NotFound"): fails_with(lambda: {"id": "no id", "name": "New"}),
    ("renameCategory", "InvalidInput"): fails_with(lambda: {"id": nowhere(), "slug": "A"}),
    ("moveCategory", "CategoryCycle"): _cycle,
    ("moveCategory", "NotFound"): fails_with(lambda: {"id": nowhere()}),
    ("deleteCategory", "CategoryNotEmpty"): _not_empty,
    ("deleteCategory", "NotFound"): fails_with(lambda: {"id": nowhere()}),
    ("createProduct", "SkuTaken"): _sku_taken,
    ("createProduct", "NotFound"): fails_with(lambda: product_input(categoryIds=[nowhere()])),
    ("createProduct", "InvalidInput"): fails_with(lambda: product_input(type="Book", details={"a_b": {"c_d": 2**63}})),
    ("updateProduct", "ProductEditConflict"): _edit_conflict,
    ("updateProduct", "NotFound"): fails_with(lambda: {**NO_PRODUCT, "title": "T"}),
    ("deleteProduct", "ProductEditConflict"): _edit_conflict,
    ("deleteProduct", "NotFound"): fails_with(lambda: NO_PRODUCT),
    ("removeImage", "NotFound"): fails_with(
        lambda: {"ofId": NO_PRODUCT["id"], "imageId": Kind.encode_id("Image", ObjectId())}
    ),
}
