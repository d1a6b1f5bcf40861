"""The lists of hidden posts and comments cost the same, with whatever number of blocks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Document
from tests.social.support.post_reads import as_member, post_id
from tests.social.support.posts import NOW, later, stored_post, write_post
from tests.social.support.social import block, join
from tests.support.explaining import explain
from tests.support.harness import Commands, GatewayClient

pytestmark = pytest.mark.anyio
POSTS = """query ($after: String) { viewer { hiddenPosts(first: 5, after: $after) {
    nodes { postId } pageInfo { hasNextPage endCursor }
} } }"""
COMMENTS = """query ($id: ID!) { node(id: $id) { ... on Post { commentCount hiddenComments(first: 5) {
    nodes { commentId } pageInfo { hasNextPage }
} } } }"""


async def _add_blocks(gateway: GatewayClient, count: int) -> None:
    """Adds members whom ann has blocked, and as many who have blocked ann."""
    rows: list[Document] = []
    for kind in ("blocks", "blocked"):
        for number in range(count):
            to = f"{kind}-{ObjectId()}-{number}"
            rows.append({"_id": {"of": "ann", "to": to}, "of": "ann", "to": to, kind: True})
    await gateway.db["social.relations"].insert_many(rows)


async def _cost(gateway: GatewayClient, commands: Commands, query: str, **variables: Any) -> tuple[Any, int, int]:
    """Returns the answer, and how many commands and how many documents and keys it takes."""
    commands.clear()
    data = await gateway.data(query, variables, **as_member(gateway, "ann"))
    plans = [plan for one in list(commands.sent) for plan in await explain(gateway.db, one)]
    assert not any(plan.scans_collection for plan in plans)
    return data, len(commands.sent), sum(plan.documents_examined + plan.keys_examined for plan in plans)


async def test_a_page_of_hidden_posts_costs_the_same_with_any_number_of_blocks(
    gateway: GatewayClient, commands: Commands
) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    for number in range(7):
        await write_post(gateway.db, "bob" if number % 2 else "cem", to="ann", now=later(number))
    await block(gateway.db, "ann", "bob")
    few = await _cost(gateway, commands, POSTS)
    await _add_blocks(gateway, 3_000)
    many = await _cost(gateway, commands, POSTS)

    assert len(few[0]["viewer"]["hiddenPosts"]["nodes"]) == 3
    assert many == few


async def test_a_page_of_hidden_posts_ends_early_among_many_others_and_the_list_continues(
    gateway: GatewayClient, commands: Commands
) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    shown = await write_post(gateway.db, "bob", to="ann", now=NOW)
    await block(gateway.db, "ann", "bob")
    others = [stored_post("cem", NOW + timedelta(minutes=1 + n), "ann", comments=0) for n in range(450)]
    await gateway.db["social.posts"].insert_many(others)
    found: list[Any] = []
    after, pages, costs = None, 0, []
    while True:
        data, _, cost = await _cost(gateway, commands, POSTS, after=after)
        page = data["viewer"]["hiddenPosts"]
        found += [node["postId"] for node in page["nodes"]]
        pages += 1
        costs.append(cost)
        if not page["pageInfo"]["hasNextPage"]:
            break
        after = page["pageInfo"]["endCursor"]

    assert found == [post_id(shown)]
    assert pages == 10
    assert max(costs) < 250


async def test_a_page_of_hidden_comments_costs_the_same_with_any_number_of_blocks(
    gateway: GatewayClient, commands: Commands
) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    post = stored_post("ann", NOW, comments=0) | {"comment_count": 60, "spilled": 60}
    await gateway.db["social.posts"].insert_one(post)
    pages = [
        {
            "_id": {"post": post["_id"], "page": start},
            "post": post["_id"],
            "version": 0,
            "comments": [
                {
                    "id": ObjectId(),
                    "by": {"id": "bob" if number % 10 == 0 else "cem", "name": "X"},
                    "posted": NOW + timedelta(seconds=number),
                    "text": "Hm.",
                }
                for number in range(start, start + 20)
            ],
        }
        for start in (0, 20, 40)
    ]
    await gateway.db["social.comment_pages"].insert_many(pages)
    await block(gateway.db, "ann", "bob")
    await _add_blocks(gateway, 300)
    few = await _cost(gateway, commands, COMMENTS, id=post_id(post))
    shown = few[0]["node"]["hiddenComments"]
    assert (len(shown["nodes"]), shown["pageInfo"]["hasNextPage"]) == (5, True)
    assert few[0]["node"]["commentCount"] == 54

    await _add_blocks(gateway, 3_000)
    data, count, cost = await _cost(gateway, commands, COMMENTS, id=post_id(post))

    assert (data["node"]["hiddenComments"], count) == (shown, few[1])
    # The count looks for the comments of a bounded number of members with a block.
    assert cost <= few[2] + 1_500
