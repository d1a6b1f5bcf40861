"""A live query follows the rights of its caller."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from tests.social.support.posts import write_post
from tests.social.support.social import block, circle, join, unblock, uncircle, user_id
from tests.support.harness import GatewayClient

WALL = "query ($id: ID!) @live { user(id: $id) { name wall(first: 5) { nodes { id } } } }"


async def rows(answers: AsyncGenerator[Any, None]) -> int | None:
    """Returns how many posts the next answer shows; None if it does not show the member."""
    user = (await anext(answers))["user"]
    return None if user is None else len(user["wall"]["nodes"])


async def test_a_live_query_follows_circles_and_blocks(gateway: GatewayClient) -> None:
    await join(gateway.db, "mara", "bo")
    await circle(gateway.db, "mara", "bo")
    bo = gateway.as_caller("bo")
    async with bo.subscription(WALL, {"id": user_id("mara")}) as answers:
        assert await rows(answers) == 0
        await write_post(gateway.db, "mara", audience="SELECTED", circle_names=["friends"])
        assert await rows(answers) == 1
        await uncircle(gateway.db, "mara", "bo")
        assert await rows(answers) == 0
        await circle(gateway.db, "mara", "bo")
        assert await rows(answers) == 1
        await block(gateway.db, "mara", "bo")
        assert await rows(answers) is None
        await unblock(gateway.db, "mara", "bo")
        # The block has left bo in the circle.
        assert await rows(answers) == 1
