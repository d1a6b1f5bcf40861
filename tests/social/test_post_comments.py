"""Comments of posts, in order and in pages, and what `portico doctor` finds wrong with posts, and repairs."""

from __future__ import annotations

import asyncio

import pytest

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.social import post_comments, post_edits, votes
from portico.testing.repeated_writes import RepeatedWrites
from tests.social.support.posts import (
    NOW,
    add_members,
    deliver,
    feeds_with,
    keyed_op,
    op,
    write_comment,
    write_comments,
    write_post,
)
from tests.support.documents import stored
from tests.support.domains import INVARIANTS


async def texts(db: Database, post: Document) -> list[str]:
    """Returns the texts of all comments, oldest first, as a reader finds them: on valid pages, then in the post."""
    found = await stored(db, "social.posts", post)
    pages = await db["social.comment_pages"].find({"post": post["_id"]}, sort=[("_id", 1)]).to_list()
    moved = [one for page in pages if page["_id"]["page"] < found["spilled"] for one in page["comments"]]
    comments = [one for one in [*moved, *found["comments"]] if one["id"] not in found.get("removing", ())]
    assert found["comment_count"] == len(comments)
    times = [one["posted"] for one in comments]
    assert times == sorted(set(times))
    return [one["text"] for one in comments]


async def test_comments_stay_in_order_and_older_ones_move_to_pages(db: Database) -> None:
    post = await write_post(db, "max")
    await write_comments(db, post, "dwight", 75)

    assert await texts(db, post) == [str(number) for number in range(75)]
    found = await stored(db, "social.posts", post)
    assert (found["spilled"], len(found["comments"])) == (40, 35)
    assert await db["social.comment_pages"].count_documents({}) == 2


async def test_a_comment_whose_reply_the_driver_has_lost_is_added_once(db: Database) -> None:
    post = await write_post(db, "max")
    await write_comments(db, post, "dwight", 39)
    await write_comment(RepeatedWrites.of(db), post, "dwight", "39")
    assert await texts(db, post) == [str(number) for number in range(40)]
    found = await stored(db, "social.posts", post)
    assert found["spilled"] == 20


async def test_members_who_comment_at_once_lose_no_comment(db: Database) -> None:
    post = await write_post(db, "max")

    await asyncio.gather(*(write_comment(db, post, "dwight", str(number)) for number in range(200)))

    assert set(await texts(db, post)) == {str(number) for number in range(200)}
    found = await stored(db, "social.posts", post)
    assert len(found["comments"]) < 60


async def test_a_repeated_comment_is_posted_once_even_after_it_has_moved(db: Database) -> None:
    post, operation = await write_post(db, "max"), keyed_op()
    first = await write_comment(db, post, "dwight", "first", operation_id=operation)
    await write_comments(db, post, "dwight", 45)

    assert await write_comment(db, post, "dwight", "first", operation_id=operation) == first
    assert (await texts(db, post)).count("first") == 1


@pytest.mark.parametrize("number", [0, 19, 20, 44, 74])
async def test_a_comment_is_deleted_wherever_it_is_stored(db: Database, number: int) -> None:
    post = await write_post(db, "max")
    ids = await write_comments(db, post, "dwight", 75)

    operation = keyed_op()
    for _ in range(2):
        await post_comments.delete_comment(db, post_id=post["_id"], comment_id=ids[number], operation_id=operation)

    assert await texts(db, post) == [str(each) for each in range(75) if each != number]
    assert await post_comments.find_comment(db, post["_id"], ids[number]) is None
    with pytest.raises(NotFound):
        await post_comments.delete_comment(db, post_id=post["_id"], comment_id=ids[number], operation_id=op())
    assert await db["social.posts"].find_one({"removing": {"$exists": True}}) is None


async def test_comments_that_move_while_others_are_deleted_are_neither_lost_nor_brought_back(db: Database) -> None:
    post = await write_post(db, "max")
    ids = await write_comments(db, post, "dwight", 38)

    async def delete(number: int) -> None:
        await post_comments.delete_comment(db, post_id=post["_id"], comment_id=ids[number], operation_id=op())

    await asyncio.gather(
        *(write_comment(db, post, "dwight", str(number)) for number in range(38, 100)),
        *(delete(number) for number in range(0, 38, 2)),
    )

    expected = {str(number) for number in range(100) if number >= 38 or number % 2}
    assert set(await texts(db, post)) == expected


@pytest.mark.parametrize("text", ["", "  \n ", "x" * 10_001, "a\0b"])
async def test_a_text_that_is_empty_too_long_or_harmful_is_refused(db: Database, text: str) -> None:
    post = await write_post(db, "max")

    with pytest.raises(InvalidInput) as caught:
        await write_comment(db, post, "dwight", text)

    assert caught.value.path == ["text"]
    assert await texts(db, post) == []


async def test_a_deleted_post_takes_no_comment(db: Database) -> None:
    await add_members(db, "max")
    post = await write_post(db, "max")
    await post_edits.delete_post(db, post_id=post["_id"], now=NOW, operation_id=op())

    with pytest.raises(NotFound):
        await write_comment(db, post, "dwight")


async def problems(db: Database) -> list[str]:
    """Returns the problems that the checks find, and repairs those that can be repaired."""
    found = [problem for invariant in INVARIANTS async for problem in invariant.check(db)]
    for problem in found:
        await problem.mend()
    return [problem.text for problem in found]


async def test_the_checks_accept_posts_comments_votes_and_deliveries(db: Database) -> None:
    await add_members(db, "max", "dwight", "jared", circles=["work"], followers={"max": ["dwight", "jared"]})
    poll = await write_post(db, "max", kind="poll", detail={"text": "?", "options": ["a", "b"]})
    await write_comments(db, poll, "dwight", 50)
    for voter, option in (("max", 0), ("dwight", 1), ("max", 1)):
        await votes.vote(db, post_id=poll["_id"], voter=voter, option=option, now=NOW, operation_id=op())
    assert await problems(db) == []

    await deliver(db)

    assert await problems(db) == []


async def test_what_belongs_to_a_missing_post_is_reported_and_removed(db: Database) -> None:
    await add_members(db, "max", "dwight", followers={"max": ["dwight"]})
    poll = await write_post(db, "max", kind="poll", detail={"text": "?", "options": ["a", "b"]})
    await write_comments(db, poll, "dwight", 41)
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
    await write_comments(db, post, "max", 61)
    await db["social.comment_pages"].delete_one({"_id.page": 0})

    found = await problems(db)

    assert found == ["it has 1 comment pages for 40 comments", "it counts 61 comments and has 41"]
    assert await problems(db) == found[:1]


async def test_an_outdated_name_is_reported_and_corrected(db: Database) -> None:
    await add_members(db, "max", "dwight")
    post = await write_post(db, "max")
    await write_comments(db, post, "dwight", 41)
    await db["social.members"].update_one({"_id": "dwight"}, {"$set": {"name": "Dwight D."}})

    assert await problems(db) == ["it has an outdated name of 'dwight': Dwight instead of Dwight D."] * 2
    assert await problems(db) == []
