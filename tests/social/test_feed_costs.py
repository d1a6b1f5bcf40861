"""A page of posts takes the same commands and documents, whatever the length of the list and the number of blocks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Document
from portico.resolvers.social import comment_reads, fan_out, walks
from portico.resolvers.social.visibility import MAX_COUNTED_PAGES
from tests.social.support.post_reads import all_posts_in, as_member, comments_of, page_of, post_id
from tests.social.support.posts import (
    NOW,
    add_followers,
    add_members,
    add_pages,
    later,
    side,
    stored_comment,
    stored_post,
    who,
    write_post,
)
from tests.social.support.social import block, join, user_id
from tests.support.explaining import explain
from tests.support.harness import GatewayClient
from tests.support.paging import nodes_of
from tests.support.plans import documents_examined, keys_examined, plans_of

SELECTION = (
    "id by { userId name } posted audience commentCount latestComments { text by { name } } ... on StatusPost { text }"
)
LISTS = {
    "newsFeed": ["find social.news", *["find social.posts"] * 2, *["find social.relations"] * 2],
    "incoming": ["find social.posts", "find social.relations"],
    "wall of ann": ["find social.members", "find social.posts", "find social.relations", "find social.relations"],
    "wall of v": ["find social.members", "find social.posts", "find social.relations"],
}


async def _add_posts(gateway: GatewayClient, before: datetime, count: int) -> None:
    """Adds posts by ann that are in every list of the member `v`: half of them on v's wall."""
    posts = [stored_post("ann", before - timedelta(minutes=n), "v" if n % 2 else None) for n in range(count)]
    await gateway.db["social.posts"].insert_many(posts)
    await gateway.db["social.news"].insert_many([fan_out.entry_of(post, "v") for post in posts])


async def _examined(gateway: GatewayClient, name: str, **variables: Any) -> tuple[int, int]:
    """Returns how many documents and index keys the commands of a page have examined. No plan scans or sorts."""
    gateway.commands.clear()
    page = await page_of(gateway, "v", name, SELECTION, **variables)
    assert len(page["edges"]) == variables.get("first", 20)
    assert sorted(gateway.commands.names()) == LISTS[name]
    plans = await plans_of(gateway)
    assert max(plan.rows_sorted for plan in plans) == 0
    return documents_examined(plans), keys_examined(plans)


async def _members(gateway: GatewayClient) -> None:
    await add_members(gateway.db, "ann", "v", followers={"ann": ["v"]})


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", LISTS)
async def test_a_page_costs_the_same_with_many_posts_behind_it(gateway: GatewayClient, name: str) -> None:
    await _members(gateway)
    await _add_posts(gateway, NOW, 60)
    few = await _examined(gateway, name)
    after = (await page_of(gateway, "v", name, "id", first=5))["pageInfo"]["endCursor"]
    few_later = await _examined(gateway, name, after=after)
    await _add_posts(gateway, NOW - timedelta(days=9), 3_000)
    assert await _examined(gateway, name) == few
    assert await _examined(gateway, name, after=after) == few_later
    assert few[0] <= 70
    assert few_later[0] <= 70


async def test_a_page_of_news_costs_the_same_with_many_followed_and_blocked(gateway: GatewayClient) -> None:
    await _members(gateway)
    await _add_posts(gateway, NOW, 60)
    few = [await _examined(gateway, name) for name in LISTS]
    for number in range(300):
        await add_followers(gateway.db, f"followed{number}", ["v"])
    await gateway.db["social.relations"].insert_many(
        [side("v", f"blocked{number}", blocks=True, blocked=number % 2 == 0) for number in range(1_000)]
    )
    many = [await _examined(gateway, name) for name in LISTS]
    assert [documents for documents, _ in many] == [documents for documents, _ in few]
    # The scan of relations ends one key later if another relation follows.
    assert all(keys - before <= 1 for (_, keys), (_, before) in zip(many, few, strict=True))


