"""Discussions: posting, listing, editing and deleting, with the same results on each storage."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from portico.resolvers.comments.comments import MAX_DEPTH
from portico.schema.kinds import Kind
from tests.catalog.support.catalog import add_products, product
from tests.comments.support.discussions import (
    ON_EACH,
    PAGE,
    STORAGES,
    below,
    by_time,
    count,
    delete,
    editor,
    everything,
    fill,
    open_on_product,
    page,
    post,
    post_input,
    threaded,
)
from tests.support.harness import MUTATIONS, GatewayClient, assert_invariants


@ON_EACH
async def test_a_comment_is_shown_as_posted(gateway: GatewayClient, discussion: str) -> None:
    first = await post(gateway, discussion, "Is it *good*?", by="alice")
    reply = await post(gateway, discussion, "It is.", first["slug"], by="bob")

    assert (first["text"], first["html"]) == ("Is it *good*?", "<p>Is it <em>good</em>?</p>\n")
    assert (first["depth"], first["deleted"], first["edited"], first["parent"]) == (0, False, None, None)
    assert first["author"] == {"userId": "alice", "name": "alice"}
    assert (reply["depth"], reply["parent"]) == (1, {"slug": first["slug"]})
    assert reply["slug"].startswith(f"{first['slug']}/")
    assert reply["posted"] > first["posted"]
    rows = await everything(gateway, discussion)
    assert [(row["text"], row["replyCount"]) for row in rows] == [("Is it *good*?", 1), ("It is.", 0)]
    assert await count(gateway, discussion) == 2
    await assert_invariants(gateway)


@ON_EACH
async def test_each_order_lists_all_comments_in_pages_of_any_size(gateway: GatewayClient, storage: str) -> None:
    rng = random.Random(1)
    discussion = await open_on_product(gateway, storage)
    await fill(gateway, discussion, rng, 40)

    whole = await everything(gateway, discussion)

    assert whole == threaded(whole)
    assert len(whole) == 40 == await count(gateway, discussion)
    for size in (1, 7, 39, 40):
        assert await everything(gateway, discussion, size) == whole
    assert await everything(gateway, discussion, 7, order="CHRONOLOGICAL") == sorted(whole, key=by_time)
    for depth in (0, 1, 3, MAX_DEPTH, 2**31 - 1):
        shallow = [row for row in whole if row["depth"] <= depth]
        assert await everything(gateway, discussion, 3, maxDepth=depth) == shallow
        found = await everything(gateway, discussion, 11, maxDepth=depth, order="CHRONOLOGICAL")
        assert found == sorted(shallow, key=by_time)


@ON_EACH
async def test_the_comments_below_a_comment_are_listed_as_replies_and_as_a_thread(
    gateway: GatewayClient, discussion: str
) -> None:
    await fill(gateway, discussion, random.Random(2), 30)
    whole = await everything(gateway, discussion)

    for row in whole:
        direct = [other for other in whole if other["parent"] == {"slug": row["slug"]}]
        thread = [other for other in whole if other["slug"].startswith(f"{row['slug']}/")]
        assert row["replyCount"] == len(direct)
        assert await below(gateway, discussion, row["slug"], "replies", 2) == direct
        assert await below(gateway, discussion, row["slug"], "thread", 3) == thread


@ON_EACH
async def test_a_comment_has_its_parent_and_discussion_by_id_and_by_slug(
    gateway: GatewayClient, discussion: str
) -> None:
    first = await post(gateway, discussion)
    reply = await post(gateway, discussion, "Indeed.", first["slug"])
    shown = "slug parent { slug } discussion { id commentCount subject { ... on Product { title sku } } }"

    by_id = await gateway.data(f"query ($id: ID!) {{ node(id: $id) {{ ... on Comment {{ {shown} }} }} }}", reply)
    by_slug = await gateway.data(
        f"query ($id: ID!, $slug: String!) {{ node(id: $id) {{ ... on Discussion {{ comment(slug: $slug) "
        f'{{ {shown} }} none: comment(slug: "$slug") {{ slug }} }} }} }}',
        {"id": discussion, "slug": reply["slug"]},
    )

    assert by_id["node"]["parent"] == {"slug": first["slug"]}
    assert (by_id["node"]["discussion"]["id"], by_id["node"]["discussion"]["commentCount"]) == (discussion, 2)
    assert by_id["node"]["discussion"]["subject"]["sku"].startswith("discussed-")
    assert by_slug["node"] == {"comment": by_id["node"], "none": None}


async def test_a_discussion_is_opened_once_and_keeps_its_first_storage(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [product(sku="once"), product(sku="never")])
    subject = Kind.encode_id("Product", "once")
    text = "query ($sku: String!) { product(sku: $sku) { discussion { id storage commentCount } } }"

    unopened = await gateway.data(text, {"sku": "never"})
    opened = await asyncio.gather(
        *(gateway.result("openDiscussion", {"subjectId": subject, "storage": storage}) for storage in STORAGES * 5)
    )
    again = await gateway.result("openDiscussion", {"subjectId": subject, "storage": "PAGES"})

    assert unopened["product"]["discussion"] is None
    assert {one["discussion"]["id"] for one in opened} == {again["discussion"]["id"]}
    assert {one["discussion"]["storage"] for one in opened} == {again["discussion"]["storage"]}
    assert (await gateway.data(text, {"sku": "once"}))["product"]["discussion"] == again["discussion"]
    assert await gateway.db["discussions"].count_documents({}) == 1


async def test_only_existing_subjects_can_be_discussed(gateway: GatewayClient) -> None:
    nothing = [
        await gateway.result("openDiscussion", {"subjectId": given})
        for given in (Kind.encode_id("Product", "none"), Kind.encode_id("Cart", "0" * 32), "nonsense")
    ]
    nowhere = Kind.encode_id("Discussion", "0" * 24)

    assert [one["__typename"] for one in nothing] == ["NotFound"] * 3
    assert (await gateway.result("postComment", post_input(nowhere)))["__typename"] == "NotFound"
    assert (await gateway.result("postComment", post_input(Kind.encode_id("Product", "x"))))["__typename"] == "NotFound"


@ON_EACH
async def test_a_discussion_and_its_comments_are_not_found_without_the_subject(
    gateway: GatewayClient, discussion: str
) -> None:
    comment = await post(gateway, discussion)
    subject = await gateway.stored("discussions")
    await gateway.db["products"].delete_one({"sku": subject["subject"]["key"]})
    ids = "query ($ids: [ID!]!) { nodes(ids: $ids) { id } }"

    seen = await gateway.data(ids, {"ids": [discussion, comment["id"]]}, token=editor(gateway))
    answers = [
        await gateway.result("postComment", post_input(discussion)),
        await gateway.result("editComment", {"id": comment["id"], "text": "Still here?"}),
        await gateway.result("deleteComment", {"id": comment["id"]}),
    ]

    assert seen["nodes"] == [None, None]
    assert [answer["__typename"] for answer in answers] == ["NotFound"] * 3


@ON_EACH
async def test_a_reply_needs_a_parent_that_is_not_deleted(gateway: GatewayClient, storage: str) -> None:
    discussion, other = await open_on_product(gateway, storage), await open_on_product(gateway, storage)
    gone, kept, elsewhere = [await post(gateway, where) for where in (discussion, discussion, other)]
    await post(gateway, discussion, parent=kept["slug"])
    await delete(gateway, gone)
    await delete(gateway, kept)

    answers = [
        await gateway.result("postComment", post_input(discussion, parent=slug))
        for slug in (gone["slug"], kept["slug"], elsewhere["slug"], "none", "", f"{kept['slug']}/", "$_id")
    ]

    assert [answer["__typename"] for answer in answers] == ["NotFound"] * 7
    assert await count(gateway, discussion) == 2
    await assert_invariants(gateway)


@ON_EACH
async def test_the_depth_of_a_thread_is_limited(gateway: GatewayClient, discussion: str) -> None:
    slug = None
    for depth in range(MAX_DEPTH + 1):
        comment = await post(gateway, discussion, f"Level {depth}.", slug)
        slug = comment["slug"]

    deeper = await gateway.result("postComment", post_input(discussion, parent=slug))

    assert (deeper["__typename"], deeper["path"]) == ("InvalidInput", ["parentSlug"])
    assert [row["depth"] for row in await everything(gateway, discussion, 5)] == list(range(MAX_DEPTH + 1))


@ON_EACH
async def test_only_the_author_and_editors_edit_a_comment(gateway: GatewayClient, discussion: str) -> None:
    comment = await post(gateway, discussion, by="alice")

    async def edit(text: str, token: str | None) -> Any:
        given = {"input": {"id": comment["id"], "text": text}}
        return await gateway.ask(MUTATIONS["editComment"], given, token=token)

    by_alice = (await edit("*Better.*", gateway.token("alice", []))).data["editComment"]["comment"]
    by_editor = (await edit("Best.", editor(gateway))).data["editComment"]["comment"]

    assert (by_alice["text"], by_alice["html"]) == ("*Better.*", "<p><em>Better.</em></p>\n")
    assert by_alice["edited"] > by_alice["posted"]
    assert (by_editor["text"], by_editor["author"]["userId"]) == ("Best.", "alice")
    assert (await edit("Mine.", gateway.token("bob", []))).codes == ["FORBIDDEN"]
    assert (await edit("Mine.", None)).codes == ["UNAUTHENTICATED"]
    assert [row["text"] for row in await everything(gateway, discussion)] == ["Best."]
    await assert_invariants(gateway)


@ON_EACH
async def test_only_the_author_and_editors_delete_a_comment(gateway: GatewayClient, discussion: str) -> None:
    mine, yours = [await post(gateway, discussion, by="alice") for _ in range(2)]
    given = {"input": {"id": mine["id"]}}

    others = (gateway.token("bob", []), None)
    codes = [(await gateway.ask(MUTATIONS["deleteComment"], given, token=token)).codes for token in others]
    deleted = [await delete(gateway, mine, by="alice")]
    deleted.append(await gateway.result("deleteComment", {"id": yours["id"]}, token=editor(gateway)))

    assert codes == [["FORBIDDEN"], ["UNAUTHENTICATED"]]
    assert [(one["comment"]["deleted"], one["comment"]["text"]) for one in deleted] == [(True, "")] * 2
    assert await everything(gateway, discussion) == []
    assert await count(gateway, discussion) == 0
    assert (await delete(gateway, mine, by="alice"))["__typename"] == "NotFound"


@ON_EACH
async def test_posting_needs_a_token(gateway: GatewayClient, discussion: str) -> None:
    answer = await gateway.ask(MUTATIONS["postComment"], {"input": post_input(discussion)}, token=None)

    assert answer.codes == ["UNAUTHENTICATED"]
    assert await count(gateway, discussion) == 0


@ON_EACH
async def test_a_deleted_comment_stays_while_it_has_replies(gateway: GatewayClient, discussion: str) -> None:
    top = await post(gateway, discussion, "Top.")
    middle = await post(gateway, discussion, "Middle.", top["slug"])
    last, other = [await post(gateway, discussion, text, middle["slug"]) for text in ("Last.", "Other.")]

    async def listed() -> list[tuple[str, bool, int]]:
        rows = await everything(gateway, discussion, 2)
        assert len(rows) == await count(gateway, discussion)
        await assert_invariants(gateway)
        return [(row["text"], row["deleted"], row["replyCount"]) for row in rows]

    await delete(gateway, top)
    kept = await delete(gateway, middle)
    assert (kept["comment"]["text"], kept["comment"]["html"], kept["comment"]["replyCount"]) == ("", "", 2)
    assert await listed() == [("", True, 1), ("", True, 2), ("Last.", False, 0), ("Other.", False, 0)]
    # The deletion of the last reply also removes the deleted comments above it.
    await delete(gateway, last)
    assert await listed() == [("", True, 1), ("", True, 1), ("Other.", False, 0)]
    gone = await gateway.result("editComment", {"id": kept["comment"]["id"], "text": "Back."})
    assert gone["__typename"] == "NotFound"
    await delete(gateway, other)
    assert await listed() == []


@ON_EACH
async def test_a_removed_comment_is_not_found(gateway: GatewayClient, discussion: str) -> None:
    kept, comment = await post(gateway, discussion), await post(gateway, discussion)
    await delete(gateway, comment)
    query = """
    query ($id: ID!, $discussion: ID!, $slug: String!) {
      node(id: $id) { id }
      discussion: node(id: $discussion) { ... on Discussion { comment(slug: $slug) { id } } }
    }
    """

    found = await gateway.data(query, {"id": comment["id"], "discussion": discussion, "slug": comment["slug"]})

    assert found == {"node": None, "discussion": {"comment": None}}
    for order in ("THREADED", "CHRONOLOGICAL"):
        assert [row["id"] for row in await everything(gateway, discussion, order=order)] == [kept["id"]]
    assert [row["id"] for row in await everything(gateway, discussion, maxDepth=0)] == [kept["id"]]


@ON_EACH
async def test_clock_skew_changes_neither_orders_nor_threads(gateway: GatewayClient, discussion: str) -> None:
    gateway.clock.advance(hours=1)
    ahead = await post(gateway, discussion, "From a clock that is ahead.")
    gateway.clock.advance(hours=-1)
    reply = await post(gateway, discussion, "A reply by a clock that is right.", ahead["slug"])
    late = await post(gateway, discussion, "A later comment.")

    assert reply["posted"] > ahead["posted"] > late["posted"]
    rows = await everything(gateway, discussion, order="CHRONOLOGICAL")
    assert [row["slug"] for row in rows] == [late["slug"], ahead["slug"], reply["slug"]]
    assert [row["slug"] for row in await everything(gateway, discussion)] == [
        one["slug"] for one in (late, ahead, reply)
    ]


@ON_EACH
@pytest.mark.parametrize("given", [{"maxDepth": -1}, {"first": 0}, {"first": 101}, {"after": "x"}])
async def test_invalid_list_arguments_are_refused(
    gateway: GatewayClient, discussion: str, given: dict[str, Any]
) -> None:
    answer = await gateway.ask(PAGE, {"id": discussion, **given})

    assert answer.codes == ["BAD_USER_INPUT"]


@ON_EACH
async def test_a_cursor_is_valid_for_one_list_only(gateway: GatewayClient, storage: str, discussion: str) -> None:
    for _ in range(3):
        await post(gateway, discussion)
    after = (await page(gateway, discussion, first=1))["pageInfo"]["endCursor"]

    answers = [
        await gateway.ask(PAGE, {"id": discussion, "after": after, **given})
        for given in ({"order": "CHRONOLOGICAL"}, {"maxDepth": 3}, {"id": await open_on_product(gateway, storage)})
    ]

    assert [answer.codes for answer in answers] == [["BAD_USER_INPUT"]] * 3
