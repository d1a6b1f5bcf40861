"""The demo's social network: members with a past, among them the demo's viewer. Starting the demo again keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portico.gateway.demo import demo_token
from tests.support.demo import Demo, load_demo
from tests.support.harness import GatewayClient, assert_invariants

COLLECTIONS = ("social.members", "social.relations", "social.posts", "social.news", "social.votes")

CIRCLES = ["Listening nights", "Film club", "family \u2665", "vol. 2"]
KINDS = {"StatusPost", "LinkPost", "PhotoPost", "CheckinPost", "PollPost"}
VIEWER = """
{
  viewer {
    user { name circles { name } blocked { name } }
    newsFeed(first: 100) { nodes { __typename by { name } } }
    incoming { nodes { by { name } } }
  }
}
"""


async def test_the_demo_has_members_with_a_past_and_its_viewer_is_one_of_them(
    demo_gateway: GatewayClient, loaded_demo: Demo
) -> None:
    counts = {name: await demo_gateway.db[name].count_documents({}) for name in COLLECTIONS}
    viewer = await demo_gateway.db["social.members"].find_one({"_id": demo_token.SUBJECT})
    months = {post["posted"].strftime("%Y%m") async for post in demo_gateway.db["social.posts"].find()}
    undelivered = await demo_gateway.db["social.posts"].count_documents({"fan_out": {"$exists": True}})

    assert "social network: 36 members, 74 posts" in loaded_demo.printed
    assert counts == dict(zip(COLLECTIONS, (36, 262, 74, 445, 39), strict=True))
    assert viewer is not None
    assert viewer["circles"] == CIRCLES
    assert sorted(months) == ["202409", "202410", "202411", "202412", "202501", "202502"]
    assert undelivered == 0
    await assert_invariants(demo_gateway)


async def test_the_viewer_of_the_demo_has_circles_a_wall_and_a_news_feed(demo_gateway: GatewayClient) -> None:
    viewer = (await demo_gateway.data(VIEWER, token=demo_gateway.token(demo_token.SUBJECT, [])))["viewer"]

    assert viewer["user"]["name"] == "Robin"
    assert [one["name"] for one in viewer["user"]["circles"]] == CIRCLES
    assert [one["name"] for one in viewer["user"]["blocked"]] == ["Viktor"]
    assert len(viewer["newsFeed"]["nodes"]) == 53
    assert {post["__typename"] for post in viewer["newsFeed"]["nodes"]} == KINDS
    assert "Robin" in {post["by"]["name"] for post in viewer["newsFeed"]["nodes"]}
    assert all(post["by"]["name"] != "Viktor" for post in viewer["newsFeed"]["nodes"])
    assert [post["by"]["name"] for post in viewer["incoming"]["nodes"]] == ["Bram", "Lene", "Saskia", "Wanda", "Pim"]


@pytest.mark.usefixtures("demo")
async def test_starting_the_demo_again_does_not_change_the_social_network(gateway: GatewayClient) -> None:
    before = [await gateway.db[name].find().sort("_id", 1).to_list() for name in COLLECTIONS]

    again = await load_demo(replace(gateway.settings, domains="content,social"))

    assert "social network: 36 members, 74 posts" in again
    assert [await gateway.db[name].find().sort("_id", 1).to_list() for name in COLLECTIONS] == before
