"""Comments of posts: they are kept in order, counted, moved to pages, and deleted."""

from __future__ import annotations

import asyncio

import pytest

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.social import post_comments, post_edits
from portico.testing.repeated_writes import RepeatedWrites
from tests.social.support.posts import NOW, add_members, keyed_op, op, write_comment, write_post


async def texts(db: Database, post: Document) -> list[str]:
    """Returns the texts of all comments, oldest first, as a reader finds them: on valid pages, then in the post."""
    stored = await db["social.posts"].find_one({"_id": post["_id"]})
    assert stored is not None
    pages = await db["social.comment_pages"].find({"post": post["_id"]}, sort=[("_id", 1)]).to_list()
    moved = [one for page in pages if page["_id"]["page"] < stored["spilled"] for one in page["comments"]]
    comments = [one for one in [*moved, *stored["comments"]] if one["id"] not in stored.get("removing", ())]
    assert stored["comment_count"] == len(comments)
    times = [one["posted"] for one in comments]
    assert times == sorted(set(times))
    return [one["text"] for one in comments]


async def test_comments_stay_in_order_and_older_ones_move_to_pages(db: Database) -> None:
    post = await write_post(db, "max")
    for number in range(75):
        await write_comment(db, post, "dwight", str(number))

    assert await texts(db, post) == [str(number) for number in range(75)]
    stored = await db["social.posts"].find_one({"_id": post["_id"]})
    assert stored is not None
    assert (stored["spilled"], len(stored["comments"])) == (40, 35)
    assert await db["social.comment_pages"].count_documents({}) == 2


async def test_a_comment_whose_reply_the_driver_has_lost_is_added_once(db: Database) -> None:
    post = await write_post(db, "max")
    for number in range(39):
        await write_comment(db, post, "dwight", str(number))
    await write_comment(RepeatedWrites.of(db), post, "dwight", "39")
    assert await texts(db, post) == [str(number) for number in range(40)]
    stored = await db["social.posts"].find_one({"_id": post["_id"]})
    assert stored is not None
    assert stored["spilled"] == 20


async def test_members_who_comment_at_once_lose_no_comment(db: Database) -> None:
    post = await write_post(db, "max")

    await asyncio.gather(*(write_comment(db, post, "dwight", str(number)) for number in range(200)))

    assert set(await texts(db, post)) == {str(number) for number in range(200)}
    stored = await db["social.posts"].find_one({"_id": post["_id"]})
    assert stored is not None
    assert len(stored["comments"]) < 60


async def test_a_repeated_comment_is_posted_once_even_after_it_has_moved(db: Database) -> None:
    post, operation = await write_post(db, "max"), keyed_op()
    first = await write_comment(db, post, "dwight", "first", operation_id=operation)
    for number in range(45):
        await write_comment(db, post, "dwight", str(number))

    assert await write_comment(db, post, "dwight", "first", operation_id=operation) == first
    assert (await texts(db, post)).count("first") == 1


@pytest.mark.parametrize("number", [0, 19, 20, 44, 74])
async def test_a_comment_is_deleted_wherever_it_is_stored(db: Database, number: int) -> None:
    post = await write_post(db, "max")
    ids = [await write_comment(db, post, "dwight", str(each)) for each in range(75)]

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
    ids = [await write_comment(db, post, "dwight", str(number)) for number in range(38)]

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
