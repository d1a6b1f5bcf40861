"""Members who post, comment, vote and delete at once, and jobs of posts that crash or pause anywhere."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import datetime, timedelta

import pytest

from portico.gateway.clock import SystemClock
from portico.resolvers.documents import Database, Document
from portico.resolvers.social import fan_out, post_comments, post_edits, post_jobs, renames, votes
from tests.social.support.posts import (
    NOW,
    add_followers,
    add_members,
    comments_of,
    deliver,
    feeds_with,
    later,
    op,
    write_comment,
    write_comments,
    write_post,
)
from tests.social.support.social import circle, join, uncircle
from tests.support.crashing_databases import CrashingDatabases
from tests.support.domains import INVARIANTS
from tests.support.interruptions import interrupted, stopping


async def assert_right(db: Database) -> None:
    assert [problem for invariant in INVARIANTS async for problem in invariant.check(db)] == []


async def test_many_members_post_comment_vote_and_delete_at_once_while_workers_deliver(db: Database) -> None:
    rng = random.Random(8)
    names = [f"m{number:03}" for number in range(100)]
    await add_members(db, *names)
    # No two members follow each other.
    followers = {name: [names[(place + step) % 100] for step in range(1, 13)] for place, name in enumerate(names)}
    await asyncio.gather(*(add_followers(db, name, some) for name, some in followers.items()))
    poll = await write_post(db, names[0], kind="poll", detail={"text": "?", "options": ["a", "b", "c"]})

    async def act(name: str) -> None:
        post = await write_post(db, name)
        mine = await write_comment(db, poll, name, f"from {name}")
        await votes.vote(db, post_id=poll["_id"], voter=name, option=rng.randrange(3), now=NOW, operation_id=op())
        if rng.random() < 0.3:
            await post_comments.delete_comment(db, post_id=poll["_id"], comment_id=mine, operation_id=op())
        if rng.random() < 0.2:
            await post_edits.delete_post(db, post_id=post["_id"], now=NOW, operation_id=op())

    async def work() -> None:
        for _ in range(15):
            await deliver(db)
            await post_jobs.finish_posts(db, now=NOW)
            await asyncio.sleep(0.01)

    await asyncio.gather(work(), work(), *map(act, names))
    await deliver(db, now=NOW + timedelta(seconds=11))
    await post_jobs.finish_posts(db, now=NOW + timedelta(days=1))

    await assert_right(db)
    async for post in db["social.posts"].find({}):
        assert await feeds_with(db, post) == set(followers[post["by"]["id"]])
    slots = await db["social.votes"].find({}).to_list()
    assert sum(votes.counts_of(slots, 3)) == 100


@pytest.fixture
async def posts(db: Database) -> list[Document]:
    """Posts of twenty authors, each for two followers."""
    names = [f"m{number:02}" for number in range(20)]
    await add_members(db, *names, followers={name: ["dwight", "jared"] for name in names})
    return [await write_post(db, name) for name in names]


async def test_two_workers_deliver_each_post_once(db: Database, posts: list[Document]) -> None:
    shares = await asyncio.gather(deliver(db), deliver(db))

    # A worker that always asks a little later can find each post claimed.
    assert sum(shares) == 20
    assert [await feeds_with(db, post) for post in posts] == [{"dwight", "jared"}] * 20


async def test_a_worker_delivers_the_posts_that_another_has_not_claimed(db: Database, posts: list[Document]) -> None:
    shares: list[int] = []

    async def deliver_others() -> None:
        shares.append(await deliver(db))

    own = await deliver(interrupted(db, "social.posts", "find_one_and_update", deliver_others, skip=1))

    assert (own + sum(shares), own > 0, shares[0] > 0) == (20, True, True)
    assert [await feeds_with(db, post) for post in posts] == [{"dwight", "jared"}] * 20


async def test_a_post_to_many_followers_goes_behind_the_posts_of_others_after_each_batch(db: Database) -> None:
    await add_members(db, "star", "max", followers={"star": [f"f{number:05}" for number in range(5_500)]})
    await add_followers(db, "max", ["dwight"])
    big = await write_post(db, "star")
    small = await write_post(db, "max", now=NOW + timedelta(milliseconds=5))

    await deliver(db, now=NOW + timedelta(milliseconds=5))

    in_order = await db["social.news"].find({}, {"post": 1}, sort=[("$natural", 1)]).to_list()
    place = [entry["post"] for entry in in_order].index(small["_id"])
    # The first batch of the large author can be there, and a part of the second.
    assert place < 2_000
    assert len(await feeds_with(db, big)) == 5_500


async def test_a_deletion_beside_the_delivery_leaves_nothing(db: Database) -> None:
    followers = [f"f{number:04}" for number in range(1_500)]
    await add_members(db, "max", followers={"max": followers})
    for number in range(5):
        post = await write_post(db, "max")

        async def delete(post_id: object = post["_id"], turns: int = number * 5) -> None:
            for _ in range(turns):
                await asyncio.sleep(0.001)
            await post_edits.delete_post(db, post_id=post_id, now=NOW, operation_id=op())  # type: ignore[arg-type]
            await post_jobs.finish_posts(db, now=NOW)

        await asyncio.gather(deliver(db), delete())
        await post_jobs.finish_posts(db, now=NOW + timedelta(days=1))

        assert await db["social.posts"].count_documents({}) == 0
        assert await db["social.news"].count_documents({}) == 0


async def test_followers_who_stop_and_begin_again_beside_the_delivery_have_the_post(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "BATCH", 4)
    followers = [f"f{number:02}" for number in range(24)]
    await add_members(db, "max", *followers, followers={"max": followers})
    rng = random.Random(7)

    async def change(name: str, at: datetime) -> None:
        for turn in range(rng.randrange(5)):
            await asyncio.sleep(rng.random() / 50)
            await (circle if turn % 2 else uncircle)(db, name, "max", now=at + timedelta(seconds=1 + turn))
        await circle(db, name, "max", now=at + timedelta(seconds=9))

    for number in range(4):
        at = NOW + timedelta(minutes=number)
        post = await write_post(db, "max", now=at)
        await asyncio.gather(deliver(db, now=at), *(change(name, at) for name in followers))
        assert await feeds_with(db, post) == set(followers)


async def test_whoever_follows_an_author_before_a_post_has_it_and_nobody_lacks_one_who_begins_beside_it(
    db: Database,
) -> None:
    rng = random.Random(3)
    names = [f"m{number:02}" for number in range(30)]
    await join(db, *names)

    async def post(name: str) -> Document:
        await asyncio.sleep(rng.random() / 20)
        now = SystemClock().now()
        poster = await post_edits.require_poster(db, name)
        return await write_post(db, name, now=now, has_recipients=poster.has_recipients)

    async def follow(name: str, other: str) -> datetime:
        await asyncio.sleep(rng.random() / 20)
        await circle(db, name, other)
        return SystemClock().now()

    pairs = [(name, other) for name, other in itertools.permutations(names, 2) if rng.random() < 0.05]
    posting = [asyncio.create_task(post(name)) for name in names * 3]
    followed = await asyncio.gather(*(follow(*pair) for pair in pairs))
    posts = [await one for one in posting]
    posts += [await post(name) for name in names]
    await deliver(db, now=later(1))

    for one in posts:
        early = [pair for pair, at in zip(pairs, followed, strict=True) if at < one["posted"]]
        assert {of for of, to in early if to == one["by"]["id"]} <= await feeds_with(db, one)
    await assert_right(db)


DAY = timedelta(days=1)


@pytest.mark.sample(2)
@pytest.mark.parametrize("merged", [False, True], ids=["by entries", "by merging on read"])
async def test_a_delivery_that_crashes_anywhere_is_finished_by_the_next(db: Database, *, merged: bool) -> None:
    await add_members(db, "max", "gone")
    followers = [f"f{number:04}" for number in range(1_200)]
    await add_followers(db, "max", [*followers, "gone"])
    # They stop after each post.
    await uncircle(db, "gone", "max", now=NOW + timedelta(seconds=1))
    most = 1_000 if merged else 10_000
    databases = CrashingDatabases(db)
    for crashing_db in databases:
        post = await write_post(db, "max")
        with stopping():
            await deliver(crashing_db, max_fan_out=most)
        # The lease of the crashed worker is over. It counts from when the worker took it, however long it had run.
        await deliver(db, now=NOW + timedelta(minutes=2), max_fan_out=most)

        assert await feeds_with(db, post) == (set() if merged else {*followers, "gone"})
        assert await db["social.relations"].count_documents({"is_merged": True}) == (1_200 if merged else 0)
        assert await db["social.posts"].find_one({"fan_out": {"$exists": True}}) is None
        await db["social.posts"].delete_many({})
        await db["social.news"].delete_many({})
        await db["social.relations"].update_many({}, {"$unset": {"is_merged": ""}})
        await db["social.members"].update_one({"_id": "max"}, {"$set": {"is_merged": False}, "$unset": {"merging": ""}})
    assert databases.stop == (10 if merged else 12)


async def test_a_removal_of_a_deleted_post_that_crashes_anywhere_is_finished_by_the_next(db: Database) -> None:
    await add_members(db, "max", followers={"max": ["dwight"]})
    databases = CrashingDatabases(db)
    for crashing_db in databases:
        post = await write_post(db, "max")
        await write_comments(db, post, "dwight", 41)
        await deliver(db)
        await post_edits.delete_post(db, post_id=post["_id"], now=NOW, operation_id=op())
        with stopping():
            await post_jobs.finish_posts(crashing_db, now=NOW + DAY)
        await post_jobs.finish_posts(db, now=NOW + DAY)

        for name in ("social.posts", "social.news", "social.comment_pages"):
            assert await db[name].count_documents({}) == 0, name
    assert databases.stop == 4


async def test_a_rename_that_crashes_anywhere_is_finished_by_the_next_run(db: Database) -> None:
    await add_members(db, "max")
    post = await write_post(db, "max")
    for _ in range(41):
        await write_comment(db, post, "max")
    databases = CrashingDatabases(db)
    for crashing_db in databases:
        name = f"Max {databases.stop}"
        await db["social.members"].update_one(
            {"_id": "max"}, {"$set": {"name": name, "renamed": {"op": op(), "at": NOW}}}
        )
        with stopping():
            await renames.copy_names(crashing_db, now=NOW + DAY)
        await renames.copy_names(db, now=NOW + DAY)

        (stored,) = await db["social.posts"].find({}).to_list()
        copies = [stored["by"], stored["to"], *(one["by"] for one in await comments_of(db, stored))]
        assert {copy["name"] for copy in copies} == {name}
    assert databases.stop == 5


async def test_a_worker_that_pauses_anywhere_delivers_nothing_twice_and_nothing_of_a_deleted_post(db: Database) -> None:
    await add_members(db, "max", followers={"max": ["dwight", "jared"]})
    for pause in range(20):
        post = await write_post(db, "max")
        deleted = pause % 2 == 1
        reached = asyncio.Event()

        async def meanwhile(post: Document = post, deleted: bool = deleted, reached: asyncio.Event = reached) -> None:
            reached.set()
            # Another worker takes the post after the lease of the paused one.
            await deliver(db, now=NOW + timedelta(seconds=11))
            if deleted:
                await post_edits.delete_post(db, post_id=post["_id"], now=NOW, operation_id=op())
                await post_jobs.finish_posts(db, now=NOW)

        await deliver(interrupted(db, None, None, meanwhile, skip=pause))
        if deleted:
            await post_jobs.finish_posts(db, now=NOW + DAY)

        assert await feeds_with(db, post) == (set() if deleted else {"dwight", "jared"})
        assert await db["social.posts"].find_one({"fan_out": {"$exists": True}}) is None
        if not reached.is_set():
            break
    assert pause > 4


async def test_a_paused_move_of_comments_overwrites_nothing_that_others_have_written(db: Database) -> None:
    post = await write_post(db, "max")
    ids = await write_comments(db, post, "dwight", 39)

    async def meanwhile() -> None:
        await post_comments.delete_comment(db, post_id=post["_id"], comment_id=ids[3], operation_id=op())
        for number in range(40, 50):
            await write_comment(db, post, "dwight", str(number))

    await write_comment(interrupted(db, "social.comment_pages", None, meanwhile), post, "dwight", "39")

    (stored,) = await db["social.posts"].find({}).to_list()
    texts = [one["text"] for one in await comments_of(db, stored)]
    assert texts == [str(number) for number in range(50) if number != 3]
    assert stored["comment_count"] == 49
