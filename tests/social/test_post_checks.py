"""What `portico doctor` finds wrong with posts, and repairs."""

from __future__ import annotations

from portico.resolvers.documents import Database
from portico.resolvers.social import votes
from tests.social.support.posts import NOW, add_members, deliver, feeds_with, op, write_comment, write_post
from tests.support.domains import INVARIANTS


async def problems(db: Database) -> list[str]:
    """Returns the problems that the checks find, and repairs those that can be repaired."""
    found = [problem for invariant in INVARIANTS async for problem in invariant.check(db)]
    for problem in found:
        await problem.mend()
    return [problem.text for problem in found]


async def test_the_checks_accept_posts_comments_votes_and_deliveries(db: Database) -> None:
    await add_members(db, "max", "dwight", "jared", circles=["work"], followers={"max": ["dwight", "jared"]})
    poll = await write_post(db, "max", kind="poll", detail={"text": "?", "options": ["a", "b"]})
    for number in range(50):
        await write_comment(db, poll, "dwight", str(number))
    for voter, option in (("max", 0), ("dwight", 1), ("max", 1)):
        await votes.vote(db, post_id=poll["_id"], voter=voter, option=option, now=NOW, operation_id=op())
    assert await problems(db) == []

    await deliver(db)

    assert await problems(db) == []


async def test_what_belongs_to_a_missing_post_is_reported_and_removed(db: Database) -> None:
    await add_members(db, "max", "dwight", followers={"max": ["dwight"]})
    poll = await write_post(db, "max", kind="poll", detail={"text": "?", "options": ["a", "b"]})
    for number in range(41):
        await write_comment(db, poll, "dwight", str(number))
    await votes.vote(db, post_id=poll["_id"], voter="max", option=0, now=NOW, operation_id=op())
    await deliver(db)
    await db["social.posts"].delete_many({})

    assert await problems(db) == [f"its post, {poll['_id']}, does not exist"] * 3
    assert await problems(db) == []
    assert await feeds_with(db, poll) == set()


async def test_a_missing_entry_of_a_news_feed_is_reported_and_delivered_again(db: Database) -> None:
    await add_members(db, "max", "dwight", "jared", followers={"max": ["dwight", "jared"]})
    post = await write_post(db, "max")
    await deliver(db)
    await db["social.news"].delete_one({"of": "jared"})

    assert await problems(db) == ["news feeds of followers that lack it: 1"]
    await deliver(db)

    assert await problems(db) == []
    assert await feeds_with(db, post) == {"dwight", "jared"}


async def test_a_wrong_count_of_comments_or_votes_is_reported_and_corrected(db: Database) -> None:
    await add_members(db, "max")
    poll = await write_post(db, "max", kind="poll", detail={"text": "?", "options": ["a", "b"]})
    await write_comment(db, poll, "max")
    await votes.vote(db, post_id=poll["_id"], voter="max", option=1, now=NOW, operation_id=op())
    await db["social.posts"].update_one({}, {"$inc": {"comment_count": 2}})
    await db["social.votes"].update_one({}, {"$set": {"votes": [1, 1]}})

    assert await problems(db) == [
        "it counts 3 comments and has 1",
        "it counts the votes [1, 1], but its voters make [0, 1]",
    ]
    assert await problems(db) == []


async def test_a_missing_comment_page_is_reported_and_not_hidden(db: Database) -> None:
    await add_members(db, "max")
    post = await write_post(db, "max")
    for number in range(61):
        await write_comment(db, post, "max", str(number))
    await db["social.comment_pages"].delete_one({"_id.page": 0})

    found = await problems(db)

    assert found == ["it has 1 comment pages for 40 comments", "it counts 61 comments and has 41"]
    assert await problems(db) == found[:1]


async def test_an_outdated_name_is_reported_and_corrected(db: Database) -> None:
    await add_members(db, "max", "dwight")
    post = await write_post(db, "max")
    for number in range(41):
        await write_comment(db, post, "dwight", str(number))
    await db["social.members"].update_one({"_id": "dwight"}, {"$set": {"name": "Dwight D."}})

    assert await problems(db) == ["it has an outdated name of 'dwight': Dwight instead of Dwight D."] * 2
    assert await problems(db) == []
