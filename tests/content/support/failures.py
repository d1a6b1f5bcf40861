"""Failures of the site's mutations."""

from __future__ import annotations

from typing import Any

from bson import ObjectId

from portico.schema.kinds import Kind
from portico.testing.kits import Failing, Failure, fails_with
from tests.content.support.site import create_page, create_section, own, page_input, section_input
from tests.support.harness import GatewayClient

Given = dict[str, Any]
NOWHERE = Kind.encode_id("ContentNode", ObjectId())
NO_NODE = {"id": NOWHERE, "nonce": "n"}


async def _taken(gateway: GatewayClient, given: Given) -> Failure:
    other = await create_page(gateway, slug="taken", parentId=given.get("parentId", given.get("blogId")))
    return Failure({**given, "slug": "taken"}, lambda: gateway.result("editMetadata", own(other, slug="free")))


async def _section_taken(gateway: GatewayClient) -> Failure:
    return await _taken(gateway, section_input())


async def _page_taken(gateway: GatewayClient) -> Failure:
    return await _taken(gateway, page_input())


async def _entry_taken(gateway: GatewayClient) -> Failure:
    blog = await create_section(gateway, "BLOG")
    other = await create_section(gateway, slug="taken", parentId=blog["id"])
    given = {**page_input(), "blogId": blog["id"], "slug": "taken"}
    return Failure(given, lambda: gateway.result("editMetadata", own(other, slug="free")))


async def _metadata_taken(gateway: GatewayClient) -> Failure:
    return await _taken(gateway, own(await create_page(gateway)))


async def _not_empty(gateway: GatewayClient) -> Failure:
    section = await create_section(gateway)
    below = await create_page(gateway, parentId=section["id"])
    return Failure(own(section), lambda: gateway.result("deleteContent", own(below)))


def _of_page(**fields: Any) -> Failing:
    async def fail(gateway: GatewayClient) -> Failure:
        return Failure({**own(await create_page(gateway)), **fields})

    return fail


FAILURES: dict[tuple[str, str], Failing] = {
    ("createSection", "SlugTaken"): _section_taken,
    ("createSection", "NotFound"): fails_with(lambda: section_input(parentId=NOWHERE)),
    ("createSection", "InvalidInput"): fails_with(lambda: section_input(title="")),
    ("createPage", "SlugTaken"): _page_taken,
    ("createPage", "NotFound"): fails_with(lambda: page_input(parentId=NOWHERE)),
    ("createPage", "InvalidInput"): fails_with(lambda: page_input(tags=[""])),
    ("createBlogEntry", "SlugTaken"): _entry_taken,
    ("createBlogEntry", "NotFound"): fails_with(lambda: page_input(blogId=NOWHERE)),
    ("createBlogEntry", "InvalidInput"): fails_with(lambda: page_input(blogId=NOWHERE, slug="a b")),
    ("editText", "NotFound"): fails_with(lambda: {**NO_NODE, "text": "x"}),
    ("editText", "InvalidInput"): _of_page(text="\0"),
    ("editMetadata", "SlugTaken"): _metadata_taken,
    ("editMetadata", "NotFound"): fails_with(lambda: {**NO_NODE, "title": "x"}),
    ("editMetadata", "InvalidInput"): _of_page(title=""),
    ("restoreRevision", "NotFound"): _of_page(revisionId="x"),
    ("addTags", "NotFound"): fails_with(lambda: {"id": NOWHERE, "tags": ["x"]}),
    ("addTags", "InvalidInput"): fails_with(lambda: {"id": NOWHERE, "tags": [""]}),
    ("removeTags", "NotFound"): fails_with(lambda: {"id": NOWHERE, "tags": ["x"]}),
    ("removeTags", "InvalidInput"): fails_with(lambda: {"id": NOWHERE, "tags": [""]}),
    ("deleteContent", "SectionNotEmpty"): _not_empty,
    ("deleteContent", "NotFound"): fails_with(lambda: NO_NODE),
}
# Cases without a failure here. A conflict is not a final answer, and restoring a revision never violates a rule.
ELSEWHERE = {
    ("editText", "EditConflict"),
    ("editText", "SlugTaken"),
    ("editMetadata", "EditConflict"),
    ("restoreRevision", "EditConflict"),
    ("restoreRevision", "SlugTaken"),
    ("restoreRevision", "InvalidInput"),
    ("deleteContent", "EditConflict"),
    # A photo is locked only for a time. Uploads have separate tests.
    ("deleteContent", "PhotoLocked"),
    *(("uploadPhoto", name) for name in ("SlugTaken", "UnacceptableFile", "NotFound", "InvalidInput", "Conflict")),
    *(("replacePhoto", name) for name in ("EditConflict", "PhotoLocked", "UnacceptableFile", "NotFound")),
}
