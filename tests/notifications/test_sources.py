"""What members are notified of, by the domains that say so. The writes themselves send nothing more."""

from __future__ import annotations

from typing import Any

import pytest

from portico.resolvers.social import votes
from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.comments.support.discussions import ON_EACH, delete, open_on_product, post
from tests.content.support.site import create_entry, create_section
from tests.game.support.stacks import call, give, goods, keyed, offer
from tests.notifications.support.news import begin, deliver, listed, reasons_of
from tests.shop.support.shop import Provider, checkout_input, new_cart, stock_up
from tests.social.support.posts import later, op, write_comment, write_post
from tests.social.support.social import circle, join, uncircle
from tests.support.harness import GatewayClient, SettableClock, assert_invariants


@pytest.fixture
async def news(gateway: GatewayClient) -> GatewayClient:
    """A gateway whose job has begun."""
    await begin(gateway)
    return gateway


async def test_a_new_follower(news: GatewayClient) -> None:
    await join(news.db, "ann", "bob", "cem")
    await circle(news.db, "bob", "ann", name="friends")
    await circle(news.db, "bob", "ann", name="family")
    await circle(news.db, "cem", "ann")
    await uncircle(news.db, "cem", "ann")

    assert await deliver(news) == 1

    (row,) = await listed(news, "ann")
    assert (row["reason"], row["actor"]) == ("FOLLOWED", {"userId": "bob", "name": "Bob"})
    assert row["node"] == {"id": Kind.encode_id("User", "bob"), "__typename": "User"}
    await uncircle(news.db, "bob", "ann", name="friends")
    await uncircle(news.db, "bob", "ann", name="family")
    await circle(news.db, "bob", "ann")
    assert await deliver(news) == 0
    await assert_invariants(news)


async def test_comments_on_ones_post_also_when_they_have_moved_to_a_page(news: GatewayClient) -> None:
    await join(news.db, "ann", "bob")
    written = await write_post(news.db, "ann", now=later(0))
    for number in range(45):
        await write_comment(news.db, written, "bob", f"C{number}", now=later(number))
    await write_comment(news.db, written, "ann", "My own", now=later(60))

    assert await deliver(news) == 45
    rows = await listed(news, "ann", first=100)
    assert {(row["reason"], row["nodeId"]) for row in rows} == {
        ("POST_COMMENTED", Kind.encode_id("Post", written["_id"]))
    }
    assert await reasons_of(news, "bob") == []
    await assert_invariants(news)


async def test_the_first_vote_of_each_member(news: GatewayClient) -> None:
    await join(news.db, "ann", "bob", "cem")
    poll = await write_post(news.db, "ann", kind="poll", detail={"text": "?", "options": ["a", "b"]}, now=later(0))
    for voter, option in (("bob", 0), ("cem", 1), ("ann", 1), ("bob", 1), ("cem", 0)):
        given: dict[str, Any] = {"voter": voter, "option": option, "now": later(1), "operation_id": op()}
        await votes.vote(news.db, post_id=poll["_id"], **given)

    assert await deliver(news) == 2
    assert sorted(await reasons_of(news, "ann")) == [("POLL_VOTED", "bob"), ("POLL_VOTED", "cem")]


@ON_EACH
async def test_replies_to_ones_comments(news: GatewayClient, storage: str) -> None:
    discussion = await open_on_product(news, storage)
    first = await post(news, discussion, by="ann")
    reply = await post(news, discussion, parent=first["slug"], by="bob")
    await post(news, discussion, parent=reply["slug"], by="bob")
    gone = await post(news, discussion, parent=first["slug"], by="cem")
    await delete(news, gone, by="cem")

    assert await deliver(news) == 1

    (row,) = await listed(news, "ann")
    assert (row["reason"], row["actor"]["userId"]) == ("COMMENT_REPLIED", "bob")
    assert row["node"] == {"id": reply["id"], "__typename": "Comment"}
    await assert_invariants(news)


async def test_comments_on_ones_blog_entry(news: GatewayClient) -> None:
    editor = news.as_caller("ann", Role.EDITOR)
    entry = await create_entry(editor, await create_section(editor, "BLOG"))
    given = {"subjectId": entry["id"], "storage": "DOCUMENTS"}
    discussion = (await news.result("openDiscussion", given))["discussion"]["id"]
    comment = await post(news, discussion, by="bob")
    await post(news, discussion, parent=comment["slug"], by="ann")

    await deliver(news)

    assert await reasons_of(news, "ann") == [("CONTENT_COMMENTED", "bob")]
    assert await reasons_of(news, "bob") == [("COMMENT_REPLIED", "ann")]


async def test_trades_that_are_offered_and_accepted(news: GatewayClient) -> None:
    await give(news.db, "mara", "sword", 5)
    trade = await offer(news, "mara", "jonas", [goods("sword", 2)])
    await deliver(news)

    assert await reasons_of(news, "jonas") == [("TRADE_OFFERED", "mara")]
    assert await reasons_of(news, "mara") == []
    await call(news, "acceptTrade", "jonas", keyed(id=trade))
    assert await deliver(news) == 1
    (row,) = await listed(news, "mara")
    assert (row["reason"], row["actor"]["userId"], row["nodeId"]) == ("TRADE_ACCEPTED", "jonas", trade)
    assert row["node"] == {"id": trade, "__typename": "Trade"}


async def test_orders(news: GatewayClient, clock: SettableClock, provider: Provider) -> None:  # noqa: ARG001
    sku = await stock_up(news)
    paid = await news.payload("checkout", checkout_input(await new_cart(news, **{sku: 1})))

    await deliver(news)

    (row,) = await listed(news, news.subject)
    assert (row["reason"], row["actor"], row["nodeId"]) == ("ORDER_PLACED", None, paid["order"]["id"])
    change = {"status": "SHIPPED", "at": later(1), "op": op()}
    await news.db["orders"].update_one({}, {"$set": {"status": "SHIPPED"}, "$push": {"history": change}})
    await news.db["orders"].update_one({}, {"$set": {"tracking_number": "1"}})
    assert await deliver(news) == 1
    assert await reasons_of(news, news.subject) == [("ORDER_SHIPPED", None), ("ORDER_PLACED", None)]


async def test_what_was_written_before_the_job_began_is_no_news(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    await circle(gateway.db, "bob", "ann")

    await begin(gateway)

    assert await deliver(gateway) == 0
