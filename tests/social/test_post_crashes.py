"""Writes of posts that crash or pause anywhere: a retry succeeds, and jobs leave nothing behind."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import pytest

from portico.gateway.mongo.faults import FaultyDatabase
from portico.resolvers.documents import Database, Document
from portico.resolvers.social import post_comments, post_edits, post_jobs, renames
from portico.schema.nodes import encode_id
from portico.testing import crash_matrix
from tests.social.support.posts import (
    NOW,
    POSTING,
    CommentedPosts,
    add_followers,
    add_members,
    call,
    deliver,
    feeds_with,
    new_post,
    op,
    write_comment,
    write_post,
)
from tests.social.support.social import join, uncircle
from tests.support.harness import GatewayClient, SettableClock, run_jobs
from tests.support.interruptions import interrupted, stopping

POLL = {"poll": {"text": "?", "options": ["Yes", "No"]}}
DAY = timedelta(days=1)


@pytest.fixture
async def members(gateway: GatewayClient) -> GatewayClient:
    """A gateway whose caller, max, is a member with followers."""
    await join(gateway.db, "max", "dwight", "jared")
    await add_followers(gateway.db, "max", ["dwight", "jared"])
    return gateway.as_caller("max")


async def test_a_post_that_crashes_anywhere_is_stored_once_and_delivered(
    members: GatewayClient, clock: SettableClock
) -> None:
    async def prepare(key: str) -> Mapping[str, Any]:
        return {"input": {"detail": {"status": {"text": key}}, "idempotencyKey": key}}

    async def check(variables: Mapping[str, Any]) -> None:
        await run_jobs(members, clock, "deliver-posts")
        found = await members.db["social.posts"].find({"detail.text": variables["input"]["idempotencyKey"]}).to_list()
        assert len(found) <= 1
        for post in found:
            assert await feeds_with(members.db, post) == {"dwight", "jared"}

    assert await crash_matrix(members, clock, POSTING["createPost"], prepare, check=check) > 4


@pytest.mark.parametrize("before", [0, 39], ids=["a first comment", "a comment that makes older ones move"])
async def test_a_comment_that_crashes_anywhere_is_posted_and_counted_once(
    members: GatewayClient, clock: SettableClock, before: int
) -> None:
    posts = CommentedPosts(members.db, before)

    async def prepare(key: str) -> Mapping[str, Any]:
        post, _ = await posts.write(key, clock.now())
        return {"input": {"postId": encode_id("Post", post), "text": key, "idempotencyKey": key}}

    async def check(variables: Mapping[str, Any]) -> None:
        (post,) = await members.db["social.posts"].find({"detail.text": variables["input"]["text"]}).to_list()
        texts = [one["text"] for one in await comments_of(members.db, post)]
        assert texts[:before] == [str(number) for number in range(before)]
        assert texts[before:] in ([], [variables["input"]["text"]])

    assert await crash_matrix(members, clock, POSTING["commentOnPost"], prepare, check=check) > 4


@pytest.mark.parametrize("number", [5, 30], ids=["in a page", "in the post"])
async def test_a_comment_whose_deletion_crashes_anywhere_is_deleted_once(
    members: GatewayClient, clock: SettableClock, number: int
) -> None:
    posts = CommentedPosts(members.db, 45)

    async def prepare(key: str) -> Mapping[str, Any]:
        post, ids = await posts.write(key, clock.now())
        given = {"postId": encode_id("Post", post), "commentId": encode_id("PostComment", ids[number])}
        return {"input": {**given, "idempotencyKey": key}}

    async def check(variables: Mapping[str, Any]) -> None:
        (post,) = await members.db["social.posts"].find({"detail.text": variables["input"]["idempotencyKey"]}).to_list()
        texts = [one["text"] for one in await comments_of(members.db, post)]
        assert len(texts) == post["comment_count"]
        assert texts in ([str(each) for each in range(45) if each != number], [str(each) for each in range(45)])

    assert await crash_matrix(members, clock, POSTING["deletePostComment"], prepare, check=check) > 4
    await run_jobs(members, clock, "finish-posts")
    assert await members.db["social.posts"].find_one({"removing": {"$exists": True}}) is None


async def test_a_vote_that_crashes_anywhere_counts_once(members: GatewayClient, clock: SettableClock) -> None:
    async def prepare(key: str) -> Mapping[str, Any]:
        post = await new_post(members, "max", detail=POLL)
        await call(members, "dwight", "vote", postId=post["id"], option=0)
        await call(members, "max", "vote", postId=post["id"], option=0)
        return {"input": {"postId": post["id"], "option": 1, "idempotencyKey": key}}

    assert await crash_matrix(members, clock, POSTING["vote"], prepare) > 4


async def test_a_deletion_that_crashes_anywhere_leaves_nothing_after_a_day(
    members: GatewayClient, clock: SettableClock
) -> None:
    async def prepare(key: str) -> Mapping[str, Any]:
        post = await new_post(members, "max", key, detail=POLL)
        await call(members, "max", "vote", postId=post["id"], option=0)
        await run_jobs(members, clock, "deliver-posts")
        return {"input": {"postId": post["id"], "idempotencyKey": key}}

    assert await crash_matrix(members, clock, POSTING["deletePost"], prepare) > 3
    await members.db["social.posts"].update_many({"deleted": None}, {"$set": {"deleted": NOW, "remove_at": NOW}})
    await run_jobs(members, clock, "finish-posts")
    clock.advance(days=2)
    await run_jobs(members, clock, "finish-posts")

    for name in ("social.posts", "social.news", "social.votes", "social.comment_pages"):
        assert await members.db[name].count_documents({}) == 0, name


@pytest.mark.parametrize("merged", [False, True], ids=["by entries", "by merging on read"])
async def test_a_delivery_that_crashes_anywhere_is_finished_by_the_next(db: Database, *, merged: bool) -> None:
    await add_members(db, "max", "gone")
    followers = [f"f{number:04}" for number in range(1_200)]
    await add_followers(db, "max", [*followers, "gone"])
    # They stop after each post.
    await uncircle(db, "gone", "max", now=NOW + timedelta(seconds=1))
    most = 1_000 if merged else 10_000
    for stop in itertools.count():
        post = await write_post(db, "max")
        faulty = FaultyDatabase(db, stop)
        with stopping():
            await deliver(cast("Database", faulty), max_fan_out=most)
        # The lease of the crashed worker is over. It counts from when the worker took it, however long it had run.
        await deliver(db, now=NOW + timedelta(minutes=2), max_fan_out=most)

        assert await feeds_with(db, post) == (set() if merged else {*followers, "gone"})
        assert await db["social.relations"].count_documents({"is_merged": True}) == (1_200 if merged else 0)
        assert await db["social.posts"].find_one({"fan_out": {"$exists": True}}) is None
        if not faulty.has_crashed:
            break
        await db["social.posts"].delete_many({})
        await db["social.news"].delete_many({})
        await db["social.relations"].update_many({}, {"$unset": {"is_merged": ""}})
        await db["social.members"].update_one({"_id": "max"}, {"$set": {"is_merged": False}, "$unset": {"merging": ""}})
    assert stop == (10 if merged else 12)


async def test_a_removal_of_a_deleted_post_that_crashes_anywhere_is_finished_by_the_next(db: Database) -> None:
    await add_members(db, "max")
    await add_followers(db, "max", ["dwight"])
    for stop in itertools.count():
        post = await write_post(db, "max")
        for number in range(41):
            await write_comment(db, post, "dwight", str(number))
        await deliver(db)
        await post_edits.delete_post(db, post_id=post["_id"], now=NOW, operation_id=op())
        faulty = FaultyDatabase(db, stop)
        with stopping():
            await post_jobs.finish_posts(cast("Database", faulty), now=NOW + DAY)
        await post_jobs.finish_posts(db, now=NOW + DAY)

        for name in ("social.posts", "social.news", "social.comment_pages"):
            assert await db[name].count_documents({}) == 0, name
        if not faulty.has_crashed:
            break
    assert stop == 4


async def test_a_rename_that_crashes_anywhere_is_finished_by_the_next_run(db: Database) -> None:
    await add_members(db, "max")
    post = await write_post(db, "max")
    for _ in range(41):
        await write_comment(db, post, "max")
    for stop in itertools.count():
        name = f"Max {stop}"
        await db["social.members"].update_one(
            {"_id": "max"}, {"$set": {"name": name, "renamed": {"op": op(), "at": NOW}}}
        )
        faulty = FaultyDatabase(db, stop)
        with stopping():
            await renames.copy_names(cast("Database", faulty), now=NOW + DAY)
        await renames.copy_names(db, now=NOW + DAY)

        (stored,) = await db["social.posts"].find({}).to_list()
        copies = [stored["by"], stored["to"], *(one["by"] for one in await comments_of(db, stored))]
        assert {copy["name"] for copy in copies} == {name}
        if not faulty.has_crashed:
            break
    assert stop == 5


# ---------------------------------------------------------- paused processes


async def test_a_worker_that_pauses_anywhere_delivers_nothing_twice_and_nothing_of_a_deleted_post(
    db: Database,
) -> None:
    await add_members(db, "max")
    await add_followers(db, "max", ["dwight", "jared"])
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
    ids = [await write_comment(db, post, "dwight", str(number)) for number in range(39)]

    async def meanwhile() -> None:
        await post_comments.delete_comment(db, post_id=post["_id"], comment_id=ids[3], operation_id=op())
        for number in range(40, 50):
            await write_comment(db, post, "dwight", str(number))

    await write_comment(interrupted(db, "social.comment_pages", None, meanwhile), post, "dwight", "39")

    (stored,) = await db["social.posts"].find({}).to_list()
    texts = [one["text"] for one in await comments_of(db, stored)]
    assert texts == [str(number) for number in range(50) if number != 3]
    assert stored["comment_count"] == 49


async def comments_of(db: Database, post: Document) -> list[Document]:
    """Returns all comments of a post, oldest first, as a reader finds them."""
    pages = await db["social.comment_pages"].find({"post": post["_id"]}, sort=[("_id", 1)]).to_list()
    moved = [one for page in pages if page["_id"]["page"] < post["spilled"] for one in page["comments"]]
    return [one for one in [*moved, *post["comments"]] if one["id"] not in post.get("removing", ())]
