"""The problems in discussions that `portico doctor` reports and repairs."""

from __future__ import annotations

from typing import Any

import pytest

from portico.gateway.clock import SystemClock
from portico.resolvers.comments.checks import find_wrong_discussions
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from tests.comments.support.discussions import ON_EACH, count, everything, open_on_product, post
from tests.support.harness import GatewayClient, assert_invariants

# The collection with the comments of a storage, and the path from a document to one comment.
PLACES = {DOCUMENTS: ("comments", ""), PAGES: ("comment_pages", "comments.$[it].")}


async def wrong(gateway: GatewayClient) -> list[str]:
    return [one.text async for one in find_wrong_discussions(gateway.db)]


async def mend(gateway: GatewayClient) -> None:
    for one in [one async for one in find_wrong_discussions(gateway.db)]:
        if one.repair is not None:
            await one.repair()


async def spoil(gateway: GatewayClient, storage: str, slug: str, changes: dict[str, Any]) -> None:
    """Change the comment with this slug directly, without its counts."""
    collection, way = PLACES[storage]
    update = {
        operator: {f"{way}{path}": value for path, value in values.items()} for operator, values in changes.items()
    }
    if storage == DOCUMENTS:
        done = await gateway.db[collection].update_one({"slug": slug}, update)
    else:
        done = await gateway.db[collection].update_one({}, update, array_filters=[{"it.slug": slug}])
    assert done.modified_count == 1


@ON_EACH
async def test_wrong_counts_are_reported_and_repaired(gateway: GatewayClient, storage: str, discussion: str) -> None:
    parent = await post(gateway, discussion)
    reply = await post(gateway, discussion, parent=parent["slug"])
    if storage == EMBEDDED:
        key = next(iter((await gateway.db["comment_discussions"].find_one({}) or {})["replies"]))
        await gateway.db["comment_discussions"].update_one({}, {"$inc": {"count": 3, f"replies.{key}": 1}})
    else:
        await gateway.db["discussions"].update_one({}, {"$inc": {"count": 3}})
        await spoil(gateway, storage, parent["slug"], {"$inc": {"replies": 1}})

    found = await wrong(gateway)
    await mend(gateway)

    assert sorted(found) == [f"comment {parent['slug']} counts 2 replies, but has 1", "it counts 5 comments, but has 2"]
    await assert_invariants(gateway)
    assert await count(gateway, discussion) == 2
    rows = await everything(gateway, discussion)
    assert [(row["slug"], row["replyCount"]) for row in rows] == [(parent["slug"], 1), (reply["slug"], 0)]


@pytest.mark.parametrize("storage", PLACES)
async def test_remains_of_a_crashed_call_are_reported_and_repaired(
    gateway: GatewayClient, storage: str, discussion: str
) -> None:
    waiting, empty = [await post(gateway, discussion) for _ in range(2)]
    await spoil(gateway, storage, waiting["slug"], {"$push": {"coming": {"attempt": "a", "by": 1}}})
    await spoil(gateway, storage, empty["slug"], {"$set": {"deleted": True, "text": ""}})

    found = await wrong(gateway)
    await mend(gateway)

    assert sorted(found) == sorted(
        [
            f"comment {waiting['slug']} waits for a write that is not in flight",
            f"comment {empty['slug']} is deleted and has no replies",
        ]
    )
    await assert_invariants(gateway)
    assert [row["slug"] for row in await everything(gateway, discussion)] == [waiting["slug"]]
    assert await count(gateway, discussion) == 1


@pytest.mark.parametrize("storage", PLACES)
async def test_a_discussion_with_a_write_in_flight_is_left_alone(gateway: GatewayClient, discussion: str) -> None:
    await post(gateway, discussion)
    entry = {"id": 1, "attempt": "a", "by": 1, "parent": None, "at": SystemClock().now()}
    await gateway.db["discussions"].update_one({}, {"$inc": {"count": 1}, "$push": {"under_way": entry}})

    assert await wrong(gateway) == []


@ON_EACH
async def test_a_reply_without_its_parent_is_reported(gateway: GatewayClient, storage: str, discussion: str) -> None:
    parent = await post(gateway, discussion)
    reply = await post(gateway, discussion, parent=parent["slug"])
    pull = {"$pull": {"comments": {"slug": parent["slug"]}}}
    match storage:
        case "DOCUMENTS":
            await gateway.db["comments"].delete_one({"slug": parent["slug"]})
        case "EMBEDDED":
            await gateway.db["comment_discussions"].update_one({}, {**pull, "$inc": {"count": -1}})
        case _:
            await gateway.db["comment_pages"].update_one({}, {**pull, "$inc": {"count": -1}})

    assert f"comment {reply['slug']} replies to a comment that does not exist" in await wrong(gateway)


async def test_inconsistent_pages_are_reported(gateway: GatewayClient) -> None:
    discussion = await open_on_product(gateway, PAGES)
    comment = await post(gateway, discussion)
    pages, keys = gateway.db["comment_pages"], gateway.db["comment_keys"]
    good = await pages.find_one({})
    assert good is not None

    async def found(**fields: Any) -> list[str]:
        await pages.update_one({}, {"$set": {**good, **fields}})
        return await wrong(gateway)

    assert await found(low="2013") == [
        "its pages have a gap or an overlap between '' and '2013'",
        *([] if comment["posted"] > "2013" else [f"comments are on the wrong page: {comment['slug']}"]),
    ]
    assert await found(high="2013") == [
        f"comments are on the wrong page: {comment['slug']}",
        "its last page does not include all later keys",
    ]
    assert await found(count=2) == ["a page counts 2 comments, but holds 1"]
    assert await found(split={"at": "2013", "since": SystemClock().now()}) == []
    await pages.update_one({}, {"$unset": {"split": ""}})
    await keys.delete_many({})
    assert await found() == [f"comment {comment['slug']} is missing from the index of keys"]
    await pages.update_one({}, {"$set": {"comments": [*good["comments"] * 2], "count": 2}})
    assert f"comment {good['comments'][0]['_id']} is stored 2 times" in await wrong(gateway)


@ON_EACH
async def test_comments_that_are_no_list_are_damage_and_no_wrong_count(
    gateway: GatewayClient, storage: str, discussion: str
) -> None:
    await post(gateway, discussion)
    if storage == DOCUMENTS:
        return
    collection = "comment_discussions" if storage == EMBEDDED else PLACES[storage][0]
    await gateway.db[collection].update_one({}, {"$set": {"comments": {"a": 1}}})

    (found,) = await wrong(gateway)
    await mend(gateway)

    assert found == "a field is missing or invalid (TypeError: `comments` is no list)"
    assert await wrong(gateway) == [found]
