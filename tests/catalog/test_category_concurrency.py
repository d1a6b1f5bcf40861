"""Concurrent changes to the product hierarchy: each answer is true, and all invariants hold."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.catalog import category_edits, category_jobs
from portico.resolvers.catalog.refusals import CategoryNotEmpty
from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database
from portico.resolvers.writes.marks import random_operation_id
from tests.support.domains import JOBS
from tests.support.harness import (
    MUTATIONS,
    GatewayClient,
    assert_invariants,
    category_input,
    create_category,
    create_product,
    product_input,
)
from tests.support.ids import key_in
from tests.support.interruptions import crashing, database_of, interrupted
from tests.support.outcomes import kinds

TREE = "{ categories(first: 100) { nodes { slug descendants(first: 100) { nodes { slug parent { slug } } } } } }"


async def tree(gateway: GatewayClient) -> dict[str, str | None]:
    """Return the slug of each category's parent."""
    found: dict[str, str | None] = {}
    for root in (await gateway.data(TREE))["categories"]["nodes"]:
        found |= {below["slug"]: below["parent"]["slug"] for below in root["descendants"]["nodes"]}
        found[root["slug"]] = None
    return found


async def move(gateway: GatewayClient, category: dict[str, Any], parent: dict[str, Any] | None) -> Any:
    parent_id = None if parent is None else parent["id"]
    return await gateway.result("moveCategory", {"id": category["id"], "newParentId": parent_id})


async def test_exactly_one_of_many_creations_with_one_slug_succeeds(gateway: GatewayClient) -> None:
    root = await create_category(gateway, slug="root")

    results = await asyncio.gather(
        *(
            gateway.result("createCategory", {"name": f"Jazz {n}", "slug": "jazz", "parentId": parent})
            for n, parent in enumerate([None, root["id"]] * 10)
        )
    )

    assert kinds(results) == {"CategoryPayload": 1, "SlugTaken": 19}
    (winner,) = [result["category"] for result in results if "category" in result]
    found = await gateway.data('{ category(slug: "jazz") { id name } }')
    assert found == {"category": {"id": winner["id"], "name": winner["name"]}}
    await assert_invariants(gateway)


async def test_exactly_one_of_many_renames_to_one_slug_succeeds(gateway: GatewayClient) -> None:
    ours = [await create_category(gateway) for _ in range(10)]

    results = await asyncio.gather(
        *(gateway.result("renameCategory", {"id": one["id"], "slug": "jazz"}) for one in ours)
    )

    assert kinds(results) == {"CategoryPayload": 1, "SlugTaken": 9}
    assert max(await tree(gateway)) == "jazz"


@pytest.mark.parametrize(("count", "rounds"), [(2, 12), (3, 6), (8, 2)])
async def test_concurrent_moves_never_form_a_cycle(gateway: GatewayClient, count: int, rounds: int) -> None:
    for _ in range(rounds):
        ring = [await create_category(gateway) for _ in range(count)]
        below = [await create_category(gateway, parentId=one["id"]) for one in ring]

        results = await asyncio.gather(*(move(gateway, ring[n], below[n - 1]) for n in range(count)))

        found = kinds(results)
        assert set(found) <= {"CategoryPayload", "CategoryCycle", "Conflict"}
        assert found["CategoryPayload"] < count
        parents = await tree(gateway)
        for number, result in enumerate(results):
            moved = result["__typename"] == "CategoryPayload"
            assert parents[ring[number]["slug"]] == (below[number - 1]["slug"] if moved else None)
        await assert_invariants(gateway)


async def test_concurrent_moves_of_one_category_take_its_descendants_along(gateway: GatewayClient) -> None:
    places = [await create_category(gateway) for _ in range(6)]
    moved = await create_category(gateway, slug="moved")
    await create_category(gateway, slug="below", parentId=moved["id"])

    results = await asyncio.gather(*(move(gateway, moved, place) for place in places))

    assert set(kinds(results)) <= {"CategoryPayload", "Conflict"}
    parents = await tree(gateway)
    assert parents["moved"] in {place["slug"] for place in places}
    assert parents["below"] == "moved"
    await assert_invariants(gateway)


