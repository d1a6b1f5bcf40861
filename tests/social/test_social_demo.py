"""The demo's social network: members with a past, among them the demo's viewer. Starting the demo again keeps it."""

from __future__ import annotations

from portico.gateway.demo import demo_token
from portico.gateway.settings import Settings
from tests.gateway.test_demo import start
from tests.support.harness import GatewayClient, assert_invariants

COLLECTIONS = ("social.members", "social.relations", "social.posts", "social.news", "social.votes")


async def test_the_demo_has_members_with_a_past_and_its_viewer_is_one_of_them(
    gateway: GatewayClient, settings: Settings
) -> None:
    printed = await start(settings)

    counts = {name: await gateway.db[name].count_documents({}) for name in COLLECTIONS}
    viewer = await gateway.db["social.members"].find_one({"_id": demo_token.SUBJECT})
    months = {post["posted"].strftime("%Y%m") async for post in gateway.db["social.posts"].find()}
    undelivered = await gateway.db["social.posts"].count_documents({"fan_out": {"$exists": True}})

    assert "social network: 36 members, 74 posts" in printed
    assert counts == dict(zip(COLLECTIONS, (36, 262, 74, 445, 39), strict=True))
    assert viewer is not None
    assert viewer["circles"] == ["Listening nights", "Film club", "family \u2665", "vol. 2"]
    assert sorted(months) == ["202409", "202410", "202411", "202412", "202501", "202502"]
    assert undelivered == 0
    await assert_invariants(gateway)


async def test_starting_the_demo_again_does_not_change_the_social_network(
    gateway: GatewayClient, settings: Settings
) -> None:
    await start(settings)
    before = [await gateway.db[name].find().sort("_id", 1).to_list() for name in COLLECTIONS]

    again = await start(settings)

    assert "social network: 36 members, 74 posts" in again
    assert [await gateway.db[name].find().sort("_id", 1).to_list() for name in COLLECTIONS] == before