@pytest.mark.parametrize("count", [30, 230])
async def test_a_page_of_news_with_merged_authors_walks_along_the_index_of_their_posts(
    gateway: GatewayClient, count: int
) -> None:
    await _members(gateway)
    await _add_posts(gateway, NOW, 60)
    stars = [f"star{number}" for number in range(count)]
    for star in stars:
        await add_followers(gateway.db, star, ["v"])
    posts = [stored_post(star, NOW - timedelta(hours=number)) for star in stars for number in range(20)]
    await gateway.db["social.posts"].insert_many(posts)
    await gateway.db["social.relations"].update_many({"of": "v", "to": {"$in": stars}}, {"$set": {"is_merged": True}})
    after = None
    for _ in range(2):
        gateway.commands.clear()
        page = await page_of(gateway, "v", "newsFeed", SELECTION, after=after)
        after = page["pageInfo"]["endCursor"]
        assert len({edge["node"]["by"]["userId"] for edge in page["edges"]}) > 10
        # It has the viewer's own posts, too.
        walk = "aggregate social.posts"
        assert sorted(gateway.commands.names()) == sorted([walk, *LISTS["newsFeed"][:1], *LISTS["newsFeed"][2:]])
        plans = await plans_of(gateway)
        # The walks read a page together, and the next post of each author.
        [walked] = [plan for plan in plans if plan.name == walk and "_id" not in plan.command.get("filter", ())]
        assert walked.documents_examined <= count + 2 * 21
        assert max(plan.rows_sorted for plan in plans) <= 2 * 21


async def _add_hidden(gateway: GatewayClient, count: int) -> None:
    """Adds posts on v's wall by members whom v does not follow, with entries in v's news feed, as if v had."""
    posts = [stored_post(f"stranger{n % 50}", NOW + timedelta(minutes=n), "v") for n in range(count)]
    await gateway.db["social.posts"].insert_many(posts)
    await gateway.db["social.news"].insert_many([fan_out.entry_of(post, "v") for post in posts])


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["wall of v", "newsFeed"])
async def test_a_page_behind_posts_of_strangers_is_full_and_costs_the_same_however_many_they_are(
    gateway: GatewayClient, name: str
) -> None:
    await _members(gateway)
    await _add_posts(gateway, NOW, 60)
    for number in range(300):
        await add_followers(gateway.db, f"followed{number}", ["v"])
    await gateway.db["social.posts"].insert_many(
        [stored_post("v", NOW - timedelta(minutes=90 + n), "ann") for n in range(5)]
    )
    page = await page_of(gateway, "v", name, "id")
    costs = []
    for count in (300, 3_000):
        await _add_hidden(gateway, count)
        gateway.commands.clear()
        assert await page_of(gateway, "v", name, "id") == page
        costs.append((len(gateway.commands.sent), documents_examined(await plans_of(gateway))))
    assert costs[0] == costs[1]
    # A round, the followed members, and a search; and for the wall its owner. Each round reads one's own posts, too.
    assert costs[0][0] == {"wall of v": 1 + 2 + 1 + 4, "newsFeed": 5 + 1 + 7}[name]
    # Those whom v follows, and a page of strangers.
    assert costs[0][1] <= 700


@pytest.mark.parametrize("walks_a_command", [1, 100])
async def test_ones_own_wall_behind_posts_of_strangers_has_every_post_of_those_whom_one_follows(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch, walks_a_command: int
) -> None:
    monkeypatch.setattr(walks, "WALKS_A_COMMAND", walks_a_command)
    await _members(gateway)
    await add_members(gateway.db, "foe", followers={"foe": ["v"]})
    await gateway.db["social.relations"].update_one({"of": "v", "to": "foe"}, {"$set": {"blocks": True}})
    shown = [
        stored_post("v", NOW - timedelta(1)),
        stored_post("v", NOW - timedelta(2), "ann"),
        *(stored_post("ann", NOW - timedelta(3 + number), "v") for number in range(7)),
    ]
    await gateway.db["social.posts"].insert_many(
        [
            *shown,
            stored_post("foe", NOW - timedelta(hours=30), "v"),
            {**stored_post("ann", NOW - timedelta(hours=40), "v"), "deleted": NOW},
        ]
    )
    await _add_hidden(gateway, 500)
    assert await all_posts_in(gateway, "v", "wall of v", size=3) == [post_id(post) for post in shown]


async def test_three_latest_comments_take_no_further_command_if_two_later_ones_are_hidden(
    gateway: GatewayClient,
) -> None:
    await _members(gateway)
    post = stored_post("ann", NOW, comments=6)
    for comment in post["comments"][-2:]:
        comment["by"] = who("foe")
    await gateway.db["social.posts"].insert_one(post)
    await gateway.db["social.relations"].insert_one(side("v", "foe", blocks=True))
    gateway.commands.clear()
    [edge] = (await page_of(gateway, "v", "wall of ann", SELECTION))["edges"]
    assert [comment["text"] for comment in edge["node"]["latestComments"]] == ["C1", "C2", "C3"]
    assert sorted(gateway.commands.names()) == LISTS["wall of ann"]


