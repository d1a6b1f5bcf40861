"""Inputs of the mutations of content, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.content.support.site import (
    REVISIONS,
    create_page,
    create_section,
    entry_input,
    own,
    page_input,
    section_input,
)
from tests.support.harness import GatewayClient

Given = dict[str, Any]


async def _create_section(gateway: GatewayClient) -> tuple[Given, Given]:
    parent = await create_section(gateway)
    return section_input("BLOG", parentId=parent["id"]), section_input()


async def _create_page(gateway: GatewayClient) -> tuple[Given, Given]:
    parent = await create_section(gateway)
    return page_input(parentId=parent["id"], tags=["one"]), page_input()


async def _create_entry(gateway: GatewayClient) -> tuple[Given, Given]:
    blog = await create_section(gateway, "BLOG")
    return entry_input(blog), entry_input(blog, publishOn=None)


async def _edit_text(gateway: GatewayClient) -> tuple[Given, Given]:
    one, other = [await create_page(gateway) for _ in range(2)]
    return own(one, text="Three.\n"), own(other, text="Four.\n")


async def _edit_metadata(gateway: GatewayClient) -> tuple[Given, Given]:
    one, other = [await create_page(gateway) for _ in range(2)]
    return own(one, title="New", slug="new"), own(other, title="Newer")


async def _restore(gateway: GatewayClient) -> tuple[Given, Given]:
    return await _restoration(gateway), await _restoration(gateway)


async def _restoration(gateway: GatewayClient) -> Given:
    """Returns an input that restores the first text of an edited page."""
    page = await create_page(gateway)
    edited = (await gateway.result("editText", own(page, text="Three.\n")))["content"]
    revisions = (await gateway.data(REVISIONS, {"id": page["id"]}))["node"]["revisions"]["nodes"]
    return own(edited, revisionId=revisions[-1]["id"])


async def _add_tags(gateway: GatewayClient) -> tuple[Given, Given]:
    page = await create_page(gateway, tags=["one"])
    return {"id": page["id"], "tags": ["two", "three"]}, {"id": page["id"], "tags": ["four"]}


async def _remove_tags(gateway: GatewayClient) -> tuple[Given, Given]:
    page = await create_page(gateway, tags=["one", "two"])
    return {"id": page["id"], "tags": ["one"]}, {"id": page["id"], "tags": ["two"]}


async def _delete(gateway: GatewayClient) -> tuple[Given, Given]:
    return own(await create_page(gateway)), own(await create_page(gateway))


# Two inputs for each mutation. Both succeed, alone and one after the other.
CASES: dict[str, Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]] = {
    "createSection": _create_section,
    "createPage": _create_page,
    "createBlogEntry": _create_entry,
    "editText": _edit_text,
    "editMetadata": _edit_metadata,
    "restoreRevision": _restore,
    "addTags": _add_tags,
    "removeTags": _remove_tags,
    "deleteContent": _delete,
}
