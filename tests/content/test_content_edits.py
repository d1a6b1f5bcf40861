"""Editing nodes: nonces, conflicts, revisions, tags and deletion."""

from __future__ import annotations

from typing import Any

import pytest

from portico.schema.catalog.merchants import MERCHANT
from portico.schema.roles import Role
from tests.content.support.patches import patched
from tests.content.support.site import (
    FUTURE,
    PAST,
    REVISIONS,
    at,
    create_entry,
    create_page,
    create_section,
    entry_input,
    own,
    page_input,
    section_input,
)
from tests.support.harness import MUTATIONS, GatewayClient, SettableClock, assert_invariants

Given = dict[str, Any]


async def edit(gateway: GatewayClient, node: Given, text: str, **options: Any) -> Given:
    given = own(node, text=text)
    found: Given = await gateway.result("editText", given, **options)
    return found


async def saved(gateway: GatewayClient, node: Given, text: str, **options: Any) -> Given:
    found: Given = (await gateway.payload("editText", own(node, text=text), **options))["content"]
    return found


async def revisions(gateway: GatewayClient, node: Given, **options: Any) -> list[Given]:
    found = (await gateway.data(REVISIONS, {"id": node["id"]}, **options))["node"]
    nodes: list[Given] = found["revisions"]["nodes"]
    return nodes


async def test_a_saved_edit_changes_the_nonce(gateway: GatewayClient, clock: SettableClock) -> None:
    page = await create_page(gateway, slug="about", text="One.\n")
    clock.advance(minutes=1)

    edited = await saved(gateway, page, "Two.\n")

    found = await at(gateway, "/about")
    assert (found["text"], found["nonce"]) == ("Two.\n", edited["nonce"])
    assert edited["nonce"] != page["nonce"]
    assert found["updated"] > found["created"] == page["created"]
    await assert_invariants(gateway)


async def test_revisions_keep_every_text_and_its_author_newest_first(gateway: GatewayClient) -> None:
    page = await create_page(gateway, text="One.\n")
    second = await saved(gateway, page, "Two.\n", token=gateway.token("bea", [Role.EDITOR]))
    third = await saved(gateway, second, "Three.\n")

    found = await revisions(gateway, page)

    written = [("Three.\n", "tester"), ("Two.\n", "bea"), ("One.\n", "tester")]
    assert [(one["text"], one["author"]["userId"]) for one in found] == written
    assert [one["nonce"] for one in found] == [third["nonce"], second["nonce"], page["nonce"]]
    again = await gateway.data(
        "query ($ids: [ID!]!) "
        "{ nodes(ids: $ids) { id ... on Revision { nonce text created author { userId name } } } }",
        {"ids": [one["id"] for one in found]},
    )
    assert again["nodes"] == found


async def test_revisions_are_paged(gateway: GatewayClient) -> None:
    page = await create_page(gateway, text="0")
    for number in range(1, 5):
        page = await saved(gateway, page, str(number))
    text = """
    query ($id: ID!, $after: String) {
      node(id: $id) {
        ... on Page { revisions(first: 2, after: $after) { nodes { text } pageInfo { hasNextPage endCursor } } }
      }
    }
    """
    found: list[str] = []
    after = None
    for _ in range(3):
        shown = (await gateway.data(text, {"id": page["id"], "after": after}))["node"]["revisions"]
        found += [one["text"] for one in shown["nodes"]]
        after = shown["pageInfo"]["endCursor"]

    assert found == ["4", "3", "2", "1", "0"]
    assert shown["pageInfo"]["hasNextPage"] is False


async def test_readers_see_no_revisions(gateway: GatewayClient) -> None:
    page = await create_page(gateway)
    (revision,) = await revisions(gateway, page)

    assert await revisions(gateway, page, token=None) == []
    by_id = "query ($id: ID!) { node(id: $id) { id } }"
    assert (await gateway.data(by_id, {"id": revision["id"]}, token=None))["node"] is None
    assert (await gateway.data(by_id, {"id": revision["id"]}))["node"] == {"id": revision["id"]}


