"""Shares the answers to events: subscribers who would get the same response share one run and one encoding of it.

A selection is what a client asks for: a document, an operation, its variables. The answer of a selection to an event
depends on the event, on the time, and on what the run reads of its caller. A run gets a caller that records this
(`WatchedCaller`). Callers who agree in everything that the run has read share its answer:

1. A selection knows what its runs have read of their callers so far. The values of a caller are its view.
2. A subscriber looks for an answer to the same event with the same selection and view: one that is kept, or one that is
   in flight. If there is none, it starts a run. The first subscribers to an event come at the same time, so almost all
   wait for the same run.
3. A run that reads more of its caller than its selection knew may be the wrong one for those who wait. As soon as it
   reads it, those who do not agree with its caller go back to step 1, where their view now says more. The others stay,
   and the run moves to the view that now says more of its caller.

Anonymous callers always share, and never with a caller who is signed in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from weakref import WeakValueDictionary

from portico.resolvers.changes import Event
from portico.resolvers.kept import Kept
from portico.schema.context import Caller
from portico.schema.watching import Fact, Facts, WatchedCaller, agrees, fact_of

from .http.encoding import EncodedResponse
from .live import Counts
from .turns import Turns, complete

# The answers that are kept for subscribers who come later, in bytes, with the memory of an entry itself.
_KEPT_BYTES = 4_000_000
_ENTRY_BYTES = 500

# None if there is nothing to show.
Answer = EncodedResponse | None
# Computes the answer for this caller. Turns every failure into an answer.
Compute = Callable[[Caller | None], Awaitable[Answer]]


class Selection:
    """What some subscribers ask for."""

    def __init__(self) -> None:
        self._read: tuple[Fact, ...] = ()

    def view(self, caller: Caller | None) -> Hashable:
        """Returns what runs have read of their callers so far, with the values of this caller."""
        return None if caller is None else tuple([fact_of(caller, fact) for fact in self._read])

    def learn(self, fact: Fact) -> bool:
        """Adds what a run has read of its caller. Returns whether it is new."""
        if fact in self._read:
            return False
        self._read = (*self._read, fact)
        return True


# The number of the event, the selection and the view.
_Key = tuple[int, Selection, Hashable]


class Answers:
    """The answers to the latest events, in flight and kept."""

    def __init__(self, counts: Counts, *, kept_bytes: int = _KEPT_BYTES) -> None:
        self._counts = counts
        self._turns = Turns()
        self._selections: WeakValueDictionary[Hashable, Selection] = WeakValueDictionary()
        self._in_flight: dict[_Key, _Flight] = {}
        self._kept: Kept[_Key, Answer] = Kept(most_size=kept_bytes, size_of=_size)

    def selection(self, *request: Hashable) -> Selection:
        """Returns the selection of this request, the same for all subscribers who send it."""
        found = self._selections.get(request)
        if found is None:
            found = self._selections[request] = Selection()
        return found

    async def get(self, event: Event, selection: Selection, caller: Caller | None, compute: Compute) -> Answer:
        """Returns the answer to an event for this caller. Computes it if no caller who agrees has asked for it."""
        while True:
            key = (event.number, selection, selection.view(caller))
            if key in self._kept:
                return self._kept.get(key)
            flight = self._in_flight.get(key) or self._start(key, caller, compute)
            if await flight.lands_for(caller):
                return flight.answer

    def _start(self, key: _Key, caller: Caller | None, compute: Compute) -> _Flight:
        number, selection, _ = key
        watched = None if caller is None else WatchedCaller.of(caller)

        def key_now() -> _Key:
            return number, selection, selection.view(caller)

        async def run() -> Answer:
            self._counts.runs += 1
            answer = await compute(watched)
            if (key := key_now()) not in self._kept:
                self._kept.put(key, answer)
            return answer

        def move(fact: Fact) -> None:
            if selection.learn(fact) or flight.key != key_now():
                self._forget(flight)
                flight.key = key_now()
                self._in_flight.setdefault(flight.key, flight)
                flight.release()

        facts = Facts() if watched is None else watched.facts
        flight = self._in_flight[key] = _Flight(run(), key, facts, self._turns, self._forget)
        facts.on_read = move
        return flight

    def _forget(self, flight: _Flight) -> None:
        # Another flight may have its key: one that was there before it moved, or that began after it was cancelled.
        if self._in_flight.get(flight.key) is flight:
            del self._in_flight[flight.key]


def _size(_key: _Key, answer: Answer) -> int:
    return _ENTRY_BYTES if answer is None else _ENTRY_BYTES + len(answer.json)


class _Flight:
    """A run in flight, and those who wait for its answer. It is cancelled if nobody waits any more.

    `facts` are what it has read of its caller. `forget` is called when nobody may join any more.
    """

    def __init__(
        self, run: Awaitable[Answer], key: _Key, facts: Facts, turns: Turns, forget: Callable[[_Flight], None]
    ) -> None:
        self.key = key
        self._facts = facts
        self._turns = turns
        self._forget = forget
        self._waiters: dict[asyncio.Future[None], Caller | None] = {}
        self._task = asyncio.ensure_future(run)
        self._task.add_done_callback(self._land)

    @property
    def answer(self) -> Answer:
        """The answer, after the run has ended."""
        return self._task.result()

    async def lands_for(self, caller: Caller | None) -> bool:
        """Waits for the answer. Returns False as soon as the run has read what its caller and this one differ in."""
        waiter: asyncio.Future[None] = self._task.get_loop().create_future()
        self._waiters[waiter] = caller
        try:
            await waiter
        finally:
            del self._waiters[waiter]
            if not self._waiters and not self._task.done():
                self._forget(self)
                self._task.cancel()
        return caller is None or agrees(caller, self._facts)

    def release(self) -> None:
        """Lets those continue who differ from the caller of the run in what it has read."""
        waiters = [
            waiter for waiter, caller in self._waiters.items() if caller is not None and not agrees(caller, self._facts)
        ]
        self._turns.each(complete, waiters)

    def _land(self, _task: asyncio.Future[Answer]) -> None:
        self._forget(self)
        # The facts would hold the run, and its answer, until the next collection of garbage.
        self._facts.on_read = None
        self._turns.each(complete, tuple(self._waiters))
