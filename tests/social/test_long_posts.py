"""Pages of posts with texts of the greatest length."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from bson import ObjectId

from portico.gateway.settings import Settings
from tests.social.support.post_reads import page_of, post_id
from tests.social.support.posts import later, write_post
from tests.social.support.social import circle, join, user_id
from tests.support.harness import GatewayClient, running

# Four bytes a character.
LONGEST = "😀" * 100_000


@pytest.fixture
async def gateway(settings: Settings) -> AsyncIterator[GatewayClient]:
    """A gateway without a bound on the size of an answer."""
    async with running(replace(settings, max_answer_bytes=1_000_000_000)) as client:
        yield client


async def test_an_own_wall_with_the_longest_posts_of_members_not_followed_shows_the_own_post(
    gateway: GatewayClient,
) -> None:
    await join(gateway.db, "max", "dwight")
    own = await write_post(gateway.db, "max", now=later(1))
    post = await write_post(gateway.db, "dwight", LONGEST, to="max", now=later(2))
    for _ in range(13):
        await gateway.db["social.posts"].insert_many([{**post, "_id": ObjectId()} for _ in range(30)])

    page = await page_of(gateway, "max", "wall of max", "id ... on StatusPost { text }")

    assert [edge["node"]["id"] for edge in page["edges"]] == [post_id(own)]


async def test_the_walls_of_many_members_show_the_longest_posts(gateway: GatewayClient) -> None:
    names = [f"m{number:02}" for number in range(15)]
    await join(gateway.db, "max", *names)
    for name in names:
        await circle(gateway.db, name, "max")
        post = await write_post(gateway.db, name, LONGEST)
        await gateway.db["social.posts"].insert_many([{**post, "_id": ObjectId()} for _ in range(19)])
    walls = """
    query ($id: ID!) {
      user(id: $id) { followers { nodes { wall { nodes { ... on StatusPost { text } } } } } }
    }
    """

    found = await gateway.data(walls, {"id": user_id("max")})

    assert [len(one["wall"]["nodes"]) for one in found["user"]["followers"]["nodes"]] == [20] * 15
