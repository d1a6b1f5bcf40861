"""A page of posts is one command, and examines the same number of documents, whatever the length of the list, the
number of members whom the viewer follows, and the number of blocks.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.cursors import encode_cursor
from portico.resolvers.documents import Document
from portico.resolvers.social import comment_reads
from tests.support.explaining import explain
from tests.support.harness import Commands, GatewayClient
from tests.support.post_reads import as_member, comments_of, page_of, user_id
from tests.support.social_posts import NOW, add_followers, add_members, who

pytestmark = pytest.mark.anyio
SELECTION = (
    "id by { userId name } posted audience commentCount latestComments { text by { name } } ... on StatusPost { text }"
)
LISTS = ("newsFeed", "incoming", "wall of ann", "wall of v")


def _post(author: str, posted: datetime, to: str | None = None, comments: int = 3) -> Document:
    rows = [{"id": ObjectId(), "by": who("ann"), "posted": posted, "text": f"C{number}"} for number in range(comments)]
    return {
        "_id": ObjectId(),
        "by": who(author),
        "to": who(to or author),
        "walls": list(dict.fromkeys((author, to or author))),
        "audience": "PUBLIC",
        "circles": [],
        "type": "status",
        "detail": {"text": "Hello"},
        "posted": posted,
        "created": posted,
        "comments": rows,
        "comment_count": comments,
        "spilled": 0,
        "version": 0,
    }


async def _add_posts(gateway: GatewayClient, before: datetime, count: int) -> None:
    """Adds posts by ann that are in every list of the member `v`: half of them on v's wall."""
    posts = [_post("ann", before - timedelta(minutes=n), "v" if n % 2 else None) for n in range(count)]
    await gateway.db["social.posts"].insert_many(posts)
    await gateway.db["social.news"].insert_many(
        [
            {
                "_id": {"post": one["_id"], "of": "v"},
                "of": "v",
                "posted": one["posted"],
                "post": one["_id"],
                "by": "ann",
            }
            for one in posts
        ]
    )


async def _examined(gateway: GatewayClient, commands: Commands, name: str, **variables: Any) -> tuple[int, int]:
    """Returns how many documents and index keys the only command of a page has examined. No plan scans or sorts."""
    commands.clear()
    page = await page_of(gateway, "v", name, SELECTION, **variables)
    assert len(page["edges"]) == variables.get("first", 20)
    sent = [one for one in commands.sent if next(iter(one)) == "aggregate"]
    others = [one for one in commands.names() if one.startswith("find")]
    assert len(sent) == 1
    assert set(others) <= {"find social.members", "find social.relations"}
    plans = [plan for one in commands.sent for plan in await explain(gateway.db, one)]
    assert not any(plan.scans_collection for plan in plans)
    assert max(plan.rows_sorted for plan in plans) == 0
    return sum(plan.documents_examined for plan in plans), sum(plan.keys_examined for plan in plans)


async def _members(gateway: GatewayClient) -> None:
    await add_members(gateway.db, "ann", "v")
    await add_followers(gateway.db, "ann", ["v"])


@pytest.mark.parametrize("name", LISTS)
async def test_a_page_costs_the_same_with_many_posts_behind_it(
    gateway: GatewayClient, commands: Commands, name: str
) -> None:
    await _members(gateway)
    await _add_posts(gateway, NOW, 60)
    few = await _examined(gateway, commands, name)
    after = (await page_of(gateway, "v", name, "id", first=5))["pageInfo"]["endCursor"]
    few_later = await _examined(gateway, commands, name, after=after)
    await _add_posts(gateway, NOW - timedelta(days=9), 3_000)
    assert await _examined(gateway, commands, name) == few
    assert await _examined(gateway, commands, name, after=after) == few_later
    assert few[0] <= 70
    assert few_later[0] <= 70


async def test_a_page_of_news_costs_the_same_with_many_followed_and_blocked(
    gateway: GatewayClient, commands: Commands
) -> None:
    await _members(gateway)
    await _add_posts(gateway, NOW, 60)
    few = [await _examined(gateway, commands, name) for name in LISTS]
    relations = gateway.db["social.relations"]
    for number in range(300):
        await add_followers(gateway.db, f"followed{number}", ["v"])
    await relations.insert_many(
        [
            {"_id": {"of": "v", "to": name}, "of": "v", "to": name, "circles": [], "in_circles": [], **block}
            for number in range(1_000)
            for name, block in ((f"blocked{number}", {"blocks": True, "blocked": number % 2 == 0}),)
        ]
    )
    many = [await _examined(gateway, commands, name) for name in LISTS]
    assert [documents for documents, _ in many] == [documents for documents, _ in few]
    # The scan of relations ends one key later if another relation follows.
    assert all(keys - before <= 1 for (_, keys), (_, before) in zip(many, few, strict=True))