@pytest.mark.parametrize("seed", range(3))
async def test_concurrent_moves_renames_and_creations_keep_the_tree_consistent(
    gateway: GatewayClient, seed: int
) -> None:
    draw = random.Random(seed)
    line = [await create_category(gateway, slug=f"s{seed}-0")]
    for number in range(1, 12):
        parent = line[draw.randrange(len(line))]
        line.append(await create_category(gateway, slug=f"s{seed}-{number}", parentId=parent["id"]))
    calls: list[tuple[str, dict[str, Any]]] = []
    for number in range(14):
        one, other = draw.sample(line, 2)
        calls.append(("moveCategory", {"id": one["id"], "newParentId": other["id"]}))
        calls.append(("renameCategory", {"id": other["id"], "name": f"N{number}", "slug": f"r{seed}-{number}"}))
        calls.append(("createCategory", category_input(parentId=one["id"])))
    draw.shuffle(calls)

    results = await asyncio.gather(*(gateway.result(name, given) for name, given in calls))

    for (name, _), result in zip(calls, results, strict=True):
        refusals = {"CategoryCycle", "Conflict"} if name == "moveCategory" else set()
        assert result["__typename"] in {"CategoryPayload", *refusals}, (name, result)
    await assert_invariants(gateway)
    assert len(await tree(gateway)) == 12 + 14
    # No mark is left, so the jobs have nothing to do.
    gateway.clock.advance(minutes=1)
    run = Job.Run(gateway.db, gateway.clock.now(), gateway.state.resources)
    assert [await job.run(run) for job in JOBS] == [0] * len(JOBS)


async def test_a_category_that_moves_during_a_rename_of_its_ancestor_gets_the_new_name(gateway: GatewayClient) -> None:
    top = await create_category(gateway, name="Old", slug="top")
    moved = await create_category(gateway, slug="moved", parentId=top["id"])
    await create_category(gateway, slug="below", parentId=moved["id"])
    deep = top
    for number in range(4):
        deep = await create_category(gateway, slug=f"deep-{number}", parentId=deep["id"])
    # Just before the rename writes its second level, a category of the first level moves below one of the fourth.
    gate = interrupted(gateway.db, "categories", "bulk_write", lambda: move(gateway, moved, deep), skip=1)

    await rename_to("New", top, gate, now=gateway.clock.now())

    assert (await tree(gateway))["moved"] == "deep-3"
    await assert_invariants(gateway)


async def test_a_category_that_has_left_a_crashed_rename_is_left_alone(gateway: GatewayClient) -> None:
    top, place = await create_category(gateway, name="Old"), await create_category(gateway)
    moved = await create_category(gateway, slug="moved", parentId=top["id"])
    # The rename crashes right after it has written the categories that it read below itself.
    faulty, stopping = FaultyDatabase.around(gateway.db, 3)
    gate = interrupted(stopping, "categories", "bulk_write", lambda: move(gateway, moved, place))

    with pytest.raises(Crash):
        await rename_to("New", top, gate, now=gateway.clock.now())
    await gateway.run_jobs(minutes=1)

    assert faulty.commands[-2:] == [("categories", "bulk_write"), ("categories", "find")]
    assert (await tree(gateway))["moved"] == place["slug"]
    await assert_invariants(gateway)


async def rename_to(name: str, category: dict[str, Any], database: Database, *, now: datetime) -> None:
    await category_edits.rename_category(
        database,
        category_id=key_in("Category", category["id"]),
        name=name,
        slug=None,
        now=now,
        operation_id=random_operation_id(),
    )


async def test_a_rename_that_starts_while_a_job_finishes_another_is_carried_out(gateway: GatewayClient) -> None:
    top = await create_category(gateway, slug="top")
    await create_category(gateway, slug="below", parentId=top["id"])
    with crashing(gateway, 1):
        await gateway.ask(MUTATIONS["renameCategory"], {"input": {"id": top["id"], "name": "First"}})
    began = gateway.clock.now()
    gateway.clock.advance(minutes=1)

    async def rename_and_crash() -> None:
        """Rename with a call that began long ago and has paused since, so that its mark looks old from the start."""
        with pytest.raises(Crash):
            await rename_to("Second", top, FaultyDatabase.around(gateway.db, 1)[1], now=began)

    # The rename starts when the job has updated all descendants and is about to remove the mark.
    gate = interrupted(gateway.db, "categories", "update_one", rename_and_crash)
    await category_jobs.finish_changes(gate, now=gateway.clock.now())
    await gateway.run_jobs()

    await assert_invariants(gateway)


async def test_exactly_one_of_many_deletions_of_a_category_succeeds(gateway: GatewayClient) -> None:
    for _ in range(5):
        category = await create_category(gateway)

        results = await asyncio.gather(*(gateway.result("deleteCategory", {"id": category["id"]}) for _ in range(8)))

        assert kinds(results) == {"DeletedPayload": 1, "NotFound": 7}


