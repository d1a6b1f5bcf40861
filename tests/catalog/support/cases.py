"""Inputs of the mutations of the catalog, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from portico.schema.kinds import Kind
from tests.catalog.support.images import add_directly
from tests.support.harness import GatewayClient, category_input, create_category, create_product, product_input

Given = dict[str, Any]


def id_and_nonce(product: dict[str, Any]) -> Given:
    return {"id": product["id"], "nonce": product["nonce"]}


async def id_and_nonce_of(gateway: GatewayClient, sku: str) -> Given:
    """Returns what an edit or a deletion of the stored product presents."""
    stored = await gateway.stored("products", {"sku": sku})
    return {"id": Kind.encode_id("Product", sku), "nonce": stored["nonce"]}


async def _create_category(gateway: GatewayClient) -> tuple[Given, Given]:
    parent = await create_category(gateway)
    return category_input(parentId=parent["id"]), category_input()


async def _rename_category(gateway: GatewayClient) -> tuple[Given, Given]:
    one = await create_category(gateway)
    await create_category(gateway, parentId=one["id"])
    return {"id": one["id"], "name": "New", "slug": "new"}, {"id": one["id"], "name": "Newer"}


async def _move_category(gateway: GatewayClient) -> tuple[Given, Given]:
    one, place = await create_category(gateway), await create_category(gateway)
    return {"id": one["id"], "newParentId": place["id"]}, {"id": one["id"]}


async def _delete_category(gateway: GatewayClient) -> tuple[Given, Given]:
    one, other = await create_category(gateway), await create_category(gateway)
    return {"id": one["id"]}, {"id": other["id"]}


async def _create_product(gateway: GatewayClient) -> tuple[Given, Given]:
    category = await create_category(gateway)
    return product_input(categoryIds=[category["id"]]), product_input()


async def _update_product(gateway: GatewayClient) -> tuple[Given, Given]:
    product, category = await create_product(gateway), await create_category(gateway)
    # An absent field and a null field are two different inputs.
    return {**id_and_nonce(product), "categoryIds": [category["id"]], "description": None}, {
        **id_and_nonce(product),
        "categoryIds": [category["id"]],
    }


async def _delete_product(gateway: GatewayClient) -> tuple[Given, Given]:
    return id_and_nonce(await create_product(gateway)), id_and_nonce(await create_product(gateway))


async def _remove_image(gateway: GatewayClient) -> tuple[Given, Given]:
    product = await create_product(gateway)
    now = gateway.state.clock.now()
    for color in ("red", "blue"):
        added = await add_directly(gateway.db, "Product", product["sku"], now, color)
    one, other = [Kind.encode_id("Image", image["_id"]) for image in added["images"]]
    return {"ofId": product["id"], "imageId": one}, {"ofId": product["id"], "imageId": other}


# Two inputs for each mutation. Each input succeeds if it comes first.
CASES: dict[str, Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]] = {
    "createCategory": _create_category,
    "renameCategory": _rename_category,
    "moveCategory": _move_category,
    "deleteCategory": _delete_category,
    "createProduct": _create_product,
    "updateProduct": _update_product,
    "deleteProduct": _delete_product,
    "removeImage": _remove_image,
}
