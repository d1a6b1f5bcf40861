"""`newsFeedPosted` delivers each post that reaches the viewer's news feed, if the viewer sees it then."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tests.social.support.post_reads import post_id
from tests.social.support.posts import deliver, later, write_comment, write_post
from tests.social.support.social import block, circle, join, uncircle
from tests.support.harness import GatewayClient
from tests.support.sockets import streamed, until

pytestmark = pytest.mark.anyio
POSTED = "subscription { newsFeedPosted { id by { userId } commentCount latestComments { text } circles } }"


async def test_a_subscriber_gets_the_posts_of_those_whom_they_follow(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    await circle(gateway.db, "bob", "ann")
    async with gateway.as_caller("bob").subscription(POSTED) as posted:
        await write_post(gateway.db, "cem", now=later(1))
        sent = await write_post(gateway.db, "ann", now=later(2))
        await deliver(gateway.db, now=later(3))
        assert (await anext(posted))["newsFeedPosted"] == shown(sent)


async def test_a_subscriber_gets_nothing_that_was_hidden_before_its_delivery(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan", "eve")
    await circle(gateway.db, "bob", "ann", "cem", "dan", "eve")
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
    await join(gateway.db, "star", "moon", "ann", "bob", "cem")
    for fan in ("ann", "cem"):
        await circle(gateway.db, fan, "star", "moon")
    await circle(gateway.db, "bob", "star")
    async with gateway.as_caller("bob").subscription(POSTED) as posted:
        await write_post(gateway.db, "moon", now=later(1))
        sent = await write_post(gateway.db, "star", now=later(2))
        await deliver(gateway.db, now=later(9), max_fan_out=1)
        assert (await anext(posted))["newsFeedPosted"] == shown(sent)
        assert await gateway.db["social.news"].count_documents({}) == 0


async def test_two_subscriptions_get_what_each_of_them_may_see(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan")
    for name in ("bob", "cem"):
        await circle(gateway.db, name, "ann")
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
    await join(gateway.db, "ann", *followers)
    for name in followers:
        await circle(gateway.db, name, "ann")
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