async def test_concurrent_deletions_of_a_category_with_children_are_all_refused(gateway: GatewayClient) -> None:
    category = await create_category(gateway, slug="full")
    await create_category(gateway, slug="below", parentId=category["id"])

    results = await asyncio.gather(*(gateway.result("deleteCategory", {"id": category["id"]}) for _ in range(8)))

    assert kinds(results) == {"CategoryNotEmpty": 8}
    assert await tree(gateway) == {"full": None, "below": "full"}


NEWCOMERS = ["createCategory", "moveCategory", "createProduct", "updateProduct"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("mutation", NEWCOMERS)
async def test_a_category_is_not_deleted_while_something_is_put_into_it(gateway: GatewayClient, mutation: str) -> None:
    outcomes = Counter[tuple[str, str]]()
    for _ in range(15):
        target = await create_category(gateway)
        mover, product = await create_category(gateway), await create_product(gateway)
        given: dict[str, Any] = {
            "createCategory": category_input(parentId=target["id"]),
            "moveCategory": {"id": mover["id"], "newParentId": target["id"]},
            "createProduct": product_input(categoryIds=[target["id"]]),
            "updateProduct": {"id": product["id"], "nonce": product["nonce"], "categoryIds": [target["id"]]},
        }[mutation]

        put, deleted = await asyncio.gather(
            gateway.result(mutation, given), gateway.result("deleteCategory", {"id": target["id"]})
        )

        outcomes[put["__typename"].removeprefix("Category").removeprefix("Product"), deleted["__typename"]] += 1
        await assert_invariants(gateway)
    assert set(outcomes) <= {
        ("Payload", "CategoryNotEmpty"),
        ("NotFound", "DeletedPayload"),
        # Each call saw the intent of the other and gave up.
        ("NotFound", "CategoryNotEmpty"),
    }


async def test_a_category_can_be_deleted_while_it_is_renamed_or_moved(gateway: GatewayClient) -> None:
    place = await create_category(gateway)
    for mutation, change in (("renameCategory", {"name": "New"}), ("moveCategory", {"newParentId": place["id"]})):
        for _ in range(8):
            category = await create_category(gateway)

            changed, deleted = await asyncio.gather(
                gateway.result(mutation, {"id": category["id"], **change}),
                gateway.result("deleteCategory", {"id": category["id"]}),
            )

            assert deleted == {"__typename": "DeletedPayload", "deletedId": category["id"]}
            assert changed["__typename"] in {"CategoryPayload", "NotFound"}
            assert await gateway.db["categories"].find_one({"slug": category["slug"]}) is None
    await assert_invariants(gateway)


async def test_a_deletion_whose_mark_a_job_has_removed_does_not_claim_success(gateway: GatewayClient) -> None:
    parent = await create_category(gateway, slug="parent")
    db, began = gateway.db, gateway.clock.now()
    gateway.clock.advance(minutes=1)
    looked, inserted, settled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def sleep() -> None:
        looked.set()
        await asyncio.wait_for(settled.wait(), 30)

    async def delete() -> None:
        """Delete with a call that began a minute ago, and that pauses after it has found the category empty."""
        await category_edits.delete_category(
            interrupted(db, "categories", "delete_one", sleep),
            category_id=key_in("Category", parent["id"]),
            now=began,
            operation_id=random_operation_id(),
        )

    # The deletion looks for children when a creation has found its parent and is about to insert itself.
    deletions: list[asyncio.Task[None]] = []

    async def delete_until_asleep() -> None:
        deletions.append(asyncio.create_task(delete()))
        await asyncio.wait_for(looked.wait(), 30)

    async def announce() -> None:
        inserted.set()

    gate = interrupted(db, "categories", "insert_one", delete_until_asleep)
    with database_of(gateway, interrupted(gate, "categories", "find", announce, skip=1)):
        given = category_input(slug="child", parentId=parent["id"])
        creation = asyncio.create_task(gateway.result("createCategory", given))
        await asyncio.wait_for(inserted.wait(), 30)
        await category_jobs.finish_changes(db, now=gateway.clock.now())
        created = await creation
    settled.set()

    with pytest.raises(CategoryNotEmpty):
        await deletions[0]
    assert created["__typename"] == "CategoryPayload"
    assert await tree(gateway) == {"parent": None, "child": "parent"}
    await assert_invariants(gateway)
