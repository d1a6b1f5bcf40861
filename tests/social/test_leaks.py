"""No read or event after a block, a change of circles or a deletion shows what it hides.

Fifty readers read by every path while the change is made. Each read notes whether it began after the acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from portico.resolvers.documents import Database, Document
from portico.resolvers.social import post_comments, post_edits
from tests.social.support.post_reads import as_member, post_id
from tests.social.support.posts import deliver, later, op, write_comment, write_post
from tests.social.support.social import block, circle, join, unblock, uncircle, user_id
from tests.support.harness import GatewayClient

READERS = 50
READS = """
query ($ann: ID!, $cem: ID!, $post: ID!, $other: ID!) {
  node(id: $post) { id }
  nodes(ids: [$post, $post]) { id }
  cem: user(id: $cem) { wall { nodes { id } } }
  ann: user(id: $ann) { wall { nodes { id } } }
  viewer { newsFeed { nodes { id } } incoming { nodes { id } } }
  other: node(id: $other) {
    ... on Post { commentCount latestComments { by { userId } } comments { nodes { by { userId } } } }
  }
}
"""
Change = Callable[[Database, Document, Document], Awaitable[None]]


async def _block(db: Database, _post: Document, _other: Document) -> None:
    await block(db, "ann", "bob")


async def _be_blocked(db: Database, _post: Document, _other: Document) -> None:
    await block(db, "bob", "ann")


async def _uncircle(db: Database, _post: Document, _other: Document) -> None:
    await uncircle(db, "ann", "bob", name="secret")


async def _delete(db: Database, post: Document, _other: Document) -> None:
    await post_edits.delete_post(db, post_id=post["_id"], now=later(9), operation_id=op())


async def _delete_comment(db: Database, _post: Document, other: Document) -> None:
    [comment] = (await db["social.posts"].find_one({"_id": other["_id"]}))["comments"]  # type: ignore[index]
    await post_comments.delete_comment(db, post_id=other["_id"], comment_id=comment["id"], operation_id=op())


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("change", "hides_post", "hides_comment"),
    [
        (_block, True, True),
        (_be_blocked, True, True),
        (_uncircle, True, False),
        (_delete, True, False),
        (_delete_comment, False, True),
    ],
)
async def test_nothing_leaks_after_a_change_is_acknowledged(
    gateway: GatewayClient, change: Change, hides_post: bool, hides_comment: bool
) -> None:
    await join(gateway.db, "ann", "bob", "cem", follows={"bob": ["ann", "cem"]})
    await circle(gateway.db, "ann", "bob", name="secret")
    post = await write_post(gateway.db, "ann", to="cem", audience="SELECTED", circle_names=["secret"], now=later(1))
    other = await write_post(gateway.db, "cem", now=later(2))
    await write_comment(gateway.db, other, "ann")
    await deliver(gateway.db, now=later(9))
    variables = {"ann": user_id("ann"), "cem": user_id("cem"), "post": post_id(post), "other": post_id(other)}
    reading, acknowledged = asyncio.Event(), asyncio.Event()
    before: list[Any] = []
    after: list[Any] = []

    async def read() -> None:
        for _ in range(2):
            is_after = acknowledged.is_set()
            data = await gateway.data(READS, variables, **as_member(gateway, "bob"))
            (after if is_after else before).append(data)
            if len(before) == READERS // 2:
                reading.set()
        await acknowledged.wait()
        after.append(await gateway.data(READS, variables, **as_member(gateway, "bob")))

    async def make() -> None:
        await reading.wait()
        await change(gateway.db, post, other)
        acknowledged.set()

    await asyncio.gather(make(), *(read() for _ in range(READERS)))
    shown = post_id(post)
    assert shown in str(before[0])
    assert len(after) >= READERS
    for data in after:
        comments = data.pop("other")
        assert (shown in str(data)) is not hides_post
        assert comments == _comments(0 if hides_comment else 1)


def _comments(count: int) -> dict[str, Any]:
    rows = [{"by": {"userId": "ann"}}] * count
    return {"commentCount": count, "latestComments": rows, "comments": {"nodes": rows}}


WALL = "query ($id: ID!) @live { user(id: $id) { name wall(first: 5) { nodes { id } } } }"


async def rows(answers: AsyncGenerator[Any, None]) -> int | None:
    """Returns how many posts the next answer shows; None if it does not show the member."""
    user = (await anext(answers))["user"]
    return None if user is None else len(user["wall"]["nodes"])


async def test_a_live_query_follows_circles_and_blocks(gateway: GatewayClient) -> None:
    await join(gateway.db, "mara", "bo", follows={"mara": ["bo"]})
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
