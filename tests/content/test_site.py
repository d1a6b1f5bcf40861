"""What the pages of a site show: the navigation, the cards of blog entries, and what the viewer may change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.clock import SystemClock
from tests.content.support.photos import create_gallery, create_photo
from tests.content.support.site import create_entry, create_page, create_section
from tests.support.explaining import explain
from tests.support.harness import Commands, GatewayClient

pytestmark = pytest.mark.anyio
NAVIGATION = """
{
  rootSections(first: 10) {
    nodes { title path ... on Section { children(first: 5) { nodes { title path } } } }
  }
}
"""
ENTRY = """
query ($path: String!, $length: Int! = 200) {
  content(path: $path) { ... on BlogEntry { excerpt(length: $length) readingMinutes } }
}
"""
MAY = "query ($ids: [ID!]!) { nodes(ids: $ids) { ... on ContentNode { viewerCanEdit viewerCanDelete } } }"
DELETE = "mutation ($input: DeleteContentInput!) { deleteContent(input: $input) { __typename } }"


async def test_the_navigation_has_the_sections_at_the_root_with_their_children(
    gateway: GatewayClient, commands: Commands
) -> None:
    docs = await create_section(gateway, slug="docs", title="Docs")
    await create_section(gateway, "BLOG", slug="blog", title="A blog")
    await create_page(gateway, title="About")
    await create_page(gateway, parentId=docs["id"], slug="faq", title="FAQ")
    await create_section(gateway, parentId=docs["id"], slug="api", title="API")
    for _ in range(20):
        await create_page(gateway)
    commands.clear()

    found = await gateway.data(NAVIGATION, token=None)

    children = [{"title": "API", "path": "/docs/api"}, {"title": "FAQ", "path": "/docs/faq"}]
    assert found["rootSections"]["nodes"] == [
        {"title": "A blog", "path": "/blog", "children": {"nodes": []}},
        {"title": "Docs", "path": "/docs", "children": {"nodes": children}},
    ]
    assert sorted(commands.names()) == ["aggregate cms.nodes", "find cms.nodes", "find cms.nodes"]
    plans = [plan for one in list(commands.sent) for plan in await explain(gateway.db, one)]
    assert not any(plan.scans_collection or plan.sorts_in_memory for plan in plans)
    assert max(plan.documents_examined for plan in plans) <= 4


async def _entry(gateway: GatewayClient, text: str, **given: Any) -> Any:
    blog = await create_section(gateway, "BLOG")
    entry = await create_entry(gateway, blog, text=text)
    return await gateway.ask(ENTRY, {"path": entry["path"], **given}, token=None)


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        ("", ""),
        ("One *two*\nthree.", "One two three."),
        ("# A title\n\nThe `text` [of it](/x).\n\n* a point", "The text of it. a point"),
        ("![A picture](/a.png)Words\n\n```\ncode\n```\n\n<b onclick='x'>bold</b> & more", "Words bold & more"),
        ("word " * 100, "word " * 3 + "word…"),
        ("a" * 100, "a" * 19 + "…"),
    ],
)
async def test_an_excerpt_is_the_beginning_of_the_text_without_markup(
    gateway: GatewayClient, text: str, excerpt: str
) -> None:
    answer = await _entry(gateway, text, length=20 if len(text) >= 100 else 200)
    assert answer.data["content"]["excerpt"] == excerpt


@pytest.mark.parametrize(("count", "minutes"), [(0, 1), (200, 1), (201, 2), (1_000, 5)])
async def test_the_time_to_read_an_entry_follows_from_its_words(
    gateway: GatewayClient, count: int, minutes: int
) -> None:
    assert (await _entry(gateway, "word " * count)).data["content"]["readingMinutes"] == minutes


@pytest.mark.parametrize("length", [19, 501])
async def test_the_length_of_an_excerpt_is_bounded(gateway: GatewayClient, length: int) -> None:
    assert (await _entry(gateway, "Text", length=length)).codes == ["BAD_USER_INPUT"]


async def test_an_editor_may_delete_what_has_no_children(gateway: GatewayClient, commands: Commands) -> None:
    section, empty = await create_section(gateway), await create_section(gateway)
    page = await create_page(gateway, parentId=section["id"])
    ids = [section["id"], empty["id"], page["id"]]
    commands.clear()

    found = await gateway.data(MAY, {"ids": ids})

    may = [node["viewerCanDelete"] for node in found["nodes"]]
    assert may == [False, True, True]
    assert all(node["viewerCanEdit"] for node in found["nodes"])
    assert sorted(commands.names()) == ["aggregate cms.nodes", "find cms.nodes"]
    for caller in (None, gateway.token("reader", [])):
        none = {"viewerCanEdit": False, "viewerCanDelete": False}
        assert (await gateway.data(MAY, {"ids": ids}, token=caller))["nodes"] == [none] * 3
    for node, is_allowed in zip((section, empty, page), may, strict=True):
        answer = await gateway.data(DELETE, {"input": {"id": node["id"], "nonce": node["nonce"]}})
        assert (answer["deleteContent"]["__typename"] == "DeletedPayload") is is_allowed


async def test_a_photo_with_an_upload_in_progress_may_not_be_deleted(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway))
    upload = {"op": "other", "file": ObjectId(), "until": SystemClock().now() + timedelta(minutes=1)}
    locked = {"detail.upload": upload, "detail.locked": SystemClock().now()}
    for change, may, result in (
        ({"$set": locked}, False, "PhotoLocked"),
        ({"$unset": locked}, True, "DeletedPayload"),
    ):
        await gateway.db["cms.nodes"].update_one({"type": "photo"}, change)
        [found] = (await gateway.data(MAY, {"ids": [photo["id"]]}))["nodes"]
        assert found == {"viewerCanEdit": True, "viewerCanDelete": may}
        answer = await gateway.data(DELETE, {"input": {"id": photo["id"], "nonce": photo["nonce"]}})
        assert answer["deleteContent"]["__typename"] == result
