"""Blocks, forged ids, the rates of all changes, and what an author leads to, as clients see them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.documents import Database
from portico.resolvers.errors import NotFound
from portico.resolvers.social import member_rates
from portico.resolvers.social.member_rates import RateLimited
from portico.resolvers.social.settings import SocialSettings
from portico.schema.kinds import Kind
from tests.content.support.site import create_page
from tests.social.support import posts
from tests.social.support.members import ADD, BLOCK, REMOVE, UNBLOCK, call, read
from tests.social.support.posts import NOW, POSTING, codes, keyed_op, new_post, op
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


RENAME = "mutation ($input: UpdateProfileInput!) { updateProfile(input: $input) { __typename } }"
POLL = {"poll": {"text": "Which?", "options": ["A", "B", "C"]}}


def _clock() -> SettableClock:
    """Returns a clock at the beginning of an hour."""
    clock = SettableClock()
    now = clock.now()
    clock.advance(seconds=3_601 - now.minute * 60 - now.second)
    return clock


async def test_votes_are_bounded_by_the_minute_and_one_that_changes_nothing_does_not_count(
    gateway: GatewayClient,
) -> None:
    await join(gateway.db, "max", "dwight")
    clock = _clock()
    async with running(with_settings(gateway.settings, SocialSettings, social_rate=3), clock=clock) as bounded:
        poll = (await new_post(bounded, "dwight", detail=POLL))["id"]
        for option, key in ((0, "a"), (0, "a"), (0, "b"), (1, "c"), (2, "d"), (1, "c"), (2, None)):
            given: dict[str, Any] = {} if key is None else {"idempotencyKey": key}
            await posts.call(bounded, "max", "vote", postId=poll, option=option, **given)
        limited = await bounded.as_caller("max").ask(POSTING["vote"], {"input": {"postId": poll, "option": 0}})
        assert limited.codes == ["RATE_LIMITED"]
        assert 0 < limited.body["errors"][0]["extensions"]["retryAfter"] <= 60
        assert "at most 3 votes in a minute" in limited.body["errors"][0]["message"]
        # Others have a count of their own, and so has the next minute.
        await posts.call(bounded, "dwight", "vote", postId=poll, option=0)
        clock.advance(seconds=60)
        changed = await posts.call(bounded, "max", "vote", postId=poll, option=1)
    assert [option["votes"] for option in changed["post"]["options"]] == [1, 1, 0]


async def test_the_same_vote_again_changes_nothing_that_is_stored(gateway: GatewayClient) -> None:
    await join(gateway.db, "max", "dwight")
    poll = (await new_post(gateway, "dwight", detail=POLL))["id"]
    for option in (2, 1):
        await posts.call(gateway, "max", "vote", postId=poll, option=option)
    stored = await gateway.db["social.votes"].find({}).to_list()

    answers = [await posts.call(gateway, "max", "vote", postId=poll, option=1) for _ in range(2)]

    assert [answer["post"]["viewerVote"] for answer in answers] == [1, 1]
    assert await gateway.db["social.votes"].find({}).to_list() == stored
    assert [slot["votes"] for slot in stored] == [[0, 1, 0]]


async def test_changes_of_a_name_are_bounded_by_the_hour(gateway: GatewayClient) -> None:
    await join(gateway.db, "max")
    clock = _clock()
    async with running(with_settings(gateway.settings, SocialSettings, rename_rate=2), clock=clock) as bounded:
        caller = bounded.as_caller("max")
        for name in ("Maxim", "Maxim", "Max"):
            await caller.data(RENAME, {"input": {"name": name}})
        for _ in range(2):
            # A repeated call counts once.
            await caller.data(RENAME, {"input": {"name": "Max", "profile": {"about": "x"}, "idempotencyKey": "a"}})
        limited = await caller.ask(RENAME, {"input": {"name": "Moritz", "profile": {"about": "y"}}})
        assert limited.codes == ["RATE_LIMITED"]
        assert 0 < limited.body["errors"][0]["extensions"]["retryAfter"] <= 3_600
        await caller.data(RENAME, {"input": {"profile": {"location": "Porto"}}})
        clock.advance(seconds=3_600)
        await caller.data(RENAME, {"input": {"name": "Moritz"}})
    member = await gateway.db["social.members"].find_one({"_id": "max"}) or {}
    assert member["name"] == "Moritz"
    assert member["profile"] == {"about": "x", "location": "Porto"}


async def test_a_call_that_is_refused_does_not_count(gateway: GatewayClient) -> None:
    await join(gateway.db, "max", "dwight")
    async with running(with_settings(gateway.settings, SocialSettings, social_rate=1), clock=_clock()) as bounded:
        post = (await new_post(bounded, "dwight"))["id"]
        for key in (None, "a", "a"):
            vote, new = ({} if key is None else {"idempotencyKey": f"{what} {key}"} for what in ("vote", "post"))
            answers = [
                await posts.call(bounded, "max", "vote", postId=post, option=0, **vote),
                await posts.call(bounded, "max", "createPost", detail={"status": {"text": " "}}, **new),
            ]
            assert [answer["__typename"] for answer in answers] == ["InvalidInput"] * 2

        poll = (await new_post(bounded, "max", detail=POLL))["id"]
        await posts.call(bounded, "max", "vote", postId=poll, option=0)
        assert await codes(bounded, "max", "createPost", detail=POLL) == ["RATE_LIMITED"]
        assert await codes(bounded, "max", "vote", postId=poll, option=1) == ["RATE_LIMITED"]


async def test_a_repeated_call_that_has_acted_is_answered_at_the_bound_and_takes_nothing_back(
    gateway: GatewayClient,
) -> None:
    await join(gateway.db, "max")
    clock = _clock()
    async with running(with_settings(gateway.settings, SocialSettings, social_rate=1), clock=clock) as bounded:
        post = await new_post(bounded, "max", detail=POLL, idempotencyKey="post")
        given = {"postId": post["id"], "option": 0}
        voted = await posts.call(bounded, "max", "vote", **given, idempotencyKey="vote")
        comment = {"postId": post["id"], "text": "x"}
        await posts.call(bounded, "max", "commentOnPost", **comment, idempotencyKey="comment")
        for number in range(4):
            if number == 3:
                # The repeated calls count nothing in another minute either.
                clock.advance(seconds=60)
            assert (await new_post(bounded, "max", detail=POLL, idempotencyKey="post"))["id"] == post["id"]
            again = await posts.call(bounded, "max", "vote", **given, idempotencyKey="vote")
            assert again["__typename"] == voted["__typename"]
            commented = await posts.call(bounded, "max", "commentOnPost", **comment, idempotencyKey="comment")
            assert commented["post"]["commentCount"] == 1
            expected = ["RATE_LIMITED"] if number < 3 else []
            assert await codes(bounded, "max", "createPost", detail=POLL) == expected
            assert await codes(bounded, "max", "vote", postId=post["id"], option=1) == expected
            assert await codes(bounded, "max", "commentOnPost", **comment) == expected


async def test_a_count_is_taken_back_by_the_call_that_has_counted_only(db: Database) -> None:
    operation: Any = {"rate": 5, "now": NOW, "operation_id": keyed_op()}
    for _ in range(2):
        with pytest.raises(NotFound):
            async with member_rates.counting(db, "max", member_rates.POSTS, **operation):
                raise NotFound("Post")
    async with member_rates.counting(db, "max", member_rates.POSTS, **operation) as counting:
        await counting.counted()
    with pytest.raises(NotFound):
        async with member_rates.counting(db, "max", member_rates.POSTS, **operation) as counting:
            raise NotFound("Post")

    (stored,) = await db["social.rates"].find({}).to_list()
    assert (stored["used"], stored["operations"]) == (1, [operation["operation_id"]])


@pytest.mark.parametrize(("action", "seconds"), [(member_rates.VOTES, 60), (member_rates.NAMES, 3_600)])
async def test_a_period_begins_at_a_whole_minute_or_hour(
    db: Database, action: member_rates.Action, seconds: int
) -> None:
    begin = NOW.replace(minute=0, second=0, microsecond=0)
    last = begin + timedelta(seconds=seconds, microseconds=-1)
    for moment in (begin, last):
        await member_rates.count(db, "max", action, rate=2, now=moment, operation_id=op())
    with pytest.raises(RateLimited) as raised:
        await member_rates.count(db, "max", action, rate=2, now=last, operation_id=op())
    assert raised.value.extensions == {"code": "RATE_LIMITED", "retryAfter": 1}
    await member_rates.count(db, "max", action, rate=2, now=begin + timedelta(seconds=seconds), operation_id=op())
