"""Products that are bought together are related to each other."""

from __future__ import annotations

import asyncio

import pytest

from portico.resolvers.shop.bought_together import relate_products
from tests.catalog.support.cases import id_and_nonce_of
from tests.shop.support.shop import new_order, stock_up
from tests.support.harness import GatewayClient, assert_invariants, some_stops
from tests.support.interruptions import crashing
from tests.support.moments import moments

pytestmark = pytest.mark.usefixtures("provider")

RELATED = "query ($sku: String!, $first: Int! = 20) { product(sku: $sku) { related(first: $first) { sku } } }"
SHOP = ("lamp", "bulb", "cable", "$sku", "desk")


async def related(gateway: GatewayClient, sku: str) -> list[str]:
    found = (await gateway.data(RELATED, {"sku": sku}))["product"]["related"]
    return [one["sku"] for one in found]


async def stock_shop(gateway: GatewayClient) -> None:
    for sku in SHOP:
        await stock_up(gateway, sku, 50)


async def test_what_is_bought_together_most_often_comes_first(gateway: GatewayClient) -> None:
    await stock_shop(gateway)
    for basket in (["lamp", "bulb"], ["lamp", "bulb", "cable"], ["lamp", "$sku"], ["desk"]):
        await new_order(gateway, **dict.fromkeys(basket, 1))

    assert await related(gateway, "lamp") == []
    await gateway.run_jobs("relate-products")
    gateway.commands.clear()

    assert (await related(gateway, "lamp"))[0] == "bulb"
    assert gateway.commands.names() == ["find products", "aggregate products"]
    assert set(await related(gateway, "lamp")) == {"bulb", "cable", "$sku"}
    assert set(await related(gateway, "cable")) == {"lamp", "bulb"}
    assert await related(gateway, "$sku") == ["lamp"]
    assert await related(gateway, "desk") == []


async def test_an_edit_keeps_what_is_bought_together(gateway: GatewayClient) -> None:
    await stock_shop(gateway)
    await new_order(gateway, lamp=1, bulb=1)
    await gateway.run_jobs("relate-products")
    lamp = await id_and_nonce_of(gateway, "lamp")

    edited = await gateway.result("updateProduct", {**lamp, "title": "A lamp"})

    assert edited["__typename"] == "ProductPayload"
    assert await related(gateway, "lamp") == ["bulb"]


async def test_orders_that_are_counted_at_the_same_moment_all_count(gateway: GatewayClient) -> None:
    await stock_shop(gateway)

    async def others() -> None:
        await new_order(gateway, lamp=1, cable=1)
        await relate_products(gateway.db)

    for moment in moments(some_stops(2)):
        await new_order(gateway, lamp=1, bulb=1)

        await relate_products(moment.before(gateway.db, others))

        is_late = moment.was_reached
        assert await related(gateway, "cable") == (["lamp"] if is_late else []), moment.place
        assert set(await related(gateway, "lamp")) == ({"bulb", "cable"} if is_late else {"bulb"}), moment.place
        assert await gateway.db["orders"].count_documents({"uncounted": True}) == 0
        await gateway.db["orders"].delete_many({})
        await gateway.db["products"].update_many({}, {"$unset": {"bought_with": ""}})
    assert moment.place > 3


async def test_a_count_that_crashes_is_repeated(gateway: GatewayClient) -> None:
    await stock_shop(gateway)
    for stop in some_stops(2):
        await new_order(gateway, lamp=1, bulb=1)
        with crashing(gateway, stop) as faulty:
            await asyncio.gather(gateway.run_jobs("relate-products"), return_exceptions=True)
        await gateway.run_jobs("relate-products")

        assert await related(gateway, "bulb") == ["lamp"]
        assert await gateway.db["orders"].count_documents({"uncounted": True}) == 0
        await assert_invariants(gateway)
        await gateway.db["products"].update_many({}, {"$unset": {"bought_with": ""}})
        if not faulty.has_crashed:
            break
    assert stop >= 3
