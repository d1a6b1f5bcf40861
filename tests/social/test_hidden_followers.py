"""Lists of members with many who have blocked the viewer."""

from __future__ import annotations

from tests.support.harness import Commands, GatewayClient
from tests.support.post_reads import as_member, user_id
from tests.support.social import block, circle, join

FOLLOWERS = "query ($id: ID!) { user(id: $id) { followers(first: 1) { nodes { name } } } }"


async def test_many_hidden_followers_take_few_commands(gateway: GatewayClient, commands: Commands) -> None:
    hidden = [f"m{number:02}" for number in range(60)]
    await join(gateway.db, "max", "dwight", "zoe", *hidden)
    for follower in (*hidden, "zoe"):
        await circle(gateway.db, follower, "max")
    for follower in hidden:
        await block(gateway.db, follower, "dwight")
    commands.clear()

    found = await gateway.data(FOLLOWERS, {"id": user_id("max")}, **as_member(gateway, "dwight"))

    assert found == {"user": {"followers": {"nodes": [{"name": "Zoe"}]}}}
    # Pages of 1, 4, 16 and 64 rows.
    assert commands.names().count("aggregate social.relations") == 4
