"""What equal subscriptions share: what a start reads, and what a run reads of its caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.loop_steps import LoopSteps, complete
from portico.gateway.starts import Starts
from portico.resolvers.changes import Event
from portico.resolvers.documents import Database
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.comments.discussions import COMMENT, DISCUSSION
from portico.schema.context import Caller, Context, Events, Live
from portico.schema.roles import Role
from portico.schema.subscriptions import Occurrences, show_object
from portico.schema.watching import WatchedCaller

ANN, BOB = Caller("ann", frozenset(), "One"), Caller("bob", frozenset(), "One")


class Topics:
    """A source of live events that notes which topics a subscriber listens to."""

    def __init__(self) -> None:
        self.listened: list[Hashable] = []

    async def listen(self, *topics: Hashable, is_state: bool = False) -> Events:
        self.listened.append((*topics, is_state))
        return NoEvents()


class NoEvents:
    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        raise StopAsyncIteration

    async def aclose(self) -> None:
        pass


async def show(_context: Context, event: Event) -> Any:
    return event.key


class Begun:
    """A start that reads its caller's subject or name, and counts how often it begins."""

    def __init__(self, read: str = "name", *, is_closure: bool = False) -> None:
        self.callers: list[str | None] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self._read = read
        self._is_closure = is_closure

    async def __call__(self, caller: Caller | None, live: Live) -> Occurrences:
        value = None if caller is None else getattr(caller, self._read)
        self.callers.append(value)
        await self.may_end.wait()
        if value == "banned":
            raise PermissionError(value)

        async def show_to_one(_context: Context, _event: Event) -> Any:
            return value

        return Occurrences(await live.listen("topic", value, is_state=True), show_to_one if self._is_closure else show)


async def started(db: Database, begun: Begun, callers: list[Caller | None]) -> list[Topics]:
    """Starts a subscription for each caller at once. Returns what each listens to."""
    starts, topics = Starts(db), [Topics() for _ in callers]
    found = await asyncio.gather(
        *(starts.start("request", caller, live, begun) for caller, live in zip(callers, topics, strict=True))
    )
    assert all(isinstance(one, Occurrences) and isinstance(one.events, NoEvents) for one in found)
    return topics


# The start, its callers, what it reads of those for whom it begins, and the topics that they listen to.
STARTED: dict[str, tuple[dict[str, Any], list[Caller | None], list[str | None], list[str | None]]] = {
    "callers who agree share it": ({"read": "name"}, [ANN, BOB] * 10, ["One"], ["One"] * 20),
    "callers who differ": ({"read": "subject"}, [ANN, BOB, None] * 3, [None, "ann", "bob"], ["ann", "bob", None] * 3),
    # The first one begins for all. Then each begins for itself.
    "what shows events to one caller is not shared": ({"is_closure": True}, [ANN] * 3, ["One"] * 4, ["One"] * 3),
}


@pytest.mark.parametrize(("start", "callers", "began", "topics"), STARTED.values(), ids=STARTED)
async def test_callers_share_a_start_if_they_agree_in_what_it_reads(
    db: Database, start: dict[str, Any], callers: list[Caller | None], began: list[str | None], topics: list[str | None]
) -> None:
    begun = Begun(**start)

    found = await started(db, begun, callers)

    assert sorted(begun.callers, key=str) == began
    assert [one.listened for one in found] == [[("topic", topic, True)] for topic in topics]


async def test_a_start_that_fails_is_repeated_by_each(db: Database) -> None:
    starts, begun = Starts(db), Begun()
    callers = [Caller(str(number), frozenset(), "banned") for number in range(3)]

    found = await asyncio.gather(
        *(starts.start("request", caller, Topics(), begun) for caller in callers), return_exceptions=True
    )

    assert [type(one) for one in found] == [PermissionError] * 3
    assert len({id(one) for one in found}) == 3


async def test_those_who_ask_during_a_start_wait_for_the_next_one(db: Database) -> None:
    starts, begun = Starts(db), Begun()
    begun.may_end.clear()
    first = [asyncio.create_task(starts.start("request", ANN, Topics(), begun)) for _ in range(2)]
    await asyncio.sleep(0.01)
    later = [asyncio.create_task(starts.start("request", ANN, Topics(), begun)) for _ in range(5)]
    await asyncio.sleep(0.01)
    assert begun.callers == ["One"]
    begun.may_end.set()

    await asyncio.gather(*first, *later)

    assert begun.callers == ["One"] * 2


async def test_a_subscriber_who_leaves_takes_the_start_from_nobody(db: Database) -> None:
    starts, begun = Starts(db), Begun()
    begun.may_end.clear()
    tasks = [asyncio.create_task(starts.start("request", ANN, Topics(), begun)) for _ in range(3)]
    await asyncio.sleep(0.01)
    tasks[0].cancel()
    begun.may_end.set()

    found = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(one) for one in found] == [asyncio.CancelledError, Occurrences, Occurrences]
    assert begun.callers == ["One"]


async def test_a_subscriber_who_cannot_listen_gets_its_own_error(db: Database) -> None:
    class Refusing(Topics):
        async def listen(self, *topics: Hashable, is_state: bool = False) -> Events:
            await super().listen(*topics, is_state=is_state)
            raise ConnectionError

    starts, begun = Starts(db), Begun()
    refusing, other = Refusing(), Topics()

    with pytest.raises(ConnectionError):
        await asyncio.gather(*(starts.start("request", ANN, live, begun) for live in (other, refusing)))

    # It began for itself, too, so its client is told as by any other start.
    assert len(refusing.listened) == 2
    assert len(other.listened) == 1


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
