"""`postCommented` and `pollVoted` deliver what happens to a post, to those who see it."""

from __future__ import annotations

from typing import Any

import pytest

from portico.resolvers.social import post_comments, post_edits, votes
from portico.schema.kinds import Kind
from tests.social.support.posts import later, new_post, op, write_comment, write_post
from tests.social.support.social import block, circle, join
from tests.support.harness import GatewayClient
from tests.support.sockets import streamed

COMMENTED = "subscription ($id: ID!) { postCommented(postId: $id) { id text by { userId } } }"
VOTED = "subscription ($id: ID!) { pollVoted(postId: $id) { options { votes } viewerVote } }"


def post_id(post: Any) -> dict[str, str]:
    return {"id": Kind.encode_id("Post", post["_id"])}


async def vote(gateway: GatewayClient, poll: Any, voter: str, option: int) -> None:
    given: dict[str, Any] = {"voter": voter, "option": option, "now": later(1), "operation_id": op()}
    await votes.vote(gateway.db, post_id=poll["_id"], **given)


async def write_poll(gateway: GatewayClient) -> Any:
    return await write_post(gateway.db, "ann", kind="poll", detail={"text": "?", "options": ["a", "b"]}, now=later(0))


async def test_members_and_others_get_each_comment_of_a_public_post(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    post = await write_post(gateway.db, "ann", now=later(0))
    async with (
        gateway.as_caller("bob").subscription(COMMENTED, post_id(post)) as bobs,
        gateway.as_caller("nobody").subscription(COMMENTED, post_id(post)) as others,
    ):
        for number in range(45):
            await write_comment(gateway.db, post, "ann", f"C{number}", now=later(number))
        for events in (bobs, others):
            texts = [(await anext(events))["postCommented"]["text"] for _ in range(45)]
            assert texts == [f"C{number}" for number in range(45)]


async def test_a_comment_of_a_member_with_a_block_is_not_delivered(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan")
    post = await write_post(gateway.db, "ann", now=later(0))
    async with gateway.as_caller("bob").subscription(COMMENTED, post_id(post)) as commented:
        await block(gateway.db, "bob", "cem")
        await write_comment(gateway.db, post, "cem", "Hidden", now=later(1))
        gone = await write_comment(gateway.db, post, "dan", "Gone", now=later(2))
        await post_comments.delete_comment(gateway.db, post_id=post["_id"], comment_id=gone, operation_id=op())
        await write_comment(gateway.db, post, "dan", "Shown", now=later(3))
        events = [(await anext(commented))["postCommented"]["text"]]
        if events == ["Gone"]:
            events = [(await anext(commented))["postCommented"]["text"]]
    assert events == ["Shown"]


async def test_a_subscription_ends_if_the_post_is_seen_no_more(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    post = await write_post(gateway.db, "ann", now=later(0))
    async with gateway.as_caller("bob").subscription(COMMENTED, post_id(post)) as commented:
        await block(gateway.db, "ann", "bob")
        await write_comment(gateway.db, post, "ann", "For others", now=later(1))
        with pytest.raises(AssertionError, match="NOT_FOUND"):
            await anext(commented)


async def test_nobody_can_subscribe_to_what_they_do_not_see(gateway: GatewayClient, port: int) -> None:
    await join(gateway.db, "ann", "bob")
    await circle(gateway.db, "ann", "bob")
    hidden = await new_post(gateway, "ann", audience="CIRCLES")
    status = post_id(await write_post(gateway.db, "ann", now=later(0)))["id"]
    for text, key in ((COMMENTED, hidden["id"]), (VOTED, hidden["id"]), (VOTED, status)):
        async with streamed(port, text, {"id": key}, token=gateway.token("stranger", [])) as stream:
            event = await stream.receive()
        assert event is not None
        assert event[1]["errors"][0]["extensions"]["code"] == "NOT_FOUND"


async def test_the_last_state_of_a_poll_arrives(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    poll = await write_poll(gateway)
    async with gateway.as_caller("bob").subscription(VOTED, post_id(poll)) as voted:
        await vote(gateway, poll, "bob", 0)
        assert (await anext(voted))["pollVoted"] == {"options": [{"votes": 1}, {"votes": 0}], "viewerVote": 0}
        await vote(gateway, poll, "bob", 1)
        await vote(gateway, poll, "cem", 1)
        expected = {"options": [{"votes": 0}, {"votes": 2}], "viewerVote": 1}
        while (await anext(voted))["pollVoted"] != expected:
            pass


async def test_changes_of_a_post_that_are_no_comments_make_no_events(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    post = await write_post(gateway.db, "ann", now=later(0))
    first = await write_comment(gateway.db, post, "bob", "First", now=later(1))
    async with gateway.as_caller("bob").subscription(COMMENTED, post_id(post)) as commented:
        await post_comments.delete_comment(gateway.db, post_id=post["_id"], comment_id=first, operation_id=op())
        await gateway.db["social.posts"].update_one({"_id": post["_id"]}, {"$set": {"is_merged": True}})
        await write_comment(gateway.db, post, "bob", "Second", now=later(2))
        assert (await anext(commented))["postCommented"]["text"] == "Second"
        await post_edits.delete_post(gateway.db, post_id=post["_id"], now=later(3), operation_id=op())
