"""The delivery of posts to news feeds, also by the process that has stored them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Database, Document, DocumentId
from portico.resolvers.social import fan_out, fan_out_order
from portico.resolvers.social.fan_out_order import LEASE, DueBatch
from portico.resolvers.social.fresh_posts import FreshPosts
from portico.resolvers.social.relation_checks import find_wrong_relations
from portico.resolvers.writes.sweeps import SweepFailed
from tests.social.support.post_reads import as_member, post_id, posts_in
from tests.social.support.posts import (
    NO_BOUND,
    NOW,
    add_followers,
    add_members,
    deliver,
    feeds_with,
    later,
    put_in_circles,
    write_fresh,
    write_post,
)
from tests.social.support.social import circle, join, uncircle
from tests.support.crashing_databases import CrashingDatabases
from tests.support.harness import IS_SOAK, GatewayClient
from tests.support.interruptions import stopping
from tests.support.sockets import until

# So many posts of one author are delivered at once.
BURST = 30 if IS_SOAK else 15


async def test_a_public_post_reaches_every_follower_and_nobody_else(db: Database) -> None:
    await add_members(db, "max", "dwight", "jared", "rick", followers={"max": ["dwight", "jared"]})

    post = await write_post(db, "max")
    await deliver(db)

    assert await feeds_with(db, post) == {"dwight", "jared"}
    assert await db["social.posts"].find_one({"fan_out": {"$exists": True}}) is None


async def test_a_post_for_circles_reaches_the_followers_in_them(db: Database) -> None:
    await add_members(db, "max", "dwight", "jared", "rick", circles=["work", "chess"])
    await add_followers(db, "max", ["dwight", "jared", "rick"])
    await put_in_circles(db, "max", "dwight", "work")
    await put_in_circles(db, "max", "jared", "chess")

    to_all = await write_post(db, "max", audience="CIRCLES")
    to_work = await write_post(db, "max", audience="SELECTED", circle_names=["work", "work"])
    await deliver(db)

    assert await feeds_with(db, to_all) == {"dwight", "jared"}
    assert await feeds_with(db, to_work) == {"dwight"}
    assert to_work["circles"] == ["work"]


@pytest.mark.parametrize("max_fan_out", [1, 100], ids=["merged on read", "delivered"])
async def test_a_post_on_ones_wall_for_the_circles_of_others_is_incoming_and_no_news(
    gateway: GatewayClient, max_fan_out: int
) -> None:
    await join(gateway.db, "ann", "bob", "cem", follows=dict.fromkeys(("ann", "cem"), ("bob",)))
    await circle(gateway.db, "bob", "ann", name="chess")
    await circle(gateway.db, "bob", "cem", name="work")
    lists = "{ viewer { newsFeed { nodes { id } } incoming { nodes { id } } } }"
    async with gateway.as_caller("ann").subscription("subscription { newsFeedPosted { id } }") as posted:
        hidden = await write_post(gateway.db, "bob", to="ann", audience="SELECTED", circle_names=["work"])
        shown = await write_post(gateway.db, "bob", to="ann", audience="CIRCLES", now=later(1))
        await deliver(gateway.db, max_fan_out=max_fan_out, now=later(2))

        viewer = (await gateway.data(lists, **as_member(gateway, "ann")))["viewer"]

        assert [post["id"] for post in viewer["newsFeed"]["nodes"]] == [post_id(shown)]
        assert [post["id"] for post in viewer["incoming"]["nodes"]] == [post_id(shown), post_id(hidden)]
        assert (await anext(posted))["newsFeedPosted"]["id"] == post_id(shown)


async def test_a_member_who_follows_after_the_post_does_not_get_it(db: Database) -> None:
    await add_members(db, "max", "dwight", "jared", followers={"max": ["dwight"]})
    post = await write_post(db, "max")
    await add_followers(db, "max", ["jared"], since=NOW + timedelta(milliseconds=1))

    await deliver(db, now=NOW + timedelta(seconds=1))

    assert await feeds_with(db, post) == {"dwight"}


async def test_a_post_reaches_thousands_of_followers_once_each(db: Database) -> None:
    followers = [f"f{number:05}" for number in range(2_500)]
    await add_members(db, "max", followers={"max": followers})

    post = await write_post(db, "max")
    assert await deliver(db) == 3

    assert await feeds_with(db, post) == set(followers)
    assert await deliver(db) == 0


async def test_an_author_with_too_many_followers_is_merged_on_read(db: Database) -> None:
    followers = [f"f{number:05}" for number in range(1_500)]
    await add_members(db, "max", "dwight", followers={"max": followers, "dwight": followers[:10]})

    post, other = await write_post(db, "max"), await write_post(db, "dwight")
    await deliver(db, max_fan_out=1_499)

    assert await feeds_with(db, post) == set()
    assert len(await feeds_with(db, other)) == 10
    marked = await db["social.relations"].find({"is_merged": True}).to_list()
    assert {(relation["of"], relation["to"]) for relation in marked} == {(name, "max") for name in followers}
    author = await db["social.members"].find_one({"_id": "max"})
    assert author is not None
    assert author["is_merged"]
    assert "merging" not in author
    assert await db["social.posts"].find_one({"fan_out": {"$exists": True}}) is None


async def test_delivery_alternates_between_authors_whatever_the_number_of_their_posts(gateway: GatewayClient) -> None:
    db = gateway.db
    await add_members(db, "star", "max", "zoe", followers={"star": [f"f{number:05}" for number in range(1_500)]})
    for author in ("max", "zoe"):
        await add_followers(db, author, ["f00000", "f00001"])
    bursts = [await write_post(db, "star", str(number)) for number in range(BURST)]
    others = [await write_post(db, name, now=NOW + timedelta(milliseconds=1)) for name in ("max", "zoe", "max")]
    gateway.commands.clear()

    assert await deliver(db, now=NOW + timedelta(seconds=1)) == 2 * BURST + 3

    delivered = _delivered(gateway)
    assert max(delivered.index(post["_id"]) for post in others) <= 8
    for post in (bursts[0], bursts[-1]):
        assert len(await feeds_with(db, post)) == 1_500


async def test_a_post_that_is_written_while_a_burst_is_delivered_comes_next(gateway: GatewayClient) -> None:
    db = gateway.db
    await add_members(db, "max", "zoe", followers={"zoe": [f"f{number:05}" for number in range(1_500)]})
    await add_followers(db, "max", ["f00000"])
    for number in range(BURST):
        await write_post(db, "zoe", str(number))
    gateway.commands.clear()
    woken = asyncio.Event()
    limits = fan_out.Limits(NO_BOUND, timedelta(days=1))
    delivering = asyncio.create_task(fan_out.deliver_posts(db, limits, now=NOW + timedelta(seconds=1), woken=woken))
    await until(lambda: len(_delivered(gateway)) >= 10)
    late = await write_post(db, "max")
    woken.set()
    begun = len(_delivered(gateway))
    await delivering

    assert _delivered(gateway).index(late["_id"]) - begun <= fan_out_order.AT_ONCE
    assert await feeds_with(db, late) == {"f00000"}


async def test_an_author_without_a_name_that_can_be_read_delays_nobody(db: Database) -> None:
    await add_members(db, "max", followers={"max": ["dwight"]})
    wrong = [await write_post(db, "max", str(number)) for number in range(4)]
    post = await write_post(db, "max")
    posts = db["social.posts"]
    for damaged, by in zip(wrong, (None, {}, {"id": 7}, {"id": ["max"]}), strict=True):
        await posts.update_one({"_id": damaged["_id"]}, {"$set": {"by": by}})

    with pytest.raises(SweepFailed):
        await deliver(db)

    assert await feeds_with(db, post) == {"dwight"}


def _delivered(gateway: GatewayClient) -> list[ObjectId]:
    """Returns the posts in the order in which they were claimed."""
    return [one["query"]["_id"] for one in gateway.commands.sent if one.get("findAndModify") == "social.posts"]


@pytest.mark.parametrize("returns_before", [True, False])
async def test_a_member_who_stops_following_and_begins_again_has_the_posts_between(
    gateway: GatewayClient, returns_before: bool
) -> None:
    db = gateway.db
    await join(db, "max", "dwight", "jared", "rick", follows=dict.fromkeys(("dwight", "jared"), ("max",)))
    post = await write_post(db, "max", now=later(1))
    await uncircle(db, "dwight", "max", now=later(2))
    without = await write_post(db, "max", now=later(3))
    if returns_before:
        for moment in (4, 6):
            await circle(db, "dwight", "max", now=later(moment))
            await uncircle(db, "dwight", "max", now=later(moment + 1))
        await circle(db, "dwight", "max", now=later(8))
    await circle(db, "rick", "max", now=later(8))

    await deliver(db, now=later(9))

    if not returns_before:
        assert await posts_in(gateway, "dwight", "newsFeed") == []
        await circle(db, "dwight", "max", now=later(10))
    assert await posts_in(gateway, "dwight", "newsFeed") == [post_id(post)]
    assert await posts_in(gateway, "jared", "newsFeed") == [post_id(without), post_id(post)]
    assert await posts_in(gateway, "rick", "newsFeed") == []


async def test_the_times_of_following_are_bounded_and_copied(db: Database) -> None:
    await join(db, "max", "dwight")
    for moment in range(0, 40, 2):
        await circle(db, "dwight", "max", now=later(moment))
        await circle(db, "dwight", "max", name="work", now=later(moment))
        await uncircle(db, "dwight", "max", name="work", now=later(moment))
        await uncircle(db, "dwight", "max", now=later(moment + 1))
    own = await db["social.relations"].find_one({"of": "dwight", "to": "max"}) or {}
    copy = await db["social.relations"].find_one({"of": "max", "to": "dwight"}) or {}
    assert len(own["followed_before"]) == 8
    assert all(one["until"] - one["since"] >= timedelta(seconds=1) for one in own["followed_before"])
    assert copy["follower_before"] == own["followed_before"]
    assert [problem async for problem in find_wrong_relations(db)] == []


async def test_a_run_ends_only_after_the_last_post_whenever_a_batch_ends(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_members(db, "max", followers={"max": ["dwight"]})
    posts = [await write_post(db, "max", str(number)) for number in range(5)]
    find = fan_out_order.DueBatches._find

    async def find_slowly(batches: fan_out_order.DueBatches, query: Document) -> fan_out_order.DueBatch | None:
        found = await find(batches, query)
        # All batches in flight end before the read returns.
        await until(lambda: not batches._taken)
        return found

    monkeypatch.setattr(fan_out_order.DueBatches, "_find", find_slowly)
    assert await deliver(db) == 5
    assert all([await feeds_with(db, post) == {"dwight"} for post in posts])


SECOND = timedelta(seconds=1)


@pytest.fixture
async def followed(gateway: GatewayClient) -> Database:
    """The database of members with followers: of star, more than one batch."""
    db = gateway.db
    await add_members(db, "star", "max", "zoe", followers={"star": [f"f{number:04}" for number in range(1_200)]})
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


async def test_fresh_posts_and_the_line_take_turns(followed: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def begin(db: Database, batch: DueBatch, *more: Any) -> int:
        begun.append(batch.post)
        return await deliver_batch(db, batch, *more)

    begun: list[DocumentId] = []
    deliver_batch = fan_out._deliver_batch
    monkeypatch.setattr(fan_out, "_deliver_batch", begin)
    names = [f"m{number:02}" for number in range(12)]
    await add_members(followed, *names, followers=dict.fromkeys(names, ("dwight",)))
    fresh = FreshPosts(100)
    waiting = [await write_post(followed, "max"), await write_post(followed, "zoe")]
    for name in names:
        await write_fresh(followed, fresh, name)

    assert await deliver(followed, fresh=fresh) == 14

    assert len(begun) == 14
    assert [begun.index(post["_id"]) for post in waiting] == [1, 3]


async def test_an_author_has_one_fresh_post_and_a_process_has_a_bounded_number(followed: Database) -> None:
    fresh = FreshPosts(2)

    for author in ("star", "star", "max", "zoe"):
        await write_fresh(followed, fresh, author)

    stored = await followed["social.posts"].find({}, sort=[("$natural", 1)]).to_list()
    assert ["op" in post["fan_out"] for post in stored] == [True, False, True, False]
    assert FreshPosts().claim("max") is None
    assert await deliver(followed, fresh=fresh) == 6
    assert await followed["social.posts"].find_one({"fan_out": {"$exists": True}}) is None