async def test_a_conflict_includes_the_current_state_the_diff_and_the_merged_text(gateway: GatewayClient) -> None:
    page = await create_page(gateway, title="About", text="One.\n\nTwo.\n\nThree.\n")
    first = await saved(gateway, page, "ONE.\n\nTwo.\n\nThree.\n")

    outcome = await edit(gateway, page, "One.\n\nTwo.\n\nTHREE.\n")

    assert outcome["__typename"] == "EditConflict"
    assert outcome["message"] == "Somebody else has saved the node since you read it."
    assert outcome["current"] == {"title": "About", "nonce": first["nonce"]}
    assert outcome["baseText"] == "One.\n\nTwo.\n\nThree.\n"
    assert patched("ONE.\n\nTwo.\n\nThree.\n", outcome["diff"]) == "One.\n\nTwo.\n\nTHREE.\n"
    assert outcome["mergedText"] == "ONE.\n\nTwo.\n\nTHREE.\n"
    assert [one["text"] for one in await revisions(gateway, page)] == [first["text"], page["text"]]

    merged = await saved(gateway, {**page, "nonce": outcome["current"]["nonce"]}, outcome["mergedText"])
    assert merged["text"] == "ONE.\n\nTwo.\n\nTHREE.\n"


async def test_overlapping_edits_are_not_merged(gateway: GatewayClient) -> None:
    page = await create_page(gateway, text="One.\n")
    await saved(gateway, page, "Two.\n")

    outcome = await edit(gateway, page, "Three.\n")

    assert (outcome["__typename"], outcome["mergedText"], outcome["baseText"]) == ("EditConflict", None, "One.\n")


async def test_a_conflict_includes_the_base_after_several_edits(gateway: GatewayClient) -> None:
    page = await create_page(gateway, text="One.\n\nTwo.\n")
    now = page
    for number in range(3):
        now = await saved(gateway, now, f"One {number}.\n\nTwo.\n")

    outcome = await edit(gateway, page, "One.\n\nTwo!\n")

    assert (outcome["baseText"], outcome["mergedText"]) == ("One.\n\nTwo.\n", "One 2.\n\nTwo!\n")


@pytest.mark.parametrize("nonce", ["", "x", "$ne", "0" * 10_000])
async def test_an_unknown_nonce_is_a_conflict_without_a_base(gateway: GatewayClient, nonce: str) -> None:
    page = await create_page(gateway, text="One.\n")

    outcome = await edit(gateway, {**page, "nonce": nonce}, "Two.\n")

    assert (outcome["__typename"], outcome["baseText"], outcome["mergedText"]) == ("EditConflict", None, None)
    assert patched("One.\n", outcome["diff"]) == "Two.\n"


async def test_a_revision_is_restored_as_a_new_one(gateway: GatewayClient) -> None:
    page = await create_page(gateway, text="One.\n")
    second = await saved(gateway, page, "Two.\n")
    first_revision = (await revisions(gateway, page))[-1]
    given = {"id": page["id"], "revisionId": first_revision["id"]}

    restored = await gateway.result("restoreRevision", {**given, "nonce": second["nonce"]})
    late = await gateway.result("restoreRevision", {**given, "nonce": second["nonce"]})

    assert restored["content"]["text"] == "One.\n"
    assert restored["content"]["nonce"] not in {page["nonce"], second["nonce"]}
    assert [one["text"] for one in await revisions(gateway, page)] == ["One.\n", "Two.\n", "One.\n"]
    assert (late["__typename"], late["diff"]) == ("EditConflict", "")


async def test_a_revision_of_another_node_is_not_found(gateway: GatewayClient) -> None:
    page, other = await create_page(gateway), await create_page(gateway)
    (revision,) = await revisions(gateway, other)
    for revision_id in (revision["id"], page["id"], "x"):
        given = own(page, revisionId=revision_id)

        assert (await gateway.result("restoreRevision", given))["__typename"] == "NotFound"


async def test_an_edit_of_metadata_keeps_omitted_fields(gateway: GatewayClient) -> None:
    blog = await create_section(gateway, "BLOG", slug="blog")
    entry = await create_entry(gateway, blog, slug="first", title="First", publishOn=None, text="Text.")

    async def change(**changes: Any) -> Given:
        node = await at(gateway, "/blog/first") or await at(gateway, "/blog/other")
        given = {"id": entry["id"], "nonce": node["nonce"], **changes}
        found: Given = (await gateway.payload("editMetadata", given))["content"]
        return found

    retitled = await change(title=" Other ")
    moved = await change(slug="other")
    published = await change(publishOn=PAST)

    assert (retitled["title"], retitled["slug"], retitled["publishOn"]) == ("Other", "first", None)
    assert (moved["title"], moved["path"], moved["text"]) == ("Other", "/blog/other", "Text.")
    assert (await at(gateway, "/blog/other", token=None))["publishOn"] == published["publishOn"] == PAST
    assert (await change())["nonce"] == published["nonce"]
    assert (await change(publishOn=FUTURE))["publishOn"] == FUTURE
    assert await at(gateway, "/blog/other", token=None) is None
    assert (await change(publishOn=None))["publishOn"] is None
    assert [one["text"] for one in await revisions(gateway, entry)] == ["Text."] * 6
    await assert_invariants(gateway)


