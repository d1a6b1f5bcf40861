"""What old crashes leave to the jobs of the catalog."""

from __future__ import annotations

from typing import Any

from tests.catalog.support.images import add_directly
from tests.catalog.support.old_products import album
from tests.support.harness import GatewayClient, create_category, create_product
from tests.support.ids import key_in
from tests.support.leftovers import LONG_AGO, OP, Left, set_values


async def _category(gateway: GatewayClient, mark: str, **values: Any) -> Left:
    parent = await create_category(gateway)
    child = await create_category(gateway, parentId=parent["id"])
    left: Any = {"op": OP, "at": LONG_AGO, **values}
    await set_values(
        gateway, "categories", key_in("Category", child["id"]), **{mark: [left] if mark == "refresh" else left}
    )
    return "categories", {f"{mark}.op": OP}


async def pending_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "pending")


async def moving_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "moving", to=None)


async def deleting_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "deleting")


async def renamed_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "refresh")


async def product_intent(gateway: GatewayClient) -> Left:
    category = await create_category(gateway)
    made = await create_product(gateway, categoryIds=[category["id"]])
    intent = {"_id": OP, "kind": "product-creation", "keys": [made["sku"]], "at": LONG_AGO}
    await gateway.db["intents"].insert_one(intent)
    return "intents", {"kind": "product-creation"}


async def incoming_product(gateway: GatewayClient) -> Left:
    category, made = await create_category(gateway), await create_product(gateway)
    incoming = {"op": OP, "at": LONG_AGO, "ids": [key_in("Category", category["id"])]}
    await gateway.db["products"].update_one({"sku": made["sku"]}, {"$set": {"incoming": [incoming]}})
    return "products", {"incoming.op": OP}


async def unsettled_image(gateway: GatewayClient) -> Left:
    made = await create_product(gateway)
    await add_directly(gateway.db, "Product", made["sku"], LONG_AGO)
    await gateway.db["images"].update_one({}, {"$set": {"unsettled": LONG_AGO}})
    return "images", {"unsettled": LONG_AGO}


async def deleting_product(gateway: GatewayClient) -> Left:
    made = await create_product(gateway)
    mark = {"id": OP, "op": OP, "at": LONG_AGO}
    await gateway.db["products"].update_one({"sku": made["sku"]}, {"$set": {"deleting": mark}})
    return "products", {"deleting.op": OP}


async def old_product(gateway: GatewayClient) -> Left:
    await gateway.db["products"].insert_one(album())
    return "products", {"schema_version": None}
