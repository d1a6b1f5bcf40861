"""Posts that the process which has stored them delivers by itself."""

from __future__ import annotations

from datetime import timedelta

import pytest

from portico.resolvers.documents import Database
from portico.resolvers.social.fan_out_order import LEASE
from portico.resolvers.social.fresh_posts import FreshPosts
from tests.social.support.posts import NOW, add_followers, add_members, deliver, feeds_with, write_fresh, write_post
from tests.support.crashing_databases import CrashingDatabases
from tests.support.harness import GatewayClient
from tests.support.interruptions import stopping

SECOND = timedelta(seconds=1)


@pytest.fixture
async def followed(gateway: GatewayClient) -> Database:
    """The database of members with followers: of star, more than one batch."""
    db = gateway.db
    await add_members(db, "star", "max", "zoe")
    await add_followers(db, "star", [f"f{number:04}" for number in range(1_200)])
    for author in ("max", "zoe"):
        await add_followers(db, author, ["dwight", "jared"])
    return db


async def test_a_fresh_post_is_neither_searched_nor_claimed(gateway: GatewayClient, followed: Database) -> None:
    fresh = FreshPosts(10)
    post = await write_fresh(followed, fresh, "max")
    gateway.commands.clear()

    assert await deliver(followed, fresh=fresh) == 1

    names = gateway.commands.names()
    assert await feeds_with(followed, post) == {"dwight", "jared"}
    # The searches are for posts behind it.
    assert names.count("find social.posts") == 2
    others = ["find social.members", *["find social.relations"] * 2, "insert social.news", "update social.posts"]
    assert sorted(name for name in names if name != "find social.posts") == others
    assert await deliver(followed, fresh=fresh, now=NOW + 2 * LEASE) == 0


async def test_a_delivery_of_fresh_posts_that_crashes_anywhere_is_finished_by_another_worker(
    followed: Database,
) -> None:
    databases = CrashingDatabases(followed)
    for crashing_db in databases:
        fresh = FreshPosts(10)
        posts = [await write_fresh(followed, fresh, author) for author in ("star", "max")]
        with stopping():
            await deliver(crashing_db, fresh=fresh)
        if databases.has_crashed:
            # The leases hold until they expire.
            await deliver(followed, now=NOW + 2 * LEASE)

        assert [len(await feeds_with(followed, post)) for post in posts] == [1_200, 2]
        assert await followed["social.posts"].find_one({"fan_out": {"$exists": True}}) is None
    assert databases.stop > 6


async def test_another_worker_leaves_a_fresh_post_to_its_process_until_the_lease_expires(followed: Database) -> None:
    fresh = FreshPosts(10)
    post = await write_fresh(followed, fresh, "max")

    assert await deliver(followed, now=NOW + LEASE - SECOND) == 0
    assert await feeds_with(followed, post) == set()
    assert await deliver(followed, now=NOW + LEASE) == 1
    assert await feeds_with(followed, post) == {"dwight", "jared"}
    # The process has slept meanwhile.
    assert await deliver(followed, now=NOW + LEASE + SECOND, fresh=fresh) == 0


async def test_a_fresh_post_that_has_waited_for_long_is_left_to_the_line(followed: Database) -> None:
    fresh = FreshPosts(10)
    post = await write_fresh(followed, fresh, "max")

    assert await deliver(followed, now=NOW + LEASE / 2, fresh=fresh) == 0
    assert await deliver(followed, now=NOW + LEASE, fresh=fresh) == 1
    assert await feeds_with(followed, post) == {"dwight", "jared"}


async def test_fresh_posts_and_the_line_take_turns(gateway: GatewayClient, followed: Database) -> None:
    names = [f"m{number:02}" for number in range(12)]
    await add_members(followed, *names)
    for name in names:
        await add_followers(followed, name, ["dwight"])
    fresh = FreshPosts(100)
    waiting = [await write_post(followed, "max"), await write_post(followed, "zoe")]
    for name in names:
        await write_fresh(followed, fresh, name)
    gateway.commands.clear()

    assert await deliver(followed, fresh=fresh) == 14

    entries = [
        row["post"] for one in gateway.commands.sent if one.get("insert") == "social.news" for row in one["documents"]
    ]
    order = list(dict.fromkeys(entries))
    # Four batches are written at the same time.
    assert max(order.index(post["_id"]) for post in waiting) < 2 * len(waiting) + 4


async def test_an_author_has_one_fresh_post_and_a_process_has_a_bounded_number(followed: Database) -> None:
    fresh = FreshPosts(2)

    for author in ("star", "star", "max", "zoe"):
        await write_fresh(followed, fresh, author)

    stored = await followed["social.posts"].find({}, sort=[("$natural", 1)]).to_list()
    assert ["op" in post["fan_out"] for post in stored] == [True, False, True, False]
    assert FreshPosts().claim("max") is None
    assert await deliver(followed, fresh=fresh) == 6
    assert await followed["social.posts"].find_one({"fan_out": {"$exists": True}}) is None
