"""Blocks, forged ids, rates, and what an author leads to, as clients see them."""

from __future__ import annotations

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.social.settings import SocialSettings
from portico.schema.kinds import Kind
from tests.content.support.site import create_page
from tests.social.support.members import ADD, BLOCK, REMOVE, UNBLOCK, call, read
from tests.social.support.social import block, join, unblock, user_id
from tests.support.harness import GatewayClient, SettableClock, running, with_settings
from tests.support.interruptions import crashing
from tests.support.leftovers import LONG_AGO


async def test_a_member_who_has_blocked_the_viewer_does_not_exist_for_them(gateway: GatewayClient) -> None:
    await join(gateway.db, "ada", "bo", "cy", follows={"ada": ["bo"], "bo": ["ada", "cy"]})
    await call(gateway, BLOCK, "ada", userId=user_id("bo"))
    text = """query ($id: ID!, $cy: ID!) { user(id: $id) { name } node(id: $id) { id } nodes(ids: [$id, $cy]) { id }
        viewer { user { followers { nodes { name } } circles { members { nodes { name } } } } } }"""

    hidden = await read(gateway, text, "bo", id=user_id("ada"), cy=user_id("cy"))
    unknown = await read(gateway, text, "bo", id=user_id("nobody"), cy=user_id("cy"))

    assert hidden == unknown
    assert hidden == {
        "user": None,
        "node": None,
        "nodes": [None, {"id": user_id("cy")}],
        "viewer": {"user": {"followers": {"nodes": []}, "circles": [{"members": {"nodes": [{"name": "Cy"}]}}]}},
    }
    for subject in ("cy", None):
        assert (
            await gateway.data(
                text.split("viewer", maxsplit=1)[0] + "}",
                {"id": user_id("ada"), "cy": user_id("cy")},
                token=None if subject is None else gateway.token(subject),
            )
        )["user"] == {"name": "Ada"}


async def test_the_blocker_still_sees_whom_they_blocked(gateway: GatewayClient) -> None:
    await join(gateway.db, "ada", "bo", follows={"ada": ["bo"]})

    blocked = await call(gateway, BLOCK, "ada", userId=user_id("bo"))
    shown = await read(
        gateway, "{ viewer { user { blocked { id } circles { name } } blockedUsers { nodes { id } } } }", "ada"
    )

    assert blocked["user"]["name"] == "Bo"
    assert shown["viewer"] == {
        "user": {"blocked": [{"id": user_id("bo")}], "circles": [{"name": "friends"}]},
        "blockedUsers": {"nodes": [{"id": user_id("bo")}]},
    }
    assert (await call(gateway, UNBLOCK, "ada", userId=user_id("bo")))["user"]["name"] == "Bo"
    assert (await read(gateway, "{ viewer { user { blocked { id } } } }", "ada"))["viewer"]["user"]["blocked"] == []


async def test_a_blocked_member_gets_the_answer_of_an_unknown_member_to_every_change(gateway: GatewayClient) -> None:
    await join(gateway.db, "ada", "bo")
    await block(gateway.db, "bo", "ada")
    for text, given in ((ADD, {"circle": "c"}), (REMOVE, {"circle": "c"}), (BLOCK, {}), (UNBLOCK, {})):
        hidden = await call(gateway, text, "ada", userId=user_id("bo"), **given)
        unknown = await call(gateway, text, "ada", userId=user_id("nobody"), **given)

        assert hidden == unknown
        assert hidden["__typename"] == "NotFound"


async def test_members_who_block_each_other_can_both_take_it_back(gateway: GatewayClient) -> None:
    await join(gateway.db, "ada", "bo")
    await call(gateway, BLOCK, "ada", userId=user_id("bo"))
    await call(gateway, BLOCK, "bo", userId=user_id("ada"))

    await call(gateway, UNBLOCK, "bo", userId=user_id("ada"))
    answers = [
        (await read(gateway, "query ($id: ID!) { user(id: $id) { name } }", one, id=user_id(other)))["user"]
        for one, other in (("ada", "bo"), ("bo", "ada"))
    ]
    await call(gateway, UNBLOCK, "ada", userId=user_id("bo"))

    assert answers == [{"name": "Bo"}, None]
    assert (await read(gateway, "query ($id: ID!) { user(id: $id) { name } }", "bo", id=user_id("ada")))["user"]


async def test_a_repeated_answer_does_not_show_a_member_who_has_blocked_the_caller_since(
    gateway: GatewayClient,
) -> None:
    await join(gateway.db, "ada", "bo")
    given = {"userId": user_id("bo"), "circle": "c", "idempotencyKey": "one"}
    await call(gateway, ADD, "ada", **given)
    await block(gateway.db, "bo", "ada")

    again = await call(gateway, ADD, "ada", **given)

    assert again == await call(gateway, ADD, "ada", userId=user_id("nobody"), circle="c")
    assert again["__typename"] == "NotFound"
    await unblock(gateway.db, "bo", "ada")
    assert (await call(gateway, ADD, "ada", **given))["user"]["name"] == "Bo"


