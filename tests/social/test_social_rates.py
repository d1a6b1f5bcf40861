"""Votes and changes of a name have a rate, like posts, comments and changes of the graph."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from portico.resolvers.documents import Database
from portico.resolvers.errors import NotFound
from portico.resolvers.social import member_rates
from portico.resolvers.social.member_rates import RateLimited
from portico.resolvers.social.settings import SocialSettings
from tests.social.support.posts import NOW, POSTING, call, codes, keyed_op, new_post, op
from tests.social.support.social import join
from tests.support.harness import GatewayClient, SettableClock, running, with_settings

UPDATE = "mutation ($input: UpdateProfileInput!) { updateProfile(input: $input) { __typename } }"
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
            await call(bounded, "max", "vote", postId=poll, option=option, **given)
        limited = await bounded.as_caller("max").ask(POSTING["vote"], {"input": {"postId": poll, "option": 0}})
        assert limited.codes == ["RATE_LIMITED"]
        assert 0 < limited.body["errors"][0]["extensions"]["retryAfter"] <= 60
        assert "at most 3 votes in a minute" in limited.body["errors"][0]["message"]
        # Others have a count of their own, and so has the next minute.
        await call(bounded, "dwight", "vote", postId=poll, option=0)
        clock.advance(seconds=60)
        changed = await call(bounded, "max", "vote", postId=poll, option=1)
    assert [option["votes"] for option in changed["post"]["options"]] == [1, 1, 0]


async def test_the_same_vote_again_changes_nothing_that_is_stored(gateway: GatewayClient) -> None:
    await join(gateway.db, "max", "dwight")
    poll = (await new_post(gateway, "dwight", detail=POLL))["id"]
    for option in (2, 1):
        await call(gateway, "max", "vote", postId=poll, option=option)
    stored = await gateway.db["social.votes"].find({}).to_list()

    answers = [await call(gateway, "max", "vote", postId=poll, option=1) for _ in range(2)]

    assert [answer["post"]["viewerVote"] for answer in answers] == [1, 1]
    assert await gateway.db["social.votes"].find({}).to_list() == stored
    assert [slot["votes"] for slot in stored] == [[0, 1, 0]]


async def test_changes_of_a_name_are_bounded_by_the_hour(gateway: GatewayClient) -> None:
    await join(gateway.db, "max")
    clock = _clock()
    async with running(with_settings(gateway.settings, SocialSettings, rename_rate=2), clock=clock) as bounded:
        caller = bounded.as_caller("max")
        for name in ("Maxim", "Maxim", "Max"):
            await caller.data(UPDATE, {"input": {"name": name}})
        for _ in range(2):
            # A repeated call counts once.
            await caller.data(UPDATE, {"input": {"name": "Max", "profile": {"about": "x"}, "idempotencyKey": "a"}})
        limited = await caller.ask(UPDATE, {"input": {"name": "Moritz", "profile": {"about": "y"}}})
        assert limited.codes == ["RATE_LIMITED"]
        assert 0 < limited.body["errors"][0]["extensions"]["retryAfter"] <= 3_600
        await caller.data(UPDATE, {"input": {"profile": {"location": "Porto"}}})
        clock.advance(seconds=3_600)
        await caller.data(UPDATE, {"input": {"name": "Moritz"}})
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
                await call(bounded, "max", "vote", postId=post, option=0, **vote),
                await call(bounded, "max", "createPost", detail={"status": {"text": " "}}, **new),
            ]
            assert [answer["__typename"] for answer in answers] == ["InvalidInput"] * 2

        poll = (await new_post(bounded, "max", detail=POLL))["id"]
        await call(bounded, "max", "vote", postId=poll, option=0)
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
        voted = await call(bounded, "max", "vote", **given, idempotencyKey="vote")
        comment = {"postId": post["id"], "text": "x"}
        await call(bounded, "max", "commentOnPost", **comment, idempotencyKey="comment")
        for number in range(4):
            if number == 3:
                # The repeated calls count nothing in another minute either.
                clock.advance(seconds=60)
            assert (await new_post(bounded, "max", detail=POLL, idempotencyKey="post"))["id"] == post["id"]
            again = await call(bounded, "max", "vote", **given, idempotencyKey="vote")
            assert again["__typename"] == voted["__typename"]
            commented = await call(bounded, "max", "commentOnPost", **comment, idempotencyKey="comment")
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
