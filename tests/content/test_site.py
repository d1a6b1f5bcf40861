"""What the pages of a site show: the navigation, the cards of blog entries, and what the viewer may change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.clock import SystemClock
from tests.content.support.photos import create_gallery, create_photo
from tests.content.support.site import create_entry, create_page, create_section, own
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


async def test_the_navigation_has_the_sections_at_the_root_with_their_children(gateway: GatewayClient) -> None:
    docs = await create_section(gateway, slug="docs", title="Docs")
    await create_section(gateway, "BLOG", slug="blog", title="A blog")
    await create_page(gateway, title="About")
    await create_page(gateway, parentId=docs["id"], slug="faq", title="FAQ")
    await create_section(gateway, parentId=docs["id"], slug="api", title="API")
    for _ in range(20):
        await create_page(gateway)
    gateway.commands.clear()

    found = await gateway.data(NAVIGATION, token=None)

    children = [{"title": "API", "path": "/docs/api"}, {"title": "FAQ", "path": "/docs/faq"}]
    assert found["rootSections"]["nodes"] == [
        {"title": "A blog", "path": "/blog", "children": {"nodes": []}},
        {"title": "Docs", "path": "/docs", "children": {"nodes": children}},
    ]
    assert sorted(gateway.commands.names()) == ["aggregate cms.nodes", "find cms.nodes", "find cms.nodes"]
    plans = [plan for one in list(gateway.commands.sent) for plan in await explain(gateway.db, one)]
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
        answer = await gateway.data(DELETE, {"input": own(node)})
        assert (answer["deleteContent"]["__typename"] == "DeletedPayload") is is_allowed


async def test_a_photo_with_an_upload_in_progress_may_not_be_deleted(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway))
    upload = {"op": "other", "file": ObjectId(), "until": SystemClock().now() + timedelta(minutes=1)}
    locked = {"detail.upload": upload, "detail.locked": SystemClock().now()}
    for change, may, result in (({"$set": locked}, False, "PhotoLocked"), ({"$unset": locked}, True, "DeletedPayload")):
        await gateway.db["cms.nodes"].update_one({"type": "photo"}, change)
        [found] = (await gateway.data(MAY, {"ids": [photo["id"]]}))["nodes"]
        assert found == {"viewerCanEdit": True, "viewerCanDelete": may}
        answer = await gateway.data(DELETE, {"input": own(photo)})
        assert answer["deleteContent"]["__typename"] == result


COVER = """
query ($path: String!) {
  content(path: $path) { ... on BlogEntry { cover { url thumbnailUrl width height alt } } }
}
"""


async def _cover(gateway: GatewayClient, text: str) -> Any:
    blog = await create_section(gateway, "BLOG")
    entry = await create_entry(gateway, blog, text=text)
    return (await gateway.data(COVER, {"path": entry["path"]}, token=None))["content"]["cover"]


async def test_the_cover_of_an_entry_is_the_first_picture_in_its_text(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway))
    path = photo["url"]

    found = await _cover(gateway, f"Words\n\n[![Two *hills*]({path})](/x) ![other](https://example.com/b.png)")

    assert (found["url"], found["alt"]) == (path, "Two hills")
    assert (found["width"], found["height"]) == (photo["width"], photo["height"])
    assert found["thumbnailUrl"].startswith(f"{path}?width=")


async def test_a_picture_of_another_server_has_no_size(gateway: GatewayClient) -> None:
    url = "https://example.com/b.png"

    assert await _cover(gateway, f"![]({url})") == {
        "url": url,
        "thumbnailUrl": url,
        "width": None,
        "height": None,
        "alt": "",
    }


@pytest.mark.parametrize(
    "text", ["", "Words", "![a](javascript:alert)", "`![a](/b.png)`", f"![gone](/assets/{ObjectId()}/{'0' * 64}/a.png)"]
)
async def test_an_entry_without_a_picture_has_no_cover(gateway: GatewayClient, text: str) -> None:
    assert await _cover(gateway, text) is None


async def test_the_covers_of_a_page_of_entries_take_one_command(gateway: GatewayClient, commands: Commands) -> None:
    gallery, blog = await create_gallery(gateway), await create_section(gateway, "BLOG")
    photos = [await create_photo(gateway, gallery, slug=f"photo-{number}") for number in range(3)]
    for photo in photos:
        await create_entry(gateway, blog, text=f"![x]({photo['url']})")
    text = "query ($path: String!) { content(path: $path) { ... on Section { entries { nodes { cover { url } } } } } }"
    commands.clear()

    found = await gateway.data(text, {"path": blog["path"]}, token=None)

    covers = {node["cover"]["url"] for node in found["content"]["entries"]["nodes"]}
    assert covers == {photo["url"] for photo in photos}
    assert commands.names() == ["find cms.nodes"] * 3


async def test_all_nodes_at_the_root_are_listed_in_pages(gateway: GatewayClient) -> None:
    docs = await create_section(gateway, title="Docs")
    await create_page(gateway, parentId=docs["id"], title="Inside")
    for title in ("About", "Imprint"):
        await create_page(gateway, title=title)
    text = "query ($after: String) { rootContent(first: 2, after: $after) { nodes { title } pageInfo { endCursor } } }"

    first = (await gateway.data(text, token=None))["rootContent"]
    rest = (await gateway.data(text, {"after": first["pageInfo"]["endCursor"]}, token=None))["rootContent"]

    assert [node["title"] for node in first["nodes"] + rest["nodes"]] == ["About", "Docs", "Imprint"]


SUGGEST = "query ($text: String!) { suggest(text: $text) { kind title match { text isMatch } node { id } } }"


async def _suggested(gateway: GatewayClient, text: str, **options: Any) -> list[str]:
    found = (await gateway.data(SUGGEST, {"text": text}, **options))["suggest"]
    assert {one["kind"] for one in found} <= {"ContentNode"}
    return [one["title"] for one in found]


async def test_pages_are_suggested_while_a_person_types(gateway: GatewayClient, commands: Commands) -> None:
    blog = await create_section(gateway, "BLOG", title="A blog of Amélie's")
    page = await create_page(gateway, title="About the blog")
    await create_page(gateway, title="Imprint")
    commands.clear()

    (first, second) = (await gateway.data(SUGGEST, {"text": "blo"}, token=None))["suggest"]

    assert [first["title"], second["title"]] == ["About the blog", "A blog of Amélie's"]
    assert (first["node"]["id"], second["node"]["id"]) == (page["id"], blog["id"])
    assert first["match"][1] == {"text": "blo", "isMatch": True}
    assert [name for name in commands.names() if "cms" in name] == ["aggregate cms.nodes", "find cms.nodes"]
    plans = [plan for one in list(commands.sent) if "cms" in str(one) for plan in await explain(gateway.db, one)]
    assert not any(plan.scans_collection or plan.sorts_in_memory for plan in plans)
    assert await _suggested(gateway, "AMELIES blo") == ["A blog of Amélie's"]
    assert await _suggested(gateway, "blub") == []


@pytest.mark.parametrize("text", ["imprnt", "impint", "imprimt", "imprintt", "imprnit", "imprint offcie"])
async def test_pages_are_suggested_for_words_with_one_typo(
    gateway: GatewayClient, commands: Commands, text: str
) -> None:
    await create_page(gateway, title="Imprint of the Office")
    await create_page(gateway, title="About")
    commands.clear()

    (found,) = (await gateway.data(SUGGEST, {"text": text}, token=None))["suggest"]

    assert "".join(part["text"] for part in found["match"] if part["isMatch"]) in {"Imprint", "ImprintOffice"}
    plans = [plan for one in list(commands.sent) if "cms" in str(one) for plan in await explain(gateway.db, one)]
    assert not any(plan.scans_collection or plan.sorts_in_memory for plan in plans)


async def test_a_typo_finds_only_the_pages_that_the_caller_sees(gateway: GatewayClient) -> None:
    blog = await create_section(gateway, "BLOG", title="News")
    await create_entry(gateway, blog, title="Secret", publishOn=None)
    await create_entry(gateway, blog, title="Secrat")

    assert await _suggested(gateway, "secret") == ["Secret"]
    assert await _suggested(gateway, "secret", token=None) == ["Secrat"]
    assert await _suggested(gateway, "secrets", token=None) == []


async def test_an_edit_of_the_title_changes_by_what_a_page_is_suggested(gateway: GatewayClient) -> None:
    page = await create_page(gateway, title="Before")
    given = own(page, title="Afterwards")

    await gateway.result("editMetadata", given)

    assert (await _suggested(gateway, "befor"), await _suggested(gateway, "afterw")) == ([], ["Afterwards"])


async def test_drafts_are_suggested_to_editors_only(gateway: GatewayClient) -> None:
    blog = await create_section(gateway, "BLOG", title="News")
    await create_entry(gateway, blog, title="Draft", publishOn=None)
    await create_entry(gateway, blog, title="Drafty", publishOn="2999-01-01T00:00:00Z")
    await create_entry(gateway, blog, title="Drafts")

    assert await _suggested(gateway, "draft") == ["Draft", "Drafts", "Drafty"]
    for token in (None, gateway.token("reader", [])):
        assert await _suggested(gateway, "draft", token=token) == ["Drafts"]


async def test_pages_of_a_former_version_are_suggested_after_their_upgrade(gateway: GatewayClient) -> None:
    page = await create_page(gateway, title="Old page")
    former = {"$unset": {"words": "", "near": "", "schema_version": ""}}
    await gateway.db["cms.nodes"].update_one({"title": "Old page"}, former)
    assert await _suggested(gateway, "old") == []

    await gateway.data("query ($path: String!) { content(path: $path) { title } }", {"path": page["path"]})

    assert await _suggested(gateway, "old") == await _suggested(gateway, "pgae") == ["Old page"]
