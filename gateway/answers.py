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

A function that a resolver creates for each call, such as a closure over its caller, equals no other, so its subscribers
do not share. `newsFeedPosted` has such a function: an answer that is kept could be older than a block. A run is
cancelled only if all who wait for it have disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from weakref import WeakValueDictionary

from portico.gateway.operations.encoding import EncodedResponse
from portico.resolvers.changes import Event
from portico.resolvers.flights import Flight, Flights
from portico.resolvers.lru import Lru
from portico.schema.context import Caller
from portico.schema.watching import Fact, Facts, WatchedCaller, agrees, fact_of

from .live import Counts
from .loop_steps import LoopSteps, complete

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
        self._steps = LoopSteps()
        self._selections: WeakValueDictionary[Hashable, Selection] = WeakValueDictionary()
        self._flights: Flights[_Key, _Run] = Flights()
        self._kept: Lru[_Key, Answer] = Lru(most_size=kept_bytes, size_of=_size)

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
            flight = self._flights.of(key) or self._start(key, caller, compute)
            if await flight.lands_for(caller):
                return flight.answer

    def _start(self, key: _Key, caller: Caller | None, compute: Compute) -> _Run:
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
                flight.move(key_now())
                flight.release()

        facts = Facts() if watched is None else watched.facts
        flight = _Run(self._flights, key, run(), facts, self._steps)
        facts.on_read = move
        return flight


def _size(_key: _Key, answer: Answer) -> int:
    return _ENTRY_BYTES if answer is None else _ENTRY_BYTES + len(answer.json)


class _Run(Flight[_Key, Answer]):
    """A run in flight, and those who wait for its answer. `facts` are what it has read of its caller."""

    def __init__(
        self, flights: Flights[_Key, _Run], key: _Key, run: Awaitable[Answer], facts: Facts, steps: LoopSteps
    ) -> None:
        super().__init__(flights, key, run)
        self._facts = facts
        self._steps = steps
        self._waiters: dict[asyncio.Future[None], Caller | None] = {}

    @property
    def answer(self) -> Answer:
        """The answer, after the run has ended."""
        return self.task.result()

    async def lands_for(self, caller: Caller | None) -> bool:
        """Waits for the answer. Returns False as soon as the run has read what its caller and this one differ in."""
        waiter: asyncio.Future[None] = self.task.get_loop().create_future()
        self._waiters[waiter] = caller
        try:
            with self._joining():
                await waiter
        finally:
            del self._waiters[waiter]
        return caller is None or agrees(caller, self._facts)

    def release(self) -> None:
        """Lets those continue who differ from the caller of the run in what it has read."""
        waiters = [
            waiter for waiter, caller in self._waiters.items() if caller is not None and not agrees(caller, self._facts)
        ]
        self._steps.each(complete, waiters)

    def _land(self, task: asyncio.Future[Answer]) -> None:
        super()._land(task)
        # The facts would hold the run, and its answer, until the next collection of garbage.
        self._facts.on_read = None
        self._steps.each(complete, tuple(self._waiters))