async def test_a_page_of_news_with_merged_authors_is_one_command_that_walks_along_their_indexes(
    gateway: GatewayClient, commands: Commands
) -> None:
    await _members(gateway)
    await _add_posts(gateway, NOW, 60)
    stars = [f"star{number}" for number in range(30)]
    for star in stars:
        await add_followers(gateway.db, star, ["v"])
        posts = [_post(star, NOW - timedelta(hours=number)) for number in range(40)]
        await gateway.db["social.posts"].insert_many(posts)
    await gateway.db["social.relations"].update_many({"of": "v", "to": {"$in": stars}}, {"$set": {"is_merged": True}})
    commands.clear()
    page = await page_of(gateway, "v", "newsFeed", SELECTION)
    assert len({edge["node"]["by"]["userId"] for edge in page["edges"]}) > 10
    assert commands.names() == ["aggregate social.news"]
    [plan] = await explain(gateway.db, commands.sent[0])
    assert plan.documents_examined <= 200


async def test_counts_of_comments_read_the_smaller_of_pages_and_blocks(
    gateway: GatewayClient, commands: Commands
) -> None:
    await _members(gateway)
    await add_members(gateway.db, "bad")
    await _add_paged_post(gateway, 2_000)
    assert await _comment_count(gateway) == 2_003
    await gateway.db["social.relations"].insert_one(
        {"_id": {"of": "v", "to": "bad"}, "of": "v", "to": "bad", "blocked": True, "blocks": False}
    )
    commands.clear()
    assert await _comment_count(gateway) == 1_983
    plans = [plan for one in commands.sent for plan in await explain(gateway.db, one)]
    assert not any(plan.scans_collection for plan in plans)
    [counted] = [plan for plan in plans if plan.name == "aggregate social.comment_pages"]
    assert counted.documents_examined == 1


@pytest.mark.parametrize("place", [0, 1_000])
async def test_a_page_of_comments_costs_the_same_in_a_long_post(
    gateway: GatewayClient, commands: Commands, place: int
) -> None:
    await _members(gateway)
    examined = []
    for spilled in (2_000, 20_000):
        post = await _add_paged_post(gateway, spilled)
        after = None
        if place:
            key = (place, NOW - timedelta(seconds=1), ObjectId())
            after = encode_cursor(comment_reads.comments_of(post["_id"]).binding(), key)
        commands.clear()
        found = await comments_of(gateway, "v", post, first=20, after=after)
        assert len(found["comments"]["nodes"]) == 20
        pages = [one for one in commands.sent if one.get("find") == "social.comment_pages"]
        plans = [plan for one in pages for plan in await explain(gateway.db, one)]
        examined.append(sum(plan.documents_examined for plan in plans))
    assert examined[0] == examined[1] <= 3


async def _add_paged_post(gateway: GatewayClient, spilled: int) -> Document:
    """Adds a post with this many comments in pages, and a page that is not valid yet. `bad` wrote the second page."""
    post = {**_post("ann", NOW), "spilled": spilled, "comment_count": spilled + 3}
    await gateway.db["social.posts"].insert_one(post)
    pages = [
        {
            "_id": {"post": post["_id"], "page": page},
            "post": post["_id"],
            "version": 0,
            "comments": [
                {"id": ObjectId(), "by": who("bad" if page == 20 else "ann"), "posted": NOW, "text": "C"}
                for _ in range(20)
            ],
        }
        for page in range(0, spilled + 20, 20)
    ]
    await gateway.db["social.comment_pages"].insert_many(pages)
    return post


async def _comment_count(gateway: GatewayClient) -> int:
    [edge] = (await page_of(gateway, "v", "wall of ann", "commentCount"))["edges"]
    count: int = edge["node"]["commentCount"]
    return count


async def test_comments_of_a_page_take_a_fixed_number_of_commands(gateway: GatewayClient, commands: Commands) -> None:
    await _members(gateway)
    await gateway.db["social.posts"].insert_many([_post("ann", NOW - timedelta(n), comments=30) for n in range(30)])
    commands.clear()
    query = """
    query ($id: ID!) { user(id: $id) { wall { nodes { comments(first: 10) { nodes { text } } } } } }
    """
    await gateway.data(query, {"id": user_id("ann")}, **as_member(gateway, "v"))
    assert sorted(commands.names()) == [
        "aggregate social.posts",
        "find social.members",
        "find social.posts",
        "find social.relations",
        "find social.relations",
    ]
