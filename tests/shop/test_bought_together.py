"""Products that are bought together are related to each other."""

from __future__ import annotations

import asyncio

import pytest

from portico.resolvers.shop.bought_together import relate_products
from tests.shop.support.shop import new_order, stock_up
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs, some_stops
from tests.support.interruptions import crashing, interrupted

pytestmark = pytest.mark.usefixtures("provider")

RELATED = "query ($sku: String!, $first: Int! = 20) { product(sku: $sku) { related(first: $first) { sku } } }"
SHOP = ("lamp", "bulb", "cable", "$sku", "desk")


async def related(gateway: GatewayClient, sku: str) -> list[str]:
    found = (await gateway.data(RELATED, {"sku": sku}))["product"]["related"]
    return [one["sku"] for one in found]


async def stock_shop(gateway: GatewayClient) -> None:
    for sku in SHOP:
        await stock_up(gateway, sku, 50)


async def test_what_is_bought_together_most_often_comes_first(gateway: GatewayClient, clock: SettableClock) -> None:
    await stock_shop(gateway)
    for basket in (["lamp", "bulb"], ["lamp", "bulb", "cable"], ["lamp", "$sku"], ["desk"]):
        await new_order(gateway, **dict.fromkeys(basket, 1))

    assert await related(gateway, "lamp") == []
    await run_jobs(gateway, clock, "relate-products")
    gateway.commands.clear()

    assert (await related(gateway, "lamp"))[0] == "bulb"
    assert gateway.commands.names() == ["find products", "aggregate products"]
    assert set(await related(gateway, "lamp")) == {"bulb", "cable", "$sku"}
    assert set(await related(gateway, "cable")) == {"lamp", "bulb"}
    assert await related(gateway, "$sku") == ["lamp"]
    assert await related(gateway, "desk") == []


async def test_an_edit_keeps_what_is_bought_together(gateway: GatewayClient, clock: SettableClock) -> None:
    await stock_shop(gateway)
    await new_order(gateway, lamp=1, bulb=1)
    await run_jobs(gateway, clock, "relate-products")
    text = 'query { product(sku: "lamp") { id nonce } }'
    lamp = (await gateway.data(text))["product"]

    edited = await gateway.result("updateProduct", {**lamp, "title": "A lamp"})

    assert edited["__typename"] == "ProductPayload"
    assert await related(gateway, "lamp") == ["bulb"]


async def test_orders_that_are_counted_at_the_same_moment_all_count(gateway: GatewayClient) -> None:
    await stock_shop(gateway)
    for skip in some_stops(2):
        turns: list[int] = []
        await new_order(gateway, lamp=1, bulb=1)

        async def others(turns: list[int] = turns) -> None:
            turns.append(1)
            await new_order(gateway, lamp=1, cable=1)
            await relate_products(gateway.db)

        await relate_products(interrupted(gateway.db, None, None, others, skip=skip))

        assert await related(gateway, "cable") == (["lamp"] if turns else []), skip
        assert set(await related(gateway, "lamp")) == ({"bulb", "cable"} if turns else {"bulb"}), skip
        assert await gateway.db["orders"].count_documents({"uncounted": True}) == 0
        await gateway.db["orders"].delete_many({})
        await gateway.db["products"].update_many({}, {"$unset": {"bought_with": ""}})
        if not turns:
            break
    assert skip > 3


async def test_a_count_that_crashes_is_repeated(gateway: GatewayClient, clock: SettableClock) -> None:
    await stock_shop(gateway)
    for stop in some_stops(2):
        await new_order(gateway, lamp=1, bulb=1)
        with crashing(gateway, stop) as faulty:
            await asyncio.gather(run_jobs(gateway, clock, "relate-products"), return_exceptions=True)
        await run_jobs(gateway, clock, "relate-products")

        assert await related(gateway, "bulb") == ["lamp"]
        assert await gateway.db["orders"].count_documents({"uncounted": True}) == 0
        await assert_invariants(gateway)
        await gateway.db["products"].update_many({}, {"$unset": {"bought_with": ""}})
        if not faulty.has_crashed:
            break
    assert stop >= 3
