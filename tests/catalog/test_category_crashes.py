"""Unfinished writes to the hierarchy, without a key, and beside other calls. The kit has the crashes and pauses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.catalog.support.stages import INPUTS, Hierarchy, crash_without_a_key
from tests.support.harness import MUTATIONS, GatewayClient, SettableClock, category_input, create_product, product_input


@pytest.fixture
async def scene(gateway: GatewayClient, clock: SettableClock) -> Hierarchy:
    scene = Hierarchy(gateway, clock)
    await scene.restore()
    return scene


@pytest.mark.sample(2)
@pytest.mark.parametrize("mutation", INPUTS)
async def test_a_write_without_a_key_that_crashes_anywhere_is_finished_or_undone_and_can_be_retried(
    scene: Hierarchy, mutation: str
) -> None:
    assert await crash_without_a_key(scene, mutation) > 1


async def assert_answers(gateway: GatewayClient, *calls: tuple[str, dict[str, Any], str]) -> None:
    """Sends the calls concurrently. Asserts the type of each result, or the code of the error."""

    async def answer(mutation: str, given: dict[str, Any]) -> str:
        found = await gateway.ask(MUTATIONS[mutation], {"input": given})
        return found.codes[0] if found.codes else str(found.data[mutation]["__typename"])

    answers = await asyncio.gather(*(answer(mutation, given) for mutation, given, _ in calls))
    assert answers == [expected for _, _, expected in calls]


async def test_other_calls_get_a_clear_answer_while_a_creation_is_unfinished(
    gateway: GatewayClient, scene: Hierarchy
) -> None:
    await scene.crash("createCategory", INPUTS["createCategory"](scene), 1)
    new = (await gateway.data('{ category(slug: "new") { id breadcrumbs { slug } } }'))["category"]
    assert new["breadcrumbs"] == [{"slug": "top"}, {"slug": "subject"}]

    await assert_answers(
        gateway,
        ("createCategory", category_input(slug="new"), "SlugTaken"),
        ("deleteCategory", {"id": scene.subject}, "CategoryNotEmpty"),
        ("createCategory", category_input(parentId=new["id"]), "NotFound"),
        ("createProduct", product_input(categoryIds=[new["id"]]), "NotFound"),
        ("renameCategory", {"id": new["id"], "name": "Mine"}, "NotFound"),
        ("moveCategory", {"id": new["id"]}, "NotFound"),
        ("deleteCategory", {"id": new["id"]}, "Conflict"),
        ("createCategory", category_input(parentId=scene.subject), "CategoryPayload"),
    )
    await scene.run_jobs()
    await scene.assert_settled()
    await gateway.payload("renameCategory", {"id": new["id"], "name": "Mine"})


async def test_other_calls_get_a_clear_answer_while_a_deletion_is_unfinished(
    gateway: GatewayClient, scene: Hierarchy
) -> None:
    product = await create_product(gateway)
    await scene.crash("deleteCategory", {"id": scene.below}, 1)
    edit = {"id": product["id"], "nonce": product["nonce"], "categoryIds": [scene.below]}

    await assert_answers(
        gateway,
        ("createCategory", category_input(parentId=scene.below), "NotFound"),
        ("moveCategory", {"id": scene.place, "newParentId": scene.below}, "NotFound"),
        ("createProduct", product_input(categoryIds=[scene.below]), "NotFound"),
        ("updateProduct", edit, "NotFound"),
        ("renameCategory", {"id": scene.below, "name": "Mine"}, "NotFound"),
        ("moveCategory", {"id": scene.below}, "NotFound"),
        ("deleteCategory", {"id": scene.below}, "Conflict"),
        ("deleteCategory", {"id": scene.subject}, "CategoryNotEmpty"),
        ("renameCategory", {"id": scene.subject, "name": "Mine"}, "CategoryPayload"),
    )
    await scene.run_jobs()
    await scene.assert_settled()
    assert "below" not in await scene.state()


async def test_other_calls_get_a_clear_answer_while_a_move_is_unfinished(
    gateway: GatewayClient, scene: Hierarchy
) -> None:
    await scene.crash("moveCategory", INPUTS["moveCategory"](scene), 1)

    await assert_answers(
        gateway,
        ("moveCategory", {"id": scene.subject}, "Conflict"),
        ("moveCategory", {"id": scene.place, "newParentId": scene.below}, "Conflict"),
        ("deleteCategory", {"id": scene.subject}, "Conflict"),
        ("deleteCategory", {"id": scene.place}, "CategoryNotEmpty"),
        ("renameCategory", {"id": scene.subject, "name": "Mine"}, "CategoryPayload"),
        ("createCategory", category_input(parentId=scene.subject), "CategoryPayload"),
        ("createProduct", product_input(categoryIds=[scene.subject]), "ProductPayload"),
    )
    await scene.run_jobs()
    await scene.assert_settled()
    await gateway.payload("moveCategory", {"id": scene.subject})


async def test_an_unfinished_rename_does_not_block_other_calls(gateway: GatewayClient, scene: Hierarchy) -> None:
    await scene.crash("renameCategory", INPUTS["renameCategory"](scene), 1)
    assert await scene.state() == {"top": [], "new": ["top"], "below": ["top", "subject"], "place": []}

    await assert_answers(
        gateway,
        ("renameCategory", {"id": scene.subject, "name": "Mine"}, "CategoryPayload"),
        ("createCategory", category_input(parentId=scene.below, slug="newest"), "CategoryPayload"),
        ("moveCategory", {"id": scene.place, "newParentId": scene.below}, "CategoryPayload"),
    )
    await scene.run_jobs()
    await scene.assert_settled()
    assert (await scene.state())["newest"] == ["top", "new", "below"]
