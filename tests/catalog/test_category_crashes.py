"""Unfinished writes to the hierarchy, without a key, and beside other calls. The kit has the crashes and pauses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.catalog.support.stages import INPUTS, Hierarchy, crash_without_a_key
from tests.support.harness import (
    MUTATIONS,
    GatewayClient,
    SettableClock,
    category_input,
    create_product,
    product_input,
)


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


# ----------------------------------------------------------- unfinished writes


async def answers(gateway: GatewayClient, **calls: tuple[str, dict[str, Any]]) -> dict[str, str]:
    """Send the calls concurrently. Return for each call the type of the result, or the code of the error."""

    async def typename_of(mutation: str, given: dict[str, Any]) -> str:
        answer = await gateway.ask(MUTATIONS[mutation], {"input": given})
        return answer.codes[0] if answer.codes else str(answer.data[mutation]["__typename"])

    found = await asyncio.gather(*(typename_of(*call) for call in calls.values()))
    return dict(zip(calls, found, strict=True))


async def test_other_calls_get_a_clear_answer_while_a_creation_is_unfinished(
    gateway: GatewayClient, scene: Hierarchy
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
    await scene.run_jobs()
    await scene.assert_settled()
    assert await answers(gateway, rename=("renameCategory", {"id": new["id"], "name": "Mine"})) == {
        "rename": "CategoryPayload"
    }


async def test_other_calls_get_a_clear_answer_while_a_deletion_is_unfinished(
    gateway: GatewayClient, scene: Hierarchy
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
    await scene.run_jobs()
    await scene.assert_settled()
    assert "below" not in await scene.state()


async def test_other_calls_get_a_clear_answer_while_a_move_is_unfinished(
    gateway: GatewayClient, scene: Hierarchy
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
    await scene.run_jobs()
    await scene.assert_settled()
    assert await answers(gateway, move=("moveCategory", {"id": scene.subject})) == {"move": "CategoryPayload"}


async def test_an_unfinished_rename_does_not_block_other_calls(gateway: GatewayClient, scene: Hierarchy) -> None:
    await scene.crash("renameCategory", INPUTS["renameCategory"](scene), 1)
    assert await scene.state() == {"top": [], "new": ["top"], "below": ["top", "subject"], "place": []}

    outcome = await answers(
        gateway,
        rename=("renameCategory", {"id": scene.subject, "name": "Mine"}),
        put_below=("createCategory", category_input(parentId=scene.below, slug="newest")),
        move_below_it=("moveCategory", {"id": scene.place, "newParentId": scene.below}),
    )

    assert set(outcome.values()) == {"CategoryPayload"}
    await scene.run_jobs()
    await scene.assert_settled()
    assert (await scene.state())["newest"] == ["top", "new", "below"]