async def test_a_new_slug_of_a_section_changes_the_paths_below_it(gateway: GatewayClient) -> None:
    section = await create_section(gateway, slug="old")
    inner = await create_section(gateway, slug="inner", parentId=section["id"])
    await create_page(gateway, slug="page", parentId=inner["id"])

    await gateway.result("editMetadata", own(section, slug="new"))

    assert await at(gateway, "/old/inner/page") is None
    found = await at(gateway, "/new/inner/page")
    assert (found["path"], found["parent"]) == ("/new/inner/page", {"path": "/new/inner"})


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"title": None}, ["title"]),
        ({"title": " "}, ["title"]),
        ({"slug": None}, ["slug"]),
        ({"slug": "a b"}, ["slug"]),
        ({"publishOn": PAST}, ["publishOn"]),
        ({"publishOn": None}, ["publishOn"]),
    ],
)
async def test_invalid_metadata_is_refused(gateway: GatewayClient, changes: Given, path: list[str]) -> None:
    page = await create_page(gateway)

    outcome = await gateway.result("editMetadata", own(page, **changes))

    assert (outcome["__typename"], outcome["path"]) == ("InvalidInput", path)


async def test_a_slug_of_another_node_is_taken(gateway: GatewayClient) -> None:
    page, other = await create_page(gateway, slug="a"), await create_section(gateway, slug="b")

    outcome = await gateway.result("editMetadata", own(page, slug="b"))

    assert outcome == {"__typename": "SlugTaken", "message": "The slug 'b' is taken.", "slug": "b"}
    same = await gateway.result("editMetadata", own(other, slug="b"))
    assert same["__typename"] == "ContentPayload"
    await assert_invariants(gateway)


async def test_editing_metadata_with_a_stale_nonce_is_a_conflict(gateway: GatewayClient) -> None:
    page, section = await create_page(gateway, text="One."), await create_section(gateway)
    await saved(gateway, page, "Two.")
    await gateway.result("editMetadata", own(section, title="Other"))

    of_page = await gateway.result("editMetadata", own(page, title="x"))
    of_section = await gateway.result("editMetadata", own(section, title="x"))

    assert (of_page["__typename"], of_page["baseText"], of_page["diff"], of_page["mergedText"]) == (
        "EditConflict",
        "One.",
        "",
        None,
    )
    assert (of_section["__typename"], of_section["baseText"], of_section["current"]["title"]) == (
        "EditConflict",
        None,
        "Other",
    )


async def test_a_section_has_no_text(gateway: GatewayClient) -> None:
    section = await create_section(gateway)

    outcome = await edit(gateway, section, "x")

    assert (outcome["__typename"], outcome["path"]) == ("InvalidInput", ["id"])


async def test_a_text_that_is_too_long_is_refused(gateway: GatewayClient) -> None:
    page = await create_page(gateway)

    outcome = await edit(gateway, page, "x" * (256 * 1024 + 1))

    assert (outcome["__typename"], outcome["path"]) == ("InvalidInput", ["text"])


async def test_tags_are_added_and_removed_without_a_nonce(gateway: GatewayClient, clock: SettableClock) -> None:
    page = await create_page(gateway, slug="page", tags=["a"])
    clock.advance(minutes=1)

    added = await gateway.result("addTags", {"id": page["id"], "tags": ["b", " a ", "c  d"]})
    removed = await gateway.result("removeTags", {"id": page["id"], "tags": ["a", "none"]})
    found = await at(gateway, "/page")

    assert added["content"]["tags"] == ["a", "b", "c d"]
    assert removed["content"]["tags"] == found["tags"] == ["b", "c d"]
    assert found["nonce"] == page["nonce"]
    assert found["updated"] > page["updated"]
    assert (await edit(gateway, page, "Still."))["__typename"] == "ContentPayload"


async def test_a_node_has_at_most_a_hundred_tags(gateway: GatewayClient) -> None:
    page = await create_page(gateway, tags=[f"tag {number}" for number in range(99)])

    full = await gateway.result("addTags", {"id": page["id"], "tags": ["tag 1", "one more"]})
    outcome = await gateway.result("addTags", {"id": page["id"], "tags": ["one too many"]})
    same = await gateway.result("addTags", {"id": page["id"], "tags": ["one more"]})

    assert len(full["content"]["tags"]) == len(same["content"]["tags"]) == 100
    assert (outcome["__typename"], outcome["path"]) == ("InvalidInput", ["tags"])


