"""The product hierarchy, as merchants and shoppers see it."""

from __future__ import annotations

import asyncio

from gateway.faults import FaultyDatabase

from .harness import (
    GatewayClient,
    SettableClock,
    assert_invariants,
    category_input,
    create_category,
    product_input,
    run_jobs,
    stops,
)


async def test_a_new_category_knows_the_way_from_the_root(gateway: GatewayClient) -> None:
    music = await create_category(gateway, name="Music", slug="music")
    jazz = await create_category(gateway, name="Jazz", slug="jazz", parentId=music["id"])

    bop = await create_category(gateway, name="Bop", slug="bop", parentId=jazz["id"])

    assert [crumb["slug"] for crumb in bop["breadcrumbs"]] == ["music", "jazz"]
    assert bop["parent"]["id"] == jazz["id"]


async def test_a_creation_stopped_anywhere_is_finished_or_leaves_nothing(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    root = await create_category(gateway)
    database = gateway.state.database
    for stop in stops():
        given = category_input(parentId=root["id"], idempotencyKey=f"create-{stop}")
        faulty, gateway.state.database = FaultyDatabase.around(database, stop)
        await gateway.ask(CREATE, {"input": given})
        gateway.state.database = database
        if not faulty.has_crashed:
            break

        clock.advance(minutes=1)
        await run_jobs(gateway, clock)
        await assert_invariants(gateway)
        again = await gateway.result("createCategory", given)

        assert again["__typename"] == "CategoryPayload"
        assert again["category"]["slug"] == given["slug"]
    assert stop > 3


CREATE = "mutation ($input: CreateCategoryInput!) { createCategory(input: $input) { __typename } }"


async def test_of_two_moves_that_would_make_a_cycle_together_at_most_one_happens(gateway: GatewayClient) -> None:
    for _ in range(20):
        one, other = await create_category(gateway), await create_category(gateway)
        await asyncio.gather(
            gateway.result("moveCategory", {"id": one["id"], "newParentId": other["id"]}),
            gateway.result("moveCategory", {"id": other["id"], "newParentId": one["id"]}),
        )
        await assert_invariants(gateway)


async def test_deleting_a_category_while_products_are_put_into_it_never_leaves_one_without(
    gateway: GatewayClient,
) -> None:
    for _ in range(20):
        category = await create_category(gateway)
        deleted, created = await asyncio.gather(
            gateway.result("deleteCategory", {"id": category["id"]}),
            gateway.ask(
                "mutation ($input: CreateProductInput!) { createProduct(input: $input) { __typename } }",
                {"input": product_input(categoryIds=[category["id"]])},
            ),
        )
        outcome = (deleted["__typename"], created.data["createProduct"]["__typename"])
        assert outcome in {("DeletedPayload", "NotFound"), ("CategoryNotEmpty", "ProductPayload"), ("CategoryNotEmpty", "NotFound")}
        await assert_invariants(gateway)
