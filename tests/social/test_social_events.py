"""`newsFeedPosted`, `postCommented` and `pollVoted` deliver what happens to posts, to those who see them then."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from portico.resolvers.social import post_comments, post_edits, votes
from tests.social.support.post_reads import post_id
from tests.social.support.posts import deliver, later, new_post, op, write_comment, write_post
from tests.social.support.social import block, circle, join, uncircle
from tests.support.harness import GatewayClient
from tests.support.refused_streams import refused
from tests.support.sockets import streamed, until

POSTED = "subscription { newsFeedPosted { id by { userId } commentCount latestComments { text } circles } }"


async def test_a_subscriber_gets_the_posts_of_those_whom_they_follow(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", follows={"bob": ["ann"]})
    async with gateway.as_caller("bob").subscription(POSTED) as posted:
        await write_post(gateway.db, "cem", now=later(1))
        sent = await write_post(gateway.db, "ann", now=later(2))
        await deliver(gateway.db, now=later(3))
        assert (await anext(posted))["newsFeedPosted"] == shown(sent)


async def test_a_subscriber_gets_nothing_that_was_hidden_before_its_delivery(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan", "eve", follows={"bob": ["ann", "cem", "dan", "eve"]})
    await circle(gateway.db, "cem", "bob", name="secret")
    async with gateway.as_caller("bob").subscription(POSTED) as posted:
        await write_post(gateway.db, "ann", now=later(1))
        await write_post(gateway.db, "dan", now=later(1))
        await write_post(gateway.db, "cem", now=later(1), audience="SELECTED", circle_names=["secret"])
        await block(gateway.db, "ann", "bob")
        await uncircle(gateway.db, "bob", "dan")
        await uncircle(gateway.db, "cem", "bob", name="secret")
        seen = await write_post(gateway.db, "eve", now=later(2))
        await write_comment(gateway.db, seen, "ann", "Hidden")
        await deliver(gateway.db, now=later(9))
        assert (await anext(posted))["newsFeedPosted"] == shown(seen)


async def test_subscribers_get_the_posts_of_merged_authors_whom_they_follow(gateway: GatewayClient) -> None:
    await join(gateway.db, "star", "moon", "ann", "bob", "cem", follows=dict.fromkeys(("ann", "cem"), ("star", "moon")))
    await circle(gateway.db, "bob", "star")
    async with gateway.as_caller("bob").subscription(POSTED) as posted:
        await write_post(gateway.db, "moon", now=later(1))
        sent = await write_post(gateway.db, "star", now=later(2))
        await deliver(gateway.db, now=later(9), max_fan_out=1)
        assert (await anext(posted))["newsFeedPosted"] == shown(sent)
        assert await gateway.db["social.news"].count_documents({}) == 0


async def test_two_subscriptions_get_what_each_of_them_may_see(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan", follows=dict.fromkeys(("bob", "cem"), ("ann",)))
    await block(gateway.db, "cem", "dan")
    async with (
        gateway.as_caller("bob").subscription(POSTED) as bobs,
        gateway.as_caller("bob").subscription(POSTED) as bobs_other,
        gateway.as_caller("cem").subscription(POSTED) as cems,
    ):
        sent = await write_post(gateway.db, "ann", now=later(1))
        await write_comment(gateway.db, sent, "dan", "Hello")
        await deliver(gateway.db, now=later(2))
        for events in (bobs, bobs_other):
            assert (await anext(events))["newsFeedPosted"] == shown(sent, "Hello")
        assert (await anext(cems))["newsFeedPosted"] == shown(sent)


async def test_many_subscribers_get_a_post_by_few_commands(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers = [f"m{number}" for number in range(20)]
    await join(gateway.db, "ann", *followers, follows=dict.fromkeys(followers, ("ann",)))
    hub = gateway.state.live
    publish, arrived = hub.publish, list[Any]()
    monkeypatch.setattr(hub, "publish", arrived.append)
    async with contextlib.AsyncExitStack() as stack:
        opened = [gateway.as_caller(name).subscription(POSTED) for name in followers]
        feeds = [await stack.enter_async_context(one) for one in opened]
        sent = await write_post(gateway.db, "ann", now=later(1))
        await deliver(gateway.db, now=later(2))
        # In how many parts the change stream brings the events depends on the load of the machine.
        await until(lambda: len(arrived) == len(followers))
        gateway.commands.clear()
        for event in arrived:
            publish(event)

        received = await asyncio.gather(*map(anext, feeds))

    assert [event["newsFeedPosted"] for event in received] == [shown(sent)] * 20
    reads = [name for name in gateway.commands.names() if name in {"find social.posts", "find social.relations"}]
    # Each subscriber alone would take two. Motor answers in threads, so fewer reads fall together than with PyMongo.
    assert len(reads) <= 20


async def test_an_anonymous_caller_cannot_subscribe(port: int) -> None:
    async with streamed(port, POSTED, token=None) as stream:
        event = await stream.receive()
    assert event is not None
    assert event[1]["errors"][0]["extensions"] == {"code": "UNAUTHENTICATED"}


def shown(post: Any, *comments: str) -> dict[str, Any]:
    return {
        "id": post_id(post),
        "by": {"userId": post["by"]["id"]},
        "commentCount": len(comments),
        "latestComments": [{"text": text} for text in comments],
        "circles": None,
    }


COMMENTED = "subscription ($id: ID!) { postCommented(postId: $id) { id text by { userId } } }"
VOTED = "subscription ($id: ID!) { pollVoted(postId: $id) { options { votes } viewerVote } }"


def of_post(post: Any) -> dict[str, str]:
    return {"id": post_id(post)}


async def vote(gateway: GatewayClient, poll: Any, voter: str, option: int) -> None:
    given: dict[str, Any] = {"voter": voter, "option": option, "now": later(1), "operation_id": op()}
    await votes.vote(gateway.db, post_id=poll["_id"], **given)


async def write_poll(gateway: GatewayClient) -> Any:
    return await write_post(gateway.db, "ann", kind="poll", detail={"text": "?", "options": ["a", "b"]}, now=later(0))


async def test_members_and_others_get_each_comment_of_a_public_post(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    post = await write_post(gateway.db, "ann", now=later(0))
    async with (
        gateway.as_caller("bob").subscription(COMMENTED, of_post(post)) as bobs,
        gateway.as_caller("nobody").subscription(COMMENTED, of_post(post)) as others,
    ):
        for number in range(45):
            await write_comment(gateway.db, post, "ann", f"C{number}", now=later(number))
        for events in (bobs, others):
            texts = [(await anext(events))["postCommented"]["text"] for _ in range(45)]
            assert texts == [f"C{number}" for number in range(45)]


async def test_a_comment_of_a_member_with_a_block_is_not_delivered(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan")
    post = await write_post(gateway.db, "ann", now=later(0))
    async with gateway.as_caller("bob").subscription(COMMENTED, of_post(post)) as commented:
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
    async with gateway.as_caller("bob").subscription(COMMENTED, of_post(post)) as commented:
        await block(gateway.db, "ann", "bob")
        await write_comment(gateway.db, post, "ann", "For others", now=later(1))
        with pytest.raises(AssertionError, match="NOT_FOUND"):
            await anext(commented)


async def test_nobody_can_subscribe_to_what_they_do_not_see(gateway: GatewayClient, port: int) -> None:
    await join(gateway.db, "ann", "bob", follows={"ann": ["bob"]})
    hidden = await new_post(gateway, "ann", audience="CIRCLES")
    status = of_post(await write_post(gateway.db, "ann", now=later(0)))["id"]
    for text, key in ((COMMENTED, hidden["id"]), (VOTED, hidden["id"]), (VOTED, status)):
        assert await refused(port, text, {"id": key}, token=gateway.token("stranger", [])) == ["NOT_FOUND"]


async def test_the_last_state_of_a_poll_arrives(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    poll = await write_poll(gateway)
    async with gateway.as_caller("bob").subscription(VOTED, of_post(poll)) as voted:
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
    async with gateway.as_caller("bob").subscription(COMMENTED, of_post(post)) as commented:
        await post_comments.delete_comment(gateway.db, post_id=post["_id"], comment_id=first, operation_id=op())
        await gateway.db["social.posts"].update_one({"_id": post["_id"]}, {"$set": {"is_merged": True}})
        await write_comment(gateway.db, post, "bob", "Second", now=later(2))
        assert (await anext(commented))["postCommented"]["text"] == "Second"
        await post_edits.delete_post(gateway.db, post_id=post["_id"], now=later(3), operation_id=op())
