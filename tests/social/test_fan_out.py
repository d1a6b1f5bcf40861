"""The delivery of posts to news feeds."""

from __future__ import annotations

from datetime import timedelta

from portico.resolvers.documents import Database
from tests.support.social_posts import (
    NOW,
    add_followers,
    add_members,
    deliver,
    feeds_with,
    put_in_circles,
    write_post,
)


async def test_a_public_post_reaches_every_follower_and_nobody_else(db: Database) -> None:
    await add_members(db, "max", "dwight", "jared", "rick")
    await add_followers(db, "max", ["dwight", "jared"])

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


async def test_a_member_who_follows_after_the_post_does_not_get_it(db: Database) -> None:
    await add_members(db, "max", "dwight", "jared")
    await add_followers(db, "max", ["dwight"])
    post = await write_post(db, "max")
    await add_followers(db, "max", ["jared"], since=NOW + timedelta(milliseconds=1))

    await deliver(db, now=NOW + timedelta(seconds=1))

    assert await feeds_with(db, post) == {"dwight"}


async def test_a_post_reaches_thousands_of_followers_once_each(db: Database) -> None:
    followers = [f"f{number:05}" for number in range(2_500)]
    await add_members(db, "max")
    await add_followers(db, "max", followers)

    post = await write_post(db, "max")
    assert await deliver(db) == 3

    assert await feeds_with(db, post) == set(followers)
    assert await deliver(db) == 0


async def test_an_author_with_too_many_followers_is_merged_on_read(db: Database) -> None:
    followers = [f"f{number:05}" for number in range(1_500)]
    await add_members(db, "max", "dwight")
    await add_followers(db, "max", followers)
    await add_followers(db, "dwight", followers[:10])

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
