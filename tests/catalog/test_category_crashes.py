"""Writes to the hierarchy that crash anywhere: nothing is lost, all invariants hold, and each answer is true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from portico.gateway.mongo.faults import Crash
from tests.support.harness import (
    MUTATIONS,
    GatewayClient,
    SettableClock,
    assert_invariants,
    category_input,
    create_category,
    create_product,
    product_input,
    run_jobs,
    stops,
    stops_of,
)
from tests.support.interruptions import crashing
from tests.support.scenes import Stage

MARKS = ("pending", "refresh.0", "moving", "deleting")
Ways = dict[str, list[str]]


class Scene(Stage):
    """Three categories in a line, and another root to move them to."""

    collections = ("categories", "operations")

    async def build(self) -> None:
        self.top = (await create_category(self.gateway, slug="top"))["id"]
        self.subject = (await create_category(self.gateway, slug="subject", parentId=self.top))["id"]
        self.below = (await create_category(self.gateway, slug="below", parentId=self.subject))["id"]
        self.place = (await create_category(self.gateway, slug="place"))["id"]


@pytest.fixture
async def scene(gateway: GatewayClient, clock: SettableClock) -> Scene:
    scene = Scene(gateway, clock)
    await scene.restore()
    return scene


INPUTS: dict[str, Callable[[Scene], dict[str, Any]]] = {
    "createCategory": lambda scene: {"name": "New", "slug": "new", "parentId": scene.subject},
    "renameCategory": lambda scene: {"id": scene.subject, "name": "New", "slug": "new"},
    "moveCategory": lambda scene: {"id": scene.subject, "newParentId": scene.place},
    "deleteCategory": lambda scene: {"id": scene.below},
}
BEFORE: Ways = {"top": [], "subject": ["top"], "below": ["top", "subject"], "place": []}
AFTER: dict[str, Ways] = {
    "createCategory": {**BEFORE, "new": ["top", "subject"]},
    "renameCategory": {"top": [], "new": ["top"], "below": ["top", "new"], "place": []},
    "moveCategory": {"top": [], "subject": ["place"], "below": ["place", "subject"], "place": []},
    "deleteCategory": {"top": [], "subject": ["top"], "place": []},
}
# The answer to a second call without a key if the first call has completed: the gateway cannot know that both are one.
SECOND_CALLS = {"createCategory": "SlugTaken", "deleteCategory": "NotFound"}


async def ways(gateway: GatewayClient) -> Ways:
    """Return the slugs of the stored ancestors of each category."""
    found = gateway.db["categories"].find({})
    return {category["slug"]: [step["slug"] for step in category["ancestors"]] async for category in found}


async def assert_settled(gateway: GatewayClient) -> None:
    """Assert that no mark is left, and that the invariants hold."""
    for mark in MARKS:
        assert await gateway.db["categories"].find_one({mark: {"$exists": True}}) is None, mark
    await assert_invariants(gateway)


@pytest.mark.parametrize("mutation", INPUTS)
async def test_the_jobs_finish_or_undo_a_write_that_crashes_anywhere_and_it_can_be_retried(
    gateway: GatewayClient, clock: SettableClock, scene: Scene, mutation: str
) -> None:
    for stop in stops():
        await scene.restore()
        given = INPUTS[mutation](scene)
        if not await scene.crash(mutation, given, stop):
            break

        clock.advance(seconds=6)
        await run_jobs(gateway, clock, "finish-categories", "finish-products")

        left = await ways(gateway)
        assert left in (BEFORE, AFTER[mutation]), stop
        await assert_settled(gateway)
        again = await gateway.result(mutation, given)
        done = "DeletedPayload" if mutation == "deleteCategory" else "CategoryPayload"
        assert again["__typename"] == (done if left == BEFORE else SECOND_CALLS.get(mutation, done)), stop
        assert await ways(gateway) == AFTER[mutation], stop
        await assert_settled(gateway)
    assert stop > 1


@pytest.mark.parametrize("jobs_first", [True, False], ids=["after the jobs", "before the jobs"])
@pytest.mark.parametrize("mutation", INPUTS)
async def test_a_write_that_crashes_anywhere_and_is_retried_with_its_key_happens_once(
    gateway: GatewayClient, clock: SettableClock, scene: Scene, mutation: str, *, jobs_first: bool
) -> None:
    for stop in stops_of(jobs_first=jobs_first):
        await scene.restore()
        given = {**INPUTS[mutation](scene), "idempotencyKey": "key"}
        if not await scene.crash(mutation, given, stop):
            break

        # The crashed call holds the key for 30 seconds.
        clock.advance(seconds=31)
        if jobs_first:
            await run_jobs(gateway, clock, "finish-categories", "finish-products")
        again = await gateway.result(mutation, given)
        once_more = await gateway.result(mutation, given)

        done = "DeletedPayload" if mutation == "deleteCategory" else "CategoryPayload"
        assert again["__typename"] == done, stop
        assert once_more == again
        assert await ways(gateway) == AFTER[mutation], stop
        await assert_settled(gateway)
    assert stop > 4


@pytest.mark.parametrize("mutation", INPUTS)
async def test_jobs_that_crash_anywhere_finish_in_their_next_run(
    gateway: GatewayClient, clock: SettableClock, scene: Scene, mutation: str
) -> None:
    for stop in stops():
        await scene.restore()
        given = INPUTS[mutation](scene)
        # The first change sets the mark.
        assert await scene.crash(mutation, given, 1)
        clock.advance(seconds=6)

        with crashing(gateway, stop) as faulty:
            try:
                await run_jobs(gateway, clock, "finish-categories", "finish-products")
            except Crash:
                assert faulty.has_crashed
        await run_jobs(gateway, clock, "finish-categories", "finish-products")

        assert await ways(gateway) == (BEFORE if mutation == "moveCategory" else AFTER[mutation]), stop
        await assert_settled(gateway)
        if not faulty.has_crashed:
            break
    assert stop > 1


# ----------------------------------------------------------- unfinished writes


async def answers(gateway: GatewayClient, **calls: tuple[str, dict[str, Any]]) -> dict[str, str]:
    """Send the calls concurrently. Return for each call the type of the result, or the code of the error."""

    async def typename_of(mutation: str, given: dict[str, Any]) -> str:
        answer = await gateway.ask(MUTATIONS[mutation], {"input": given})
        return answer.codes[0] if answer.codes else str(answer.data[mutation]["__typename"])

    found = await asyncio.gather(*(typename_of(*call) for call in calls.values()))
    return dict(zip(calls, found, strict=True))


async def test_other_calls_get_a_clear_answer_while_a_creation_is_unfinished(
    gateway: GatewayClient, clock: SettableClock, scene: Scene
) -> None:
    await scene.crash("createCategory", INPUTS["createCategory"](scene), 1)
    new = (await gateway.data('{ category(slug: "new") { id breadcrumbs { slug } } }'))["category"]
    assert new["breadcrumbs"] == [{"slug": "top"}, {"slug": "subject"}]

    outcome = await answers(
        gateway,
        same_slug=("createCategory", category_input(slug="new")),
        delete_parent=("deleteCategory", {"id": scene.subject}),
        put_below=("createCategory", category_input(parentId=new["id"])),
        put_product=("createProduct", product_input(categoryIds=[new["id"]])),
        rename=("renameCategory", {"id": new["id"], "name": "Mine"}),
        move=("moveCategory", {"id": new["id"]}),
        delete=("deleteCategory", {"id": new["id"]}),
        elsewhere=("createCategory", category_input(parentId=scene.subject)),
    )

    assert outcome == {
        "same_slug": "SlugTaken",
        "delete_parent": "CategoryNotEmpty",
        "put_below": "NotFound",
        "put_product": "NotFound",
        "rename": "NotFound",
        "move": "NotFound",
        "delete": "Conflict",
        "elsewhere": "CategoryPayload",
    }
    clock.advance(seconds=6)
    await run_jobs(gateway, clock, "finish-categories", "finish-products")
    await assert_settled(gateway)
    assert await answers(gateway, rename=("renameCategory", {"id": new["id"], "name": "Mine"})) == {
        "rename": "CategoryPayload"
    }


async def test_other_calls_get_a_clear_answer_while_a_deletion_is_unfinished(
    gateway: GatewayClient, clock: SettableClock, scene: Scene
) -> None:
    product = await create_product(gateway)
    await scene.crash("deleteCategory", {"id": scene.below}, 1)
    edit = {"id": product["id"], "nonce": product["nonce"], "categoryIds": [scene.below]}

    outcome = await answers(
        gateway,
        put_below=("createCategory", category_input(parentId=scene.below)),
        move_below=("moveCategory", {"id": scene.place, "newParentId": scene.below}),
        put_product=("createProduct", product_input(categoryIds=[scene.below])),
        edit_product=("updateProduct", edit),
        rename=("renameCategory", {"id": scene.below, "name": "Mine"}),
        move=("moveCategory", {"id": scene.below}),
        delete=("deleteCategory", {"id": scene.below}),
        delete_parent=("deleteCategory", {"id": scene.subject}),
        rename_parent=("renameCategory", {"id": scene.subject, "name": "Mine"}),
    )

    assert outcome == {
        "put_below": "NotFound",
        "move_below": "NotFound",
        "put_product": "NotFound",
        "edit_product": "NotFound",
        "rename": "NotFound",
        "move": "NotFound",
        "delete": "Conflict",
        "delete_parent": "CategoryNotEmpty",
        "rename_parent": "CategoryPayload",
    }
    clock.advance(seconds=6)
    await run_jobs(gateway, clock, "finish-categories", "finish-products")
    await assert_settled(gateway)
    assert "below" not in await ways(gateway)


async def test_other_calls_get_a_clear_answer_while_a_move_is_unfinished(
    gateway: GatewayClient, clock: SettableClock, scene: Scene
) -> None:
    await scene.crash("moveCategory", INPUTS["moveCategory"](scene), 1)

    outcome = await answers(
        gateway,
        move=("moveCategory", {"id": scene.subject}),
        move_below_it=("moveCategory", {"id": scene.place, "newParentId": scene.below}),
        delete=("deleteCategory", {"id": scene.subject}),
        delete_place=("deleteCategory", {"id": scene.place}),
        rename=("renameCategory", {"id": scene.subject, "name": "Mine"}),
        put_below=("createCategory", category_input(parentId=scene.subject)),
        put_product=("createProduct", product_input(categoryIds=[scene.subject])),
    )

    assert outcome == {
        "move": "Conflict",
        "move_below_it": "Conflict",
        "delete": "Conflict",
        "delete_place": "CategoryNotEmpty",
        "rename": "CategoryPayload",
        "put_below": "CategoryPayload",
        "put_product": "ProductPayload",
    }
    clock.advance(seconds=6)
    await run_jobs(gateway, clock, "finish-categories", "finish-products")
    await assert_settled(gateway)
    assert await answers(gateway, move=("moveCategory", {"id": scene.subject})) == {"move": "CategoryPayload"}


async def test_an_unfinished_rename_does_not_block_other_calls(
    gateway: GatewayClient, clock: SettableClock, scene: Scene
) -> None:
    await scene.crash("renameCategory", INPUTS["renameCategory"](scene), 1)
    assert await ways(gateway) == {"top": [], "new": ["top"], "below": ["top", "subject"], "place": []}

    outcome = await answers(
        gateway,
        rename=("renameCategory", {"id": scene.subject, "name": "Mine"}),
        put_below=("createCategory", category_input(parentId=scene.below, slug="newest")),
        move_below_it=("moveCategory", {"id": scene.place, "newParentId": scene.below}),
    )

    assert set(outcome.values()) == {"CategoryPayload"}
    clock.advance(seconds=6)
    await run_jobs(gateway, clock, "finish-categories", "finish-products")
    await assert_settled(gateway)
    assert (await ways(gateway))["newest"] == ["top", "new", "below"]
