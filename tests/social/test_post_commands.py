"""The commands of posts: how many there are, that each uses an index, and that writes go to one shard."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from portico.resolvers.social import post_jobs, renames
from tests.social.support.posts import add_followers, call, deliver, new_post, write_comment, write_post
from tests.social.support.social import circle, join
from tests.support.explaining import explain
from tests.support.harness import GatewayClient, SettableClock
from tests.support.routing import unroutable

POLL = {"poll": {"text": "?", "options": ["Yes", "No"]}}
# The reads of jobs, which look for work on all shards.
OF_ALL_SHARDS = {
    "find social.posts _id by.id fan_out.due",
    "find social.posts remove_at",
    "find social.posts removing",
    "find social.members $or",
    # A name can be in any post and page.
    "find social.posts by.id by.name deleted",
    "find social.posts deleted to.id to.name",
    "find social.posts comments comments.by.id",
    "find social.comment_pages comments comments.by.id",
    "find social.news post",
}
# The shard key begins with `of`, so these go to the shards with the relations of one member.
OF_A_MEMBER = {
    "aggregate social.relations circles of",
    "aggregate social.relations follower of",
    "find social.relations follower of",
    "find social.relations follower_before of",
}


@pytest.fixture
async def members(gateway: GatewayClient) -> GatewayClient:
    """A gateway with members, some posts with comments in pages, and entries."""
    await join(gateway.db, "max", "dwight")
    await circle(gateway.db, "max", "dwight", name="work")
    await add_followers(gateway.db, "max", [f"f{number:03}" for number in range(200)])
    now = gateway.state.clock.now()
    for number in range(30):
        post = await write_post(gateway.db, "max", str(number), now=now)
    for number in range(45):
        await write_comment(gateway.db, post, "dwight", str(number), now=now)
    gateway.commands.clear()
    return gateway


async def assert_cheap(gateway: GatewayClient) -> list[str]:
    """Asserts that the recorded commands use indexes, and go to one shard or are known. Returns their names."""
    sent, names = list(gateway.commands.sent), gateway.commands.names()
    assert set(unroutable(sent)) <= OF_ALL_SHARDS | OF_A_MEMBER
    for command in sent:
        for plan in await explain(gateway.db, command):
            assert not plan.scans_collection, command
            assert not plan.sorts_in_memory, command
    gateway.commands.clear()
    return names


async def test_mutations_of_posts_use_indexes_and_go_to_one_shard(members: GatewayClient) -> None:
    given: dict[str, dict[str, Any]] = {
        "createPost": {"detail": POLL, "audience": "SELECTED", "circles": ["work"], "idempotencyKey": "one"},
        "commentOnPost": {"text": "x", "idempotencyKey": "two"},
        "vote": {"option": 1, "idempotencyKey": "three"},
        "deletePost": {"idempotencyKey": "four"},
    }
    post = await new_post(members, "max", detail=POLL)
    members.commands.clear()
    for mutation, fields in given.items():
        for _ in range(2):
            own = {} if mutation == "createPost" else {"postId": post["id"]}
            await call(members, "max", mutation, **own, **fields)

            assert await assert_cheap(members), mutation


async def test_a_public_post_takes_the_insert_and_few_reads(members: GatewayClient) -> None:
    await call(members, "max", "createPost", detail={"status": {"text": "x"}})

    # The reads and the count go out together.
    assert sorted(await assert_cheap(members)) == [
        "find social.members",
        "find social.relations",
        "insert social.posts",
        "update social.rates",
    ]


async def test_a_member_who_votes_again_is_not_read_again_for_a_minute(
    members: GatewayClient, clock: SettableClock
) -> None:
    post = await new_post(members, "max", detail=POLL)
    members.commands.clear()
    clock.stop()
    read = []
    for option, seconds in ((0, 0), (1, 59), (0, 1)):
        clock.advance(seconds=seconds)
        await call(members, "max", "vote", postId=post["id"], option=option)
        read.append((await assert_cheap(members)).count("find social.members"))

    assert read == [1, 0, 1]


async def test_a_stranger_who_has_been_refused_can_vote_after_joining(members: GatewayClient) -> None:
    post = await new_post(members, "max", detail=POLL)
    refused = await call(members, "stranger", "vote", postId=post["id"], option=0)
    await join(members.db, "stranger")

    voted = await call(members, "stranger", "vote", postId=post["id"], option=0)

    assert (refused["__typename"], voted["__typename"]) == ("NotFound", "PostPayload")


async def test_a_delivery_counts_no_followers_whom_it_has_read(members: GatewayClient, clock: SettableClock) -> None:
    now = clock.now() + timedelta(seconds=1)
    await deliver(members.db, now=now)
    await assert_cheap(members)
    await write_post(members.db, "max", now=now)
    members.commands.clear()

    assert await deliver(members.db, now=now) == 1

    names = await assert_cheap(members)
    assert "aggregate social.relations" not in names
    assert (names.count("find social.relations"), names.count("find social.members")) == (2, 1)


async def test_jobs_of_posts_use_indexes_and_write_to_one_shard(members: GatewayClient, clock: SettableClock) -> None:
    db, now = members.db, clock.now() + timedelta(seconds=1)
    await deliver(db, now=now, max_fan_out=10_000)
    await assert_cheap(members)
    (latest,) = await db["social.posts"].find({"comment_count": 45}).to_list()
    await write_post(db, "max", now=now)
    await deliver(db, now=now, max_fan_out=100)
    members.commands.clear()
    await db["social.members"].update_one({"_id": "dwight"}, {"$set": {"name": "D", "renamed": {"op": "x", "at": now}}})
    await db["social.posts"].update_one({"_id": latest["_id"]}, {"$set": {"deleted": now, "remove_at": now}})
    members.commands.clear()

    await renames.copy_names(db, now=now)
    await assert_cheap(members)
    await post_jobs.finish_posts(db, now=now)
    await assert_cheap(members)
    await post_jobs.finish_posts(db, now=now + timedelta(days=2))
    await assert_cheap(members)
