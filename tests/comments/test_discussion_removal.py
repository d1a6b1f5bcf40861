"""Deleting a subject removes its discussion: after crashes, with concurrent posts, and if a subject with the same key
is created again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from portico.resolvers.catalog import product_jobs
from portico.resolvers.comments import discussion_removal
from portico.resolvers.comments import jobs as comment_jobs
from portico.resolvers.comments.checks import find_wrong_discussions
from portico.resolvers.comments.discussion_checks import find_stray_discussions
from portico.resolvers.comments.discussions import PAGES
from portico.resolvers.content import jobs as content_jobs
from portico.resolvers.shop import stock_jobs
from portico.schema.kinds import Kind
from tests.catalog.support.cases import id_and_nonce
from tests.comments.support.discussions import ON_EACH, delete, open_on, open_on_product, post, post_input, stops_on
from tests.content.support.site import create_page, create_section
from tests.support.domains import DOMAINS
from tests.support.harness import GatewayClient, assert_invariants, create_product, half_of_stops, stops
from tests.support.ids import key_in
from tests.support.interruptions import crashing
from tests.support.moments import Moment, moments
from tests.support.selections import shortest

Given = dict[str, Any]
HELD = ("comments", "comment_keys", "comment_pages", "comment_discussions")
SHOWN = "query ($id: ID!) { node(id: $id) { ... on Discussion { commentCount comments { nodes { id } } } } }"
ABOUT = """
query ($id: ID!) {
  node(id: $id) { ... on Product { discussion { id } } ... on ContentNode { discussion { id } } }
}
"""


# For each kind of subject, the mutation that deletes it, and the function that creates one.
SUBJECTS: dict[str, tuple[str, Callable[[GatewayClient], Awaitable[Any]]]] = {
    "a product": ("deleteProduct", create_product),
    "a page": ("deleteContent", create_page),
    "a section": ("deleteContent", create_section),
}
_JOBS: tuple[Any, ...] = (
    partial(product_jobs.finish_changes, attachments=DOMAINS.attachments),
    partial(content_jobs.finish_changes, attachments=DOMAINS.attachments),
    partial(stock_jobs.finish_changes, attachments=DOMAINS.attachments),
    partial(comment_jobs.finish_removals, hosts=DOMAINS.hosts),
    comment_jobs.finish_splits,
    comment_jobs.finish_comments,
)
ON_SUBJECTS = pytest.mark.parametrize("subject", SUBJECTS)


async def deletion_of(gateway: GatewayClient, subject: str) -> tuple[str, Given]:
    """Creates a subject of this kind. Returns the mutation that deletes it, with its input."""
    mutation, create = SUBJECTS[subject]
    return mutation, id_and_nonce(await create(gateway))


async def settle(gateway: GatewayClient) -> None:
    """Run the jobs that finish or undo crashed writes, and then those that remove the comments."""
    for _ in range(2):
        gateway.clock.advance(seconds=31)
        for finish in _JOBS:
            await finish(gateway.db, now=gateway.clock.now())


async def delete_for_good(gateway: GatewayClient, mutation: str, given: Given) -> None:
    await gateway.payload(mutation, given)
    await settle(gateway)


async def assert_whole(gateway: GatewayClient) -> None:
    """Assert that the discussions pass the checks."""
    assert [one async for one in find_wrong_discussions(gateway.db)] == []
    assert [one async for one in find_stray_discussions(gateway.db, DOMAINS.hosts)] == []


async def held(gateway: GatewayClient) -> int:
    """Return how many documents of comments are left."""
    return sum([await gateway.db[name].count_documents({}) for name in HELD])


async def seen(gateway: GatewayClient, discussion: str) -> Any:
    return (await gateway.data(SHOWN, {"id": discussion}))["node"]


@ON_EACH
@ON_SUBJECTS
async def test_a_discussion_is_removed_with_its_subject(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch, subject: str, storage: str
) -> None:
    monkeypatch.setattr(discussion_removal, "_BATCHES", dict.fromkeys(discussion_removal._BATCHES, 2))
    mutation, given = await deletion_of(gateway, subject)
    discussion = await open_on(gateway, given, storage)
    top = await post(gateway, discussion)
    for _ in range(4):
        await post(gateway, discussion, parent=top["slug"])

    assert (await gateway.result(mutation, given))["__typename"] == "DeletedPayload"

    assert await seen(gateway, discussion) is None
    assert (await delete(gateway, top))["__typename"] == "NotFound"
    assert (await gateway.result("postComment", post_input(discussion)))["__typename"] == "NotFound"
    await assert_whole(gateway)
    await settle(gateway)
    assert await held(gateway) == 0
    assert await gateway.db["discussions"].find_one({"closing_at": {"$exists": True}}) is None
    await assert_invariants(gateway)


@ON_SUBJECTS
async def test_a_deletion_that_crashes_anywhere_removes_or_keeps_the_discussion_with_its_subject(
    gateway: GatewayClient, subject: str
) -> None:
    outcomes = set()
    for stop in stops():
        mutation, given = await deletion_of(gateway, subject)
        discussion = await open_on(gateway, given)
        await post(gateway, discussion)
        with crashing(gateway, stop) as faulty:
            await gateway.ask(shortest(mutation), {"input": given})
        if not faulty.has_crashed:
            break

        await settle(gateway)

        is_there = (await gateway.data(ABOUT, given))["node"] == {"discussion": {"id": discussion}}
        outcomes.add(is_there)
        assert (await seen(gateway, discussion) is not None) is is_there, stop
        assert await held(gateway) == is_there, stop
        await assert_whole(gateway)
        # An undone deletion can be retried.
        assert is_there is ((await gateway.result(mutation, given))["__typename"] == "DeletedPayload"), stop
        await settle(gateway)
        assert await held(gateway) == 0, stop
    assert outcomes == {True, False}


@ON_EACH
@pytest.mark.sample(3)
@pytest.mark.parametrize("subject", ["a product", "a page"])
async def test_a_post_that_pauses_while_its_discussion_is_removed_leaves_nothing(
    gateway: GatewayClient, subject: str, storage: str
) -> None:
    outcome = set()
    for moment in moments(stops_on(storage, subject == "a page")):
        mutation, given = await deletion_of(gateway, subject)
        discussion = await open_on(gateway, given, storage)
        parent = await post(gateway, discussion)
        reply = parent["slug"] if moment.place % 4 < 2 else None
        with moment.during(gateway, partial(delete_for_good, gateway, mutation, given)):
            answer = await gateway.data(shortest("postComment"), {"input": post_input(discussion, "New.", reply)})
        if not moment.was_reached:
            break
        outcome.add(answer["postComment"]["__typename"])
        assert await held(gateway) == 0, moment.place
        await assert_whole(gateway)
    assert "NotFound" in outcome


@ON_EACH
async def test_posts_during_the_deletion_of_the_subject_leave_nothing(gateway: GatewayClient, storage: str) -> None:
    mutation, given = await deletion_of(gateway, "a product")
    discussion = await open_on(gateway, given, storage)
    posts = [gateway.result("postComment", post_input(discussion, f"{number}")) for number in range(30)]

    answers = await asyncio.gather(*posts[:15], gateway.result(mutation, given), *posts[15:])

    assert {one["__typename"] for one in answers} <= {"CommentPayload", "NotFound", "DeletedPayload"}
    await settle(gateway)
    assert await held(gateway) == 0
    await assert_whole(gateway)


@ON_SUBJECTS
async def test_a_discussion_that_is_opened_while_its_subject_is_deleted_is_removed(
    gateway: GatewayClient, subject: str
) -> None:
    for place in half_of_stops(odd=subject == "a page"):
        were_at_once = False
        for is_deletion_first in (True, False):
            mutation, given = await deletion_of(gateway, subject)
            calls = [("openDiscussion", {"subjectId": given["id"]}), (mutation, given)]
            (first, inner), (second, outer) = calls if is_deletion_first else calls[::-1]
            moment = Moment(place)
            with moment.during(gateway, partial(gateway.result, first, inner)):
                await gateway.ask(shortest(second), {"input": outer})
            were_at_once |= moment.was_reached
            if moment.was_reached:
                await settle(gateway)
                assert (await gateway.data(ABOUT, given))["node"] is None
                assert await gateway.db["discussions"].find_one({"closed": None}) is None, (place, is_deletion_first)
            else:
                await gateway.result(mutation, given)
        if not were_at_once:
            break
    await assert_whole(gateway)


async def test_a_new_product_with_the_same_sku_has_a_new_discussion(gateway: GatewayClient) -> None:
    """This also holds if the deletion crashes right after the removal of the product."""
    ids = set()
    for stop in (None, *range(6)):
        made = await create_product(gateway, sku="again")
        assert (await gateway.data(ABOUT, made))["node"] == {"discussion": None}
        ids.add(discussion := await open_on(gateway, made, PAGES))
        await post(gateway, discussion, f"Of {made['id']}.")
        with crashing(gateway, stop):
            await gateway.ask(shortest("deleteProduct"), {"input": id_and_nonce(made)})
        if (await gateway.data(ABOUT, made))["node"] is not None:
            await settle(gateway)
            shown = (await gateway.data(ABOUT, made))["node"]
            assert shown == {"discussion": {"id": discussion}}, stop
            await gateway.result("deleteProduct", id_and_nonce(made))
    assert len(ids) == 7
    await create_product(gateway, sku="again")
    last = await open_on(gateway, {"id": Kind.encode_id("Product", "again")})
    await settle(gateway)
    assert await seen(gateway, last) == {"commentCount": 0, "comments": {"nodes": []}}
    assert await held(gateway) == 0


@ON_EACH
async def test_discussions_without_subject_and_comments_without_discussion_are_found_and_removed(
    gateway: GatewayClient, storage: str
) -> None:
    discussions = [await open_on_product(gateway, storage) for _ in range(3)]
    for discussion in discussions:
        await post(gateway, discussion)
    kept, subjectless, lost = [key_in("Discussion", discussion) for discussion in discussions]
    document = await gateway.stored("discussions", {"_id": subjectless})
    await gateway.db["products"].delete_one({"sku": document["subject"]["key"]})
    await gateway.db["discussions"].delete_one({"_id": lost})

    found = [one async for one in find_stray_discussions(gateway.db, DOMAINS.hosts)]
    for one in found:
        assert await one.mend()

    assert {one.subject for one in found} == {f"discussion {subjectless}", f"discussion {lost}"}
    assert await held(gateway) == (2 if storage == PAGES else 1)
    assert (await seen(gateway, discussions[0]))["commentCount"] == 1
    assert [await gateway.db["discussions"].count_documents({"_id": key, "closed": None}) for key in (kept, lost)] == [
        1,
        0,
    ]
    await assert_whole(gateway)
