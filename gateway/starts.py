"""Shares the starts of subscriptions: equal ones that start together read once whether their callers may listen.

Clients that were cut off together come back together, with the same subscriptions. Without this, each of them would
read the object that it subscribes to.

1. One start at a time reads for all who wait with an equal subscription. It begins after they have asked, so it shows
   every write that was acknowledged before.
2. It gets a caller that records what is read of it (`WatchedCaller`). Those who agree in that share the result: the
   topics, and how an event is shown. Those who do not agree have one start for each view.
3. Each subscriber listens for itself, and continues after its own last event.

A start that fails, or whose result may belong to one caller, is shared by nobody: each subscriber starts by itself. So
does a subscriber that nobody waits with.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NoReturn

from portico.resolvers.changes import Event
from portico.resolvers.documents import Database
from portico.resolvers.writes.combining import Combiner, Waiting
from portico.schema.context import Caller, Events, Live
from portico.schema.subscriptions import Occurrences, Order, Show, show_object
from portico.schema.watching import Fact, Facts, WatchedCaller, agrees, fact_of

_CLOSE_SECONDS = 1.0
# Starts a subscription for this caller, with this source of live events. Returns its occurrences, or why it has none.
Begin = Callable[[Caller | None, Live], Awaitable[Any]]


@dataclass(frozen=True)
class _Shared:
    """What equal subscriptions of callers who agree have in common."""

    topics: Sequence[Hashable]
    is_state: bool
    show: Show
    order: Order | None


@dataclass(eq=False, kw_only=True)
class _Starting(Waiting[_Shared | None]):
    """A subscriber that waits. None is the answer to one that starts by itself."""

    caller: Caller | None
    begin: Begin


class Starts:
    """The starts of subscriptions of a process."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._starting: Combiner[Hashable, _Starting] = Combiner(self._serve)

    async def start(self, request: Hashable, caller: Caller | None, live: Live, begin: Begin) -> Any:
        """Returns what `begin` returns. Equal requests have functions `begin` that do the same."""
        starting = _Starting(db=self._db, caller=caller, begin=begin)
        self._starting.add((request, caller is None), starting)
        shared = await starting.done
        if shared is not None:
            try:
                events = await live.listen(*shared.topics, is_state=shared.is_state)
            except Exception:  # noqa: BLE001, S110 - starting by itself tells the client why it cannot listen
                pass
            else:
                return Occurrences(events, shared.show, shared.order)
        return await begin(caller, live)

    async def aclose(self) -> None:
        """Waits until nobody waits. Ends what a database that does not answer holds up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._starting.close()

    async def _serve(self, _key: Hashable, batch: list[_Starting]) -> None:
        waiting = [one for one in batch if not one.done.done()]
        if len(waiting) > 1:
            await self._lead(waiting, ())
        for one in waiting:
            one.answer(None)

    async def _lead(self, waiting: Sequence[_Starting], known: tuple[Fact, ...]) -> None:
        """Starts for the first one, and answers those who share the result. Those who agree in `known` wait."""
        waiting = [one for one in waiting if not one.done.done()]
        if not waiting:
            return
        first = waiting[0]
        watched = None if first.caller is None else WatchedCaller.of(first.caller)
        facts = Facts() if watched is None else watched.facts
        shared = await _begun(first.begin, watched)
        if shared is None:
            for one in waiting:
                one.answer(None)
            return
        known = tuple(dict.fromkeys([*known, *facts]))
        others: defaultdict[Hashable, list[_Starting]] = defaultdict(list)
        for one in waiting:
            if one.caller is None or agrees(one.caller, facts):
                one.answer(shared)
            else:
                others[tuple([fact_of(one.caller, fact) for fact in known])].append(one)
        # A view that one caller has is not worth a start for all.
        for alone in [group[0] for group in others.values() if len(group) == 1]:
            alone.answer(None)
        await asyncio.gather(*(self._lead(group, known) for group in others.values() if len(group) > 1))


async def _begun(begin: Begin, caller: Caller | None) -> _Shared | None:
    """Starts for a caller. Returns what others may share; None if they may not."""
    live = _Topics()
    try:
        found = await begin(caller, live)
    except Exception:  # noqa: BLE001 - each subscriber finds its own error
        return None
    if not isinstance(found, Occurrences) or found.events is not live.events:
        return None
    if not _is_of_module(found.show) or not (found.order is None or _is_of_module(found.order)):
        return None
    return _Shared(live.events.topics, live.events.is_state, found.show, found.order)


def _is_of_module(function: Callable[..., Any]) -> bool:
    """Returns whether the function belongs to no single call of a resolver."""
    if isinstance(function, show_object):
        return True
    return isinstance(function, FunctionType) and function.__closure__ is None and "<" not in function.__qualname__


class _Topics:
    """A source of live events that only notes for which topics a start asks."""

    def __init__(self) -> None:
        self.events: _NoEvents | None = None

    async def listen(self, *topics: Hashable, is_state: bool = False) -> Events:
        self.events = _NoEvents(topics, is_state)
        return self.events


@dataclass(eq=False)
class _NoEvents:
    """Stands for the events of each subscriber. A resolver that takes events from it itself cannot be shared."""

    topics: Sequence[Hashable]
    is_state: bool

    def __aiter__(self) -> AsyncIterator[Event]:
        self._refuse()

    async def __anext__(self) -> Event:
        self._refuse()

    async def aclose(self) -> None:
        """Does nothing."""

    def _refuse(self) -> NoReturn:
        raise TypeError("The events of a shared start cannot be taken.")