@pytest.mark.parametrize("text", [ADD, REMOVE, BLOCK, UNBLOCK])
async def test_a_member_cannot_circle_or_block_themselves(gateway: GatewayClient, text: str) -> None:
    await join(gateway.db, "ada")
    given = {"circle": "c"} if text in {ADD, REMOVE} else {}

    refused = await call(gateway, text, "ada", userId=user_id("ada"), **given)

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["userId"])


@pytest.mark.parametrize("forged", ["", "ada", "VXNlcjo=", Kind.encode_id("Product", "ada"), user_id("a" * 5000)])
async def test_a_forged_id_finds_nobody(gateway: GatewayClient, forged: str) -> None:
    await join(gateway.db, "ada")

    assert await read(gateway, "query ($id: ID!) { user(id: $id) { name } }", "ada", id=forged) == {"user": None}
    assert (await call(gateway, BLOCK, "ada", userId=forged))["__typename"] == "NotFound"


async def to_the_next_minute(clock: SettableClock) -> None:
    """Sets the clock to just after a full minute, so that the test ends within it."""
    now = clock.now()
    clock.advance(seconds=60.1 - now.second - now.microsecond / 1e6)


async def test_changes_of_the_graph_are_limited_by_the_minute(settings: Settings, clock: SettableClock) -> None:
    async with running(with_settings(settings, SocialSettings, social_rate=3), clock=clock) as gateway:
        await join(gateway.db, "ada", "bo", "cy")
        await to_the_next_minute(clock)
        changes = [(ADD, {"circle": "a"}), (ADD, {"circle": "a"}), (BLOCK, {}), (REMOVE, {"circle": "a"})]
        for text, given in changes:
            await call(gateway, text, "ada", userId=user_id("bo"), **given)

        limited = await gateway.ask(UNBLOCK, {"input": {"userId": user_id("bo")}}, token=gateway.token("ada"))
        other = await call(gateway, BLOCK, "bo", userId=user_id("cy"))
        clock.advance(seconds=60)
        later = await call(gateway, UNBLOCK, "ada", userId=user_id("bo"))

    assert (limited.status, limited.body["data"], limited.codes) == (200, {"unblock": None}, ["RATE_LIMITED"])
    (error,) = limited.body["errors"]
    assert 1 <= error["extensions"]["retryAfter"] <= 60
    assert error["message"].startswith("A member may make at most 3 changes of circles and blocks in a minute.")
    assert [other["__typename"], later["__typename"]] == ["UserPayload"] * 2


async def test_a_repeated_call_counts_once_towards_the_rate(settings: Settings, clock: SettableClock) -> None:
    async with running(with_settings(settings, SocialSettings, social_rate=2), clock=clock) as gateway:
        await join(gateway.db, "ada", "bo")
        await to_the_next_minute(clock)
        given = {"userId": user_id("bo"), "idempotencyKey": "one"}
        for stop in range(2, 8):
            with crashing(gateway, stop):
                await gateway.ask(BLOCK, {"input": given}, token=gateway.token("ada"))
            await gateway.db["operations"].update_many({}, {"$set": {"lease_until": LONG_AGO}})
        await call(gateway, BLOCK, "ada", **given)
        await call(gateway, BLOCK, "ada", **given)
        (counted,) = await gateway.db["social.rates"].find({}).to_list()

        assert counted["used"] == 1
        assert (await call(gateway, UNBLOCK, "ada", userId=user_id("bo")))["__typename"] == "UserPayload"
        limited = {"input": {**given, "idempotencyKey": "two"}}
        refused = await gateway.ask(BLOCK, limited, token=gateway.token("ada"))
        assert refused.codes == ["RATE_LIMITED"]
        clock.advance(seconds=60)
        assert (await gateway.data(BLOCK, limited, token=gateway.token("ada")))["block"]["__typename"] == "UserPayload"


async def test_the_author_of_a_text_leads_to_the_member(gateway: GatewayClient) -> None:
    text = "query ($path: String!) { content(path: $path) { author { userId user { name } } } }"
    page = await create_page(gateway)
    stranger = await read(gateway, text, None, path=page["path"])
    await join(gateway.db, gateway.subject, "bo")

    member = await read(gateway, text, "bo", path=page["path"])
    await block(gateway.db, gateway.subject, "bo")
    blocked = await read(gateway, text, "bo", path=page["path"])

    name = gateway.subject.capitalize()
    assert stranger == blocked == {"content": {"author": {"userId": gateway.subject, "user": None}}}
    assert member == {"content": {"author": {"userId": gateway.subject, "user": {"name": name}}}}


BARE_BLOCK = "mutation ($input: BlockInput!) { block(input: $input) { __typename } }"


async def test_above_the_rate_a_member_who_has_blocked_the_caller_still_does_not_exist(
    settings: Settings, clock: SettableClock
) -> None:
    async with running(with_settings(settings, SocialSettings, social_rate=1), clock=clock) as gateway:
        await join(gateway.db, "max", "dwight", "jared", "nick")
        await block(gateway.db, "dwight", "max")
        caller = gateway.as_caller("max")

        _, limited, hidden, missing = [
            await caller.ask(BARE_BLOCK, {"input": {"userId": user_id(name)}})
            for name in ("jared", "nick", "dwight", "nobody")
        ]

    assert limited.codes == ["RATE_LIMITED"]
    assert hidden.body == missing.body == {"data": {"block": {"__typename": "NotFound"}}}