@pytest.mark.parametrize("blocks", [1, 1_000])
async def test_counts_of_comments_read_only_pages_with_comments_by_blocked_members(
    gateway: GatewayClient, blocks: int
) -> None:
    await _members(gateway)
    await add_members(gateway.db, "bad")
    await _add_paged_post(gateway, 2_000)
    assert await _comment_count(gateway) == 2_003
    blocked = ["bad", *(f"a{number}" for number in range(blocks - 1))]
    await gateway.db["social.relations"].insert_many([side("v", name, blocked=True) for name in blocked])
    gateway.commands.clear()
    assert await _comment_count(gateway) == 1_983
    plans = await plans_of(gateway)
    [counted] = [plan for plan in plans if plan.name == "aggregate social.posts" and "$lookup" in str(plan.command)]
    assert counted.documents_examined == 1
    assert counted.keys_examined <= 12


async def test_counts_of_comments_read_a_bounded_number_of_pages_of_each_post(gateway: GatewayClient) -> None:
    """`bad` wrote one comment of each page of two posts, of which one has many pages."""
    await _members(gateway)
    posts = [await _add_paged_post(gateway, spilled) for spilled in (20 * MAX_COUNTED_PAGES + 400, 200)]
    named = {"comments.0.by": who("bad")}
    await gateway.db["social.comment_pages"].update_many({}, {"$set": {"comments.$[].by": who("ann")}})
    await gateway.db["social.comment_pages"].update_many({}, {"$set": named})
    await gateway.db["social.relations"].insert_one(side("v", "bad", blocks=True))
    gateway.commands.clear()

    edges = (await page_of(gateway, "v", "wall of ann", "commentCount"))["edges"]

    counts = sorted(edge["node"]["commentCount"] for edge in edges)
    assert counts == [193, posts[0]["comment_count"] - MAX_COUNTED_PAGES]
    plans = await plans_of(gateway)
    assert documents_examined(plans) <= MAX_COUNTED_PAGES + 30


@pytest.mark.sample(2)
@pytest.mark.parametrize("is_backwards", [False, True])
@pytest.mark.parametrize("place", [0, 1_000])
async def test_a_page_of_comments_costs_the_same_in_a_long_post(
    gateway: GatewayClient, place: int, is_backwards: bool
) -> None:
    await _members(gateway)
    examined = []
    for spilled in (2_000, 20_000):
        post = await _add_paged_post(gateway, spilled)
        after = None
        if place:
            key = (place, NOW + timedelta(seconds=1 if is_backwards else -1), ObjectId())
            after = gateway.cursor(comment_reads.comments_of(post["_id"]), key)
        gateway.commands.clear()
        given = {"last": 20, "before": after} if is_backwards else {"first": 20, "after": after}
        found = await comments_of(gateway, "v", post, **given)
        assert len(found["comments"]["nodes"]) == 20
        pages = [one for one in gateway.commands.sent if one.get("find") == "social.comment_pages"]
        plans = [plan for one in pages for plan in await explain(gateway.db, one)]
        examined.append(sum(plan.documents_examined for plan in plans))
    # Before a cursor, also the pages to which its comment can have moved.
    assert examined[0] == examined[1] <= (6 if is_backwards and place else 3)


async def _add_paged_post(gateway: GatewayClient, spilled: int) -> Document:
    """Adds a post with this many comments in pages, and a page that is not valid yet. `bad` wrote the second page."""
    post = {**stored_post("ann", NOW), "spilled": spilled, "comment_count": spilled + 3}
    await gateway.db["social.posts"].insert_one(post)
    authors = ["bad" if 20 <= number < 40 else "ann" for number in range(spilled + 20)]
    await add_pages(gateway.db, post, [stored_comment(author, NOW) for author in authors])
    return post


async def _comment_count(gateway: GatewayClient) -> int:
    [edge] = (await page_of(gateway, "v", "wall of ann", "commentCount"))["edges"]
    return int(edge["node"]["commentCount"])


async def test_comments_of_a_page_take_a_fixed_number_of_commands(gateway: GatewayClient) -> None:
    await _members(gateway)
    await gateway.db["social.posts"].insert_many(
        [stored_post("ann", NOW - timedelta(n), comments=30) for n in range(30)]
    )
    gateway.commands.clear()
    query = """
    query ($id: ID!) { user(id: $id) { wall { nodes { comments(first: 10) { nodes { text } } } } } }
    """
    await gateway.data(query, {"id": user_id("ann")}, **as_member(gateway, "v"))
    assert sorted(gateway.commands.names()) == [
        "find social.members",
        *["find social.posts"] * 2,
        *["find social.relations"] * 3,
    ]


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
