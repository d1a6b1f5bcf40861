"""Nodes of the site: creating them, reading them by path, id, list and tag, and their visibility."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.content.creation import NewNode, create_node
from portico.resolvers.content.nodes import PHOTO
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.roles import Role
from portico.schema.scalars import format_instant
from tests.content.support.site import (
    FUTURE,
    PAST,
    at,
    create_entry,
    create_page,
    create_section,
    entry_input,
    page_input,
    section_input,
)
from tests.support.harness import GatewayClient
from tests.support.ids import key_in

CHILDREN = """
query ($path: String!, $first: Int = 20, $after: String) {
  content(path: $path) {
    ... on Section {
      children(first: $first, after: $after) { nodes { slug path } pageInfo { hasNextPage hasPreviousPage endCursor } }
    }
  }
}
"""
ENTRIES = """
query ($path: String!, $first: Int = 20, $after: String) {
  content(path: $path) {
    ... on Section {
      entries(first: $first, after: $after) { nodes { slug text publishOn } pageInfo { hasNextPage endCursor } }
    }
  }
}
"""
LISTS = ("ids", "paths", "children", "tags")
TAGGED = "query ($tag: String!) { contentByTag(tag: $tag) { nodes { __typename slug path } edges { cursor } } }"
BY_ID = "query ($id: ID!) { node(id: $id) { __typename ... on ContentNode { slug path } } }"


async def children(gateway: GatewayClient, path: str, **options: Any) -> list[str]:
    found = (await gateway.data(CHILDREN, {"path": path}, **options))["content"]["children"]["nodes"]
    return [node["slug"] for node in found]


async def entries(gateway: GatewayClient, path: str, **options: Any) -> list[str]:
    found = (await gateway.data(ENTRIES, {"path": path}, **options))["content"]["entries"]["nodes"]
    return [node["slug"] for node in found]


async def tagged(gateway: GatewayClient, tag: str, **options: Any) -> list[str]:
    return [node["slug"] for node in (await gateway.data(TAGGED, {"tag": tag}, **options))["contentByTag"]["nodes"]]


async def test_a_page_is_found_at_its_path_with_its_fields(gateway: GatewayClient) -> None:
    folder = await create_section(gateway, slug="docs")
    inner = await create_section(gateway, slug="guides", parentId=folder["id"])
    made = await create_page(
        gateway, slug="first-steps", title="  First\nsteps ", text="*Hello*\n", parentId=inner["id"], tags=["b", "a"]
    )

    found = await at(gateway, "/docs/guides/first-steps")

    assert found == {
        "__typename": "Page",
        "id": made["id"],
        "slug": "first-steps",
        "path": "/docs/guides/first-steps",
        "title": "First steps",
        "tags": ["b", "a"],
        "nonce": made["nonce"],
        "created": made["created"],
        "updated": made["created"],
        "author": {"userId": "tester", "name": "tester"},
        "parent": {"path": "/docs/guides"},
        "text": "*Hello*\n",
        "html": "<p><em>Hello</em></p>\n",
    }
    assert made["path"] == found["path"]


async def test_the_author_has_the_name_from_the_token(gateway: GatewayClient) -> None:
    now = gateway.state.clock.now()
    token = gateway.state.authenticator.issue("u-17", [Role.EDITOR], now=now, lasts=timedelta(hours=1), name=" Rick ")

    made = (await gateway.result("createPage", page_input(), token=token))["content"]

    assert made["author"] == {"userId": "u-17", "name": "Rick"}


async def test_a_path_leads_to_one_node_of_any_type(gateway: GatewayClient) -> None:
    folder = await create_section(gateway, slug="docs")
    await create_page(gateway, slug="about", parentId=folder["id"])
    await create_page(gateway, slug="about")

    section = await gateway.result("createSection", section_input(slug="about", parentId=folder["id"]))
    page = await gateway.result("createPage", page_input(slug="about"))

    taken = {"__typename": "SlugTaken", "message": "The slug 'about' is taken.", "slug": "about"}
    assert (section, page) == (taken, taken)
    assert (await at(gateway, "/docs/about"))["id"] != (await at(gateway, "/about"))["id"]


@pytest.mark.sample(3)
@pytest.mark.both_drivers
@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "about",
        "/about/",
        "//about",
        "/docs//about",
        "/./about",
        "/docs/../about",
        "/docs/..%2fabout",
        "/%61bout",
        "/About",
        "/about?x=1",
        "/about\u0000",
        "/about/below",
        "/none/about",
        "/$where",
        "/a" * 17,
        "/about" * 10_000,
        "/" + "a" * 201,
    ],
    ids=lambda path: repr(path[:20]),
)
async def test_any_other_path_is_not_found(gateway: GatewayClient, path: str) -> None:
    folder = await create_section(gateway, slug="docs")
    await create_page(gateway, slug="about", parentId=folder["id"])
    await create_page(gateway, slug="about")

    assert await at(gateway, path) is None


async def test_each_type_of_node_is_created_only_below_its_kind_of_section(gateway: GatewayClient) -> None:
    folder, blog, gallery = [await create_section(gateway, kind) for kind in ("FOLDER", "BLOG", "GALLERY")]
    page, entry = await create_page(gateway), await create_entry(gateway, blog)
    places = {"folder": folder, "blog": blog, "gallery": gallery, "page": page, "entry": entry}
    expected = {"createSection": {"folder", "blog", "gallery"}, "createPage": {"folder"}, "createBlogEntry": {"blog"}}

    for mutation, allowed in expected.items():
        for name, place in places.items():
            given = {
                "createSection": section_input(parentId=place["id"]),
                "createPage": page_input(parentId=place["id"]),
                "createBlogEntry": entry_input(place),
            }[mutation]
            result = await gateway.result(mutation, given)
            if name in allowed:
                assert result["__typename"] == "ContentPayload", (mutation, name)
            else:
                path = ["blogId" if mutation == "createBlogEntry" else "parentId"]
                assert (result["__typename"], result["path"]) == ("InvalidInput", path), (mutation, name)


async def test_a_path_has_at_most_sixteen_slugs(gateway: GatewayClient) -> None:
    section = await create_section(gateway, slug="a")
    for _ in range(14):
        section = await create_section(gateway, slug="a", parentId=section["id"])
    deepest = await create_page(gateway, slug="a", parentId=section["id"])
    last = await create_section(gateway, slug="b", parentId=section["id"])

    too_deep = await gateway.result("createPage", page_input(parentId=last["id"]))

    assert deepest["path"] == "/a" * 16
    assert (await at(gateway, "/a" * 16))["id"] == deepest["id"]
    assert (too_deep["__typename"], too_deep["path"]) == ("InvalidInput", ["parentId"])


BAD: list[tuple[str, dict[str, Any], list[str]]] = [
    ("a slug with an accent", {"slug": "caf\u00e9"}, ["slug"]),
    ("a slug with a slash", {"slug": "a/b"}, ["slug"]),
    ("a slug that goes up", {"slug": ".."}, ["slug"]),
    ("an empty slug", {"slug": ""}, ["slug"]),
    ("a long slug", {"slug": "a" * 201}, ["slug"]),
    ("no title", {"title": " \n "}, ["title"]),
    ("a long title", {"title": "a" * 301}, ["title"]),
    ("a title with a NUL", {"title": "a\0b"}, ["title"]),
    ("a long text", {"text": "a" * (256 * 1024 + 1)}, ["text"]),
    ("a text with a NUL", {"text": "\0"}, ["text"]),
    ("an empty tag", {"tags": ["a", " "]}, ["tags", "1"]),
    ("a long tag", {"tags": ["a" * 101]}, ["tags", "0"]),
    ("too many tags", {"tags": [str(number) for number in range(101)]}, ["tags"]),
]


@pytest.mark.parametrize(("fields", "path"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
async def test_invalid_fields_of_a_node_are_refused(
    gateway: GatewayClient, fields: dict[str, Any], path: list[str]
) -> None:
    blog = await create_section(gateway, "BLOG")

    for mutation, given in (("createPage", page_input(**fields)), ("createBlogEntry", entry_input(blog, **fields))):
        result = await gateway.result(mutation, given)
        assert (result["__typename"], result.get("path")) == ("InvalidInput", path), result
    assert await gateway.db["cms.nodes"].count_documents({}) == 1


async def test_texts_are_stored_unchanged_and_tags_are_a_set(gateway: GatewayClient) -> None:
    text = " \r\n# é\u0301 {{ x }} $set \x0b\n\n"
    made = await create_page(gateway, slug="a", text=text, tags=["a  b", " a b ", "<b>x</b>", "$set", "A b"])
    empty = await create_page(gateway, text="")

    assert (made["text"], empty["text"]) == (text, "")
    assert made["tags"] == ["a b", "<b>x</b>", "$set", "A b"]
    assert await tagged(gateway, " a  b ") == ["a"]
    assert await tagged(gateway, "<b>x</b>") == ["a"]
    assert await tagged(gateway, "a B") == []


async def test_an_unknown_parent_is_not_found(gateway: GatewayClient) -> None:
    folder = await create_section(gateway)
    await gateway.db["cms.nodes"].delete_many({})

    gone = await gateway.result("createPage", page_input(parentId=folder["id"]))
    other = await gateway.result("createPage", page_input(parentId="x"))

    assert gone == {"__typename": "NotFound", "message": "There is no such content node.", "missingId": folder["id"]}
    assert other == {"__typename": "NotFound", "message": "The id is not that of a content node.", "missingId": None}


async def test_children_are_sorted_by_title_and_paged(gateway: GatewayClient) -> None:
    folder = await create_section(gateway, slug="docs")
    for slug, title in (("c", "A"), ("b", "B"), ("a", "B"), ("d", "C")):
        await create_page(gateway, slug=slug, title=title, parentId=folder["id"])
    await create_page(gateway)

    whole = await children(gateway, "/docs")
    found: list[str] = []
    after = None
    while True:
        page = (await gateway.data(CHILDREN, {"path": "/docs", "first": 1, "after": after}))["content"]["children"]
        found += [node["path"] for node in page["nodes"]]
        assert page["pageInfo"]["hasPreviousPage"] is (after is not None)
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break

    assert (whole[0], set(whole[1:3]), whole[3]) == ("c", {"a", "b"}, "d")
    assert found == [f"/docs/{slug}" for slug in whole]


@pytest.mark.both_drivers
async def test_readers_see_only_published_nodes_and_editors_see_all(gateway: GatewayClient) -> None:
    blog = await create_section(gateway, "BLOG", slug="blog")
    made = {
        "draft": await create_entry(gateway, blog, slug="draft", publishOn=None, tags=["t"]),
        "future": await create_entry(gateway, blog, slug="future", publishOn=FUTURE, tags=["t"]),
        "past": await create_entry(gateway, blog, slug="past", publishOn=PAST, tags=["t"]),
    }
    now = gateway.clock.now()
    soon = format_instant(now + timedelta(hours=2))
    made["soon"] = await create_entry(gateway, blog, slug="soon", publishOn=soon, tags=["t"])
    merchant = gateway.token(roles=[MERCHANT])

    async def seen(**options: Any) -> dict[str, set[str]]:
        by_id = {
            slug: (await gateway.data(BY_ID, {"id": node["id"]}, **options))["node"] for slug, node in made.items()
        }
        by_path = {slug: await at(gateway, f"/blog/{slug}", **options) for slug in made}
        return {
            "ids": {slug for slug, node in by_id.items() if node},
            "paths": {slug for slug, node in by_path.items() if node},
            "children": set(await children(gateway, "/blog", **options)),
            "tags": set(await tagged(gateway, "t", **options)),
        }

    assert await seen() == {name: set(made) for name in LISTS}
    for token in (None, merchant):
        assert await seen(token=token) == {name: {"past"} for name in LISTS}
    for token in (None, merchant, ""):
        assert await entries(gateway, "/blog", token=token) == ["past"]

    gateway.clock.advance(hours=3)

    assert await seen(token=None) == {name: {"past", "soon"} for name in LISTS}
    assert await entries(gateway, "/blog", token=None) == ["soon", "past"]


async def test_only_editors_see_a_photo_without_bytes(gateway: GatewayClient) -> None:
    gallery = await create_section(gateway, "GALLERY", slug="pictures")
    now = gateway.state.clock.now()
    photo = await create_node(
        gateway.db,
        type_=PHOTO,
        node=NewNode("bike", "Bike", {"id": "a", "name": "A"}, key_in("ContentNode", gallery["id"]), ["t"]),
        detail={"locked": now},
        now=now,
        operation_id="r-photo",
    )

    assert await children(gateway, "/pictures") == await tagged(gateway, "t") == ["bike"]
    assert (await at(gateway, "/pictures/bike"))["__typename"] == "Photo"
    assert await children(gateway, "/pictures", token=None) == await tagged(gateway, "t", token=None) == []
    assert await at(gateway, "/pictures/bike", token=None) is None

    whole = {"detail.file": ObjectId(), "visible_from": now}
    await gateway.db["cms.nodes"].update_one({"_id": photo["_id"]}, {"$set": whole})

    assert await children(gateway, "/pictures", token=None) == await tagged(gateway, "t", token=None) == ["bike"]


async def test_entries_are_paged_newest_first_and_a_cursor_stays_valid_as_time_passes(gateway: GatewayClient) -> None:
    blog = await create_section(gateway, "BLOG", slug="blog")
    for day in (2, 4, 1, 3):
        await create_entry(gateway, blog, slug=f"day-{day}", publishOn=f"2020-01-0{day}T00:00:00Z")
    await create_section(gateway, parentId=blog["id"], slug="attic")

    first = (await gateway.data(ENTRIES, {"path": "/blog", "first": 2}, token=None))["content"]["entries"]
    gateway.clock.advance(minutes=5)
    after = {"path": "/blog", "first": 2, "after": first["pageInfo"]["endCursor"]}
    second = (await gateway.data(ENTRIES, after, token=None))["content"]["entries"]

    assert [node["slug"] for node in first["nodes"]] == ["day-4", "day-3"]
    assert [node["slug"] for node in second["nodes"]] == ["day-2", "day-1"]
    assert (first["pageInfo"]["hasNextPage"], second["pageInfo"]["hasNextPage"]) == (True, False)
    assert await entries(gateway, "/blog/attic") == []


async def test_a_retried_creation_creates_one_node(gateway: GatewayClient) -> None:
    given = page_input(idempotencyKey="one")

    first, again = [await gateway.result("createPage", given) for _ in range(2)]

    assert first == again
    assert await gateway.db["cms.nodes"].count_documents({}) == 1
    assert await gateway.db["cms.revisions"].count_documents({}) == 1