@pytest.mark.parametrize("mutation", ["addTags", "removeTags"])
async def test_invalid_tags_are_refused(gateway: GatewayClient, mutation: str) -> None:
    page = await create_page(gateway)

    outcome = await gateway.result(mutation, {"id": page["id"], "tags": ["a", ""]})
    gone = await gateway.result(mutation, {"id": "x", "tags": ["a"]})

    assert (outcome["__typename"], outcome["path"]) == ("InvalidInput", ["tags", "1"])
    assert gone["__typename"] == "NotFound"


async def test_a_page_is_deleted_with_its_revisions(gateway: GatewayClient) -> None:
    page = await create_page(gateway, slug="page", text="One.")
    edited = await saved(gateway, page, "Two.")

    late = await gateway.result("deleteContent", own(page))
    gone = await gateway.result("deleteContent", {"id": page["id"], "nonce": edited["nonce"]})
    again = await gateway.result("deleteContent", {"id": page["id"], "nonce": edited["nonce"]})

    assert (late["__typename"], late["baseText"], late["diff"]) == ("EditConflict", "One.", "")
    assert gone == {"__typename": "DeletedPayload", "deletedId": page["id"]}
    assert again["__typename"] == "NotFound"
    assert await at(gateway, "/page") is None
    assert await gateway.db["cms.revisions"].count_documents({}) == 0
    assert await gateway.db["intents"].count_documents({}) == 0
    assert (await edit(gateway, edited, "x"))["__typename"] == "NotFound"
    assert (await create_page(gateway, slug="page"))["id"] != page["id"]


async def test_a_section_can_be_deleted_only_when_it_is_empty(gateway: GatewayClient) -> None:
    section = await create_section(gateway, slug="docs")
    page = await create_page(gateway, parentId=section["id"])
    given = own(section)

    outcome = await gateway.result("deleteContent", given)
    await gateway.result("deleteContent", own(page))
    gone = await gateway.result("deleteContent", given)

    assert outcome == {"__typename": "SectionNotEmpty", "message": "The section still has children."}
    assert gone["__typename"] == "DeletedPayload"
    assert await gateway.db["cms.nodes"].count_documents({}) == 0


async def test_a_retried_edit_is_saved_once_and_a_conflict_is_checked_again(gateway: GatewayClient) -> None:
    page = await create_page(gateway, text="One.")
    given = own(page, text="Two.", idempotencyKey="one")

    first, again = [await gateway.result("editText", given) for _ in range(2)]
    late = {**given, "text": "Late.", "idempotencyKey": "two"}
    outcome = await gateway.result("editText", late)
    await saved(gateway, first["content"], "Three.")
    told_again = await gateway.result("editText", late)

    assert first == again
    assert (outcome["__typename"], told_again["__typename"]) == ("EditConflict", "EditConflict")
    assert patched("Two.", outcome["diff"]) == patched("Three.", told_again["diff"]) == "Late."
    assert [one["text"] for one in await revisions(gateway, page)] == ["Three.", "Two.", "One."]


@pytest.mark.parametrize(("token", "code"), [(None, "UNAUTHENTICATED"), ("merchant", "FORBIDDEN")])
async def test_only_editors_create_and_edit(gateway: GatewayClient, token: str | None, code: str) -> None:
    page = await create_page(gateway)
    blog = await create_section(gateway, "BLOG")
    caller = None if token is None else gateway.token(roles=[MERCHANT])
    by_nonce = own(page)
    calls: dict[str, Given] = {
        "createSection": section_input(),
        "createPage": page_input(),
        "createBlogEntry": entry_input(blog),
        "editText": {**by_nonce, "text": "x"},
        "editMetadata": {**by_nonce, "title": "x"},
        "restoreRevision": {**by_nonce, "revisionId": "x"},
        "addTags": {"id": page["id"], "tags": ["x"]},
        "removeTags": {"id": page["id"], "tags": ["x"]},
        "deleteContent": by_nonce,
    }
    before = await gateway.db["cms.nodes"].find({}).to_list()
    for mutation, given in calls.items():
        answer = await gateway.ask(MUTATIONS[mutation], {"input": given}, token=caller)

        assert (answer.body["data"], answer.codes) == ({mutation: None}, [code]), mutation
    assert await gateway.db["cms.nodes"].find({}).to_list() == before
