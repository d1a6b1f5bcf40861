"""Jobs of posts that crash or pause anywhere, and paused moves of comments. The kit has the crashes of each call."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from portico.resolvers.documents import Database, Document
from portico.resolvers.social import post_comments, post_edits, post_jobs, renames
from tests.social.support.posts import (
    NOW,
    add_followers,
    add_members,
    comments_of,
    deliver,
    feeds_with,
    op,
    write_comment,
    write_post,
)
from tests.social.support.social import uncircle
from tests.support.crashing_databases import CrashingDatabases
from tests.support.interruptions import interrupted, stopping

DAY = timedelta(days=1)


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
    await add_members(db, "max")
    await add_followers(db, "max", ["dwight"])
    databases = CrashingDatabases(db)
    for crashing_db in databases:
        post = await write_post(db, "max")
        for number in range(41):
            await write_comment(db, post, "dwight", str(number))
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
