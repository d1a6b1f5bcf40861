"""The problems of the site that `portico doctor` reports, and the repairs of those whose cause is certain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.content import checks
from portico.resolvers.problems import Problem
from tests.content.support.site import FUTURE, create_entry, create_page, create_section
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.ids import key_in

Given = dict[str, Any]


async def problems(gateway: GatewayClient) -> list[Problem]:
    return [
        problem
        for check in (checks.find_wrong_nodes, checks.find_wrong_revisions)
        async for problem in check(gateway.db)
    ]


async def scene(gateway: GatewayClient) -> dict[str, ObjectId]:
    folder = await create_section(gateway, slug="docs")
    blog = await create_section(gateway, "BLOG", slug="blog")
    made = {
        "docs": folder,
        "inner": await create_section(gateway, slug="inner", parentId=folder["id"]),
        "page": await create_page(gateway, slug="page", parentId=folder["id"]),
        "entry": await create_entry(gateway, blog, slug="entry", publishOn=FUTURE),
    }
    return {name: key_in("ContentNode", node["id"]) for name, node in made.items()}


Break = Callable[[GatewayClient, dict[str, ObjectId]], Awaitable[object]]


def _set(name: str, **values: Any) -> Break:
    changes = {path.replace("__", "."): value for path, value in values.items()}
    return lambda gateway, known: gateway.db["cms.nodes"].update_one({"_id": known[name]}, {"$set": changes})


def _delete(collection: str, field: str, name: str) -> Break:
    return lambda gateway, known: gateway.db[collection].delete_many({field: known[name]})


REPAIRED: dict[str, tuple[Break, str, str]] = {
    "ancestors": (_set("page", ancestors=[]), "content page", "its ancestors are not those of its parent"),
    "an entry of the future that is shown": (
        _set("entry", visible_from=None),
        "content entry",
        "its `visible_from` does not follow from its type and details",
    ),
    "a page that is hidden": (
        _set("page", visible_from=None),
        "content page",
        "its `visible_from` does not follow from its type and details",
    ),
    "no revision": (
        _delete("cms.revisions", "node", "page"),
        "content page",
        "its current text is not in its revisions",
    ),
}
REPORTED: dict[str, tuple[Break, str, str]] = {
    "no parent": (_set("page", parent=ObjectId(), ancestors=[]), "content page", "its parent does not exist"),
    "a parent that holds no pages": (
        _set("docs", detail__kind="BLOG"),
        "content page",
        "it is in the wrong place: A page must be below a section of kind FOLDER.",
    ),
    "another text": (
        _set("page", detail__text="Written past everybody."),
        "content page",
        "its current text is not in its revisions",
    ),
}


@pytest.mark.parametrize("name", REPAIRED)
async def test_problems_with_a_certain_repair_are_repaired(gateway: GatewayClient, name: str) -> None:
    spoil, subject, text = REPAIRED[name]
    await spoil(gateway, await scene(gateway))

    (problem,) = await problems(gateway)

    assert (problem.subject, problem.text) == (subject, text)
    assert problem.repair is not None
    await problem.repair()
    await assert_invariants(gateway)


@pytest.mark.parametrize("name", REPORTED)
async def test_problems_without_a_certain_repair_are_only_reported(gateway: GatewayClient, name: str) -> None:
    spoil, subject, text = REPORTED[name]
    await spoil(gateway, await scene(gateway))

    found = await problems(gateway)

    assert [(problem.subject, problem.text, problem.repair) for problem in found] == [(subject, text, None)]


async def test_revisions_without_a_node_are_removed(gateway: GatewayClient) -> None:
    known = await scene(gateway)
    await gateway.db["cms.nodes"].delete_one({"_id": known["page"]})

    (problem,) = await problems(gateway)

    assert (problem.subject, problem.text) == (f"revisions of {known['page']}", "the node does not exist")
    assert problem.repair is not None
    await problem.repair()
    await assert_invariants(gateway)
    assert await gateway.db["cms.revisions"].count_documents({}) == 1


async def test_two_nodes_at_one_path_are_reported(gateway: GatewayClient) -> None:
    known = await scene(gateway)
    nodes = gateway.db["cms.nodes"]
    await nodes.drop_index("parent_1_slug_1")
    node = await nodes.find_one({"_id": known["inner"]})
    assert node is not None
    await nodes.insert_one({**node, "_id": ObjectId()})

    found = await problems(gateway)

    assert [(problem.subject, problem.text, problem.repair) for problem in found] == [
        ("content inner", "another node below the same parent has the same slug", None)
    ]
