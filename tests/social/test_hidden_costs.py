"""The lists of hidden posts and comments cost the same, with whatever number of blocks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from tests.social.support.post_reads import as_member, post_id
from tests.social.support.posts import NOW, add_pages, later, side, stored_comment, stored_post, write_post
from tests.social.support.social import block, join
from tests.support.harness import GatewayClient
from tests.support.paging import nodes_of
from tests.support.plans import documents_examined, keys_examined, plans_of

pytestmark = pytest.mark.anyio
POSTS = """query ($after: String) { viewer { hiddenPosts(first: 5, after: $after) {
    nodes { postId } pageInfo { hasNextPage endCursor }
} } }"""
COMMENTS = """query ($id: ID!) { node(id: $id) { ... on Post { commentCount hiddenComments(first: 5) {
    nodes { commentId } pageInfo { hasNextPage }
} } } }"""


async def _add_blocks(gateway: GatewayClient, count: int) -> None:
    """Adds members whom ann has blocked, and as many who have blocked ann."""
    rows = [
        side("ann", f"{kind}-{ObjectId()}-{number}", **{kind: True})
        for kind in ("blocks", "blocked")
        for number in range(count)
    ]
    await gateway.db["social.relations"].insert_many(rows)


async def _cost(gateway: GatewayClient, query: str, **variables: Any) -> tuple[Any, int, int]:
    """Returns the answer, and how many commands and how many documents and keys it takes."""
    gateway.commands.clear()
    data = await gateway.data(query, variables, **as_member(gateway, "ann"))
    plans = await plans_of(gateway)
    return data, len(gateway.commands.sent), documents_examined(plans) + keys_examined(plans)


async def test_a_page_of_hidden_posts_costs_the_same_with_any_number_of_blocks(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    for number in range(7):
        await write_post(gateway.db, "bob" if number % 2 else "cem", to="ann", now=later(number))
    await block(gateway.db, "ann", "bob")
    few = await _cost(gateway, POSTS)
    await _add_blocks(gateway, 3_000)
    many = await _cost(gateway, POSTS)

    assert len(few[0]["viewer"]["hiddenPosts"]["nodes"]) == 3
    assert many == few


async def test_a_page_of_hidden_posts_ends_early_among_many_others_and_the_list_continues(
    gateway: GatewayClient,
) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    shown = await write_post(gateway.db, "bob", to="ann", now=NOW)
    await block(gateway.db, "ann", "bob")
    others = [stored_post("cem", NOW + timedelta(minutes=1 + n), "ann", comments=0) for n in range(450)]
    await gateway.db["social.posts"].insert_many(others)
    costs = []

    async def page(after: str | None) -> Any:
        data, _, cost = await _cost(gateway, POSTS, after=after)
        costs.append(cost)
        return data["viewer"]["hiddenPosts"]

    assert [node["postId"] for node in await nodes_of(page)] == [post_id(shown)]
    assert len(costs) == 10
    assert max(costs) < 250


async def test_a_page_of_hidden_comments_costs_the_same_with_any_number_of_blocks(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    post = stored_post("ann", NOW, comments=0) | {"comment_count": 60, "spilled": 60}
    await gateway.db["social.posts"].insert_one(post)
    comments = [
        stored_comment("cem" if number % 10 else "bob", NOW + timedelta(seconds=number)) for number in range(60)
    ]
    await add_pages(gateway.db, post, comments)
    await block(gateway.db, "ann", "bob")
    await _add_blocks(gateway, 300)
    few = await _cost(gateway, COMMENTS, id=post_id(post))
    shown = few[0]["node"]["hiddenComments"]
    assert (len(shown["nodes"]), shown["pageInfo"]["hasNextPage"]) == (5, True)
    assert few[0]["node"]["commentCount"] == 54

    await _add_blocks(gateway, 3_000)
    data, count, cost = await _cost(gateway, COMMENTS, id=post_id(post))

    assert (data["node"]["hiddenComments"], count) == (shown, few[1])
    # The count looks for the comments of a bounded number of members with a block.
    assert cost <= few[2] + 1_500
