"""The parts that subscriptions share by: callers that record what is read of them, and iterations of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.loop_steps import LoopSteps, complete
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.comments.discussions import COMMENT, DISCUSSION
from portico.schema.context import Caller
from portico.schema.roles import Role
from portico.schema.subscriptions import show_object
from portico.schema.watching import WatchedCaller

# What a run reads of its caller

TENANT, OTHER = Caller.Claim("tenant", str), Caller.Claim("other", int)
CLAIMS = frozenset({("tenant", '"acme"'), ("other", "null")})


@pytest.mark.parametrize(
    ("read", "facts"),
    [
        (lambda caller: caller.subject, {"subject": "ann"}),
        (lambda caller: caller.author, {"subject": "ann", "name": "Ann"}),
        (lambda caller: caller.has(Role.EDITOR), {Role.EDITOR: True}),
        (lambda caller: caller.has(MERCHANT), {MERCHANT: False}),
        (lambda caller: caller.claim(TENANT), {TENANT: '"acme"'}),
        (lambda caller: caller.claim(OTHER), {OTHER: "null"}),
        (lambda caller: caller.roles, {"roles": frozenset({Role.EDITOR})}),
        (lambda caller: getattr(caller, "name"), {"name": "Ann"}),  # noqa: B009 - any way to read counts
        (lambda caller: isinstance(caller, Caller), {}),
    ],
)
def test_a_watched_caller_records_what_is_read_of_it(read: Callable[[Caller], Any], facts: dict[Any, Any]) -> None:
    caller = Caller("ann", frozenset({Role.EDITOR}), "Ann", CLAIMS)
    watched = WatchedCaller.of(caller)

    assert read(watched) == read(caller)
    assert watched.facts == facts


@pytest.mark.parametrize("read", [vars, hash, repr, replace, lambda caller: caller == Caller("x", frozenset())])
def test_a_watched_caller_that_is_read_as_a_whole_records_everything(read: Callable[[Caller], Any]) -> None:
    watched = WatchedCaller.of(Caller("ann", frozenset({Role.EDITOR}), "Ann", CLAIMS))
    read(watched)

    whole = {"subject": "ann", "roles": frozenset({Role.EDITOR}), "name": "Ann", "claims": CLAIMS}
    assert whole.items() >= watched.facts.items()
    assert "subject" in watched.facts


def test_subscriptions_to_objects_of_the_same_kind_show_them_in_the_same_way() -> None:
    assert show_object(COMMENT) == show_object(COMMENT)
    assert hash(show_object(COMMENT)) == hash(show_object(COMMENT))
    other: object = show_object(DISCUSSION)
    assert show_object(COMMENT) != other


# Steps of the event loop


async def test_many_deliveries_leave_iterations_of_the_event_loop_to_others() -> None:
    steps, loop = LoopSteps(), asyncio.get_running_loop()
    waiters = [loop.create_future() for _ in range(1_000)]
    waiters[1].cancel()
    steps.each(complete, waiters)
    done = []
    while not all(waiter.done() for waiter in waiters):
        await asyncio.sleep(0)
        done.append(sum(waiter.done() for waiter in waiters))

    assert len(done) > 20
    assert max(after - before for before, after in zip([1, *done], done, strict=False)) < 50
    assert [waiter.cancelled() for waiter in waiters] == [number == 1 for number in range(1_000)]
