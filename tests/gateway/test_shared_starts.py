"""Equal subscriptions that start together share what a start reads, and nobody gets what is another caller's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from typing import Any

import pytest

from portico.gateway.starts import Starts
from portico.resolvers.changes import Event
from portico.resolvers.documents import Database
from portico.schema.context import Caller, Context, Events, Live
from portico.schema.subscriptions import Occurrences

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


async def test_callers_who_agree_in_what_a_start_reads_share_it(db: Database) -> None:
    begun = Begun("name")

    topics = await started(db, begun, [ANN, BOB] * 10)

    assert begun.callers == ["One"]
    assert [one.listened for one in topics] == [[("topic", "One", True)]] * 20


async def test_callers_who_differ_listen_to_their_own_topics(db: Database) -> None:
    begun = Begun("subject")

    topics = await started(db, begun, [ANN, BOB, None] * 3)

    assert sorted(begun.callers, key=str) == [None, "ann", "bob"]
    assert [one.listened for one in topics] == [[("topic", who, True)] for who in ("ann", "bob", None)] * 3


async def test_what_shows_events_to_one_caller_is_not_shared(db: Database) -> None:
    begun = Begun(is_closure=True)

    topics = await started(db, begun, [ANN] * 3)

    # The first one began for all. Then each began for itself.
    assert len(begun.callers) == 4
    assert [one.listened for one in topics] == [[("topic", "One", True)]] * 3


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
