"""Live queries: an answer, and each newer one that differs.

1. A live query is what some clients ask for, with what its runs have read of their callers. Callers who agree in that
   share it (`schema/watching.py`). If a run reads more of its caller than any run before, those who do not agree get a
   live query of their own before anything is sent.
2. A run records what it reads (`reads/read_sets.py`). A change that affects it marks the live query, which then runs
   again: at most one run at a time, so an answer is never older than the one before.
3. The answer goes to each listener whose last one has other bytes. A state that returns to what was sent is not sent.
   Only the newest answer waits for a slow client. While all clients of a live query are slow, it does not run.
4. Who begins to listen gets the answer of a run that began afterwards, so it shows everything that was acknowledged
   before. Those who come during a run share the next one.

A run that compares dates with the time is repeated when the next one has come. Others that read it, every second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any

from portico.gateway.operations.encoding import EncodedResponse
from portico.gateway.operations.responses import Response
from portico.resolvers.changes import ChangesLost
from portico.schema.context import Caller
from portico.schema.watching import Fact, WatchedCaller, fact_of

from .ended import Ended, Stopping, TooManyLive
from .logs import logger
from .loop_steps import LoopSteps, complete
from .reads.feed import Feed
from .reads.read_sets import ReadSet

# How often a query runs that depends on the time.
CLOCK_SECONDS = 1.0
# The database cannot be reached, or does not answer in time: the run is repeated.
_RETRIED = {"UNAVAILABLE", "TIMEOUT"}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0

# Runs the query for a caller, and records what it reads. Turns every failure into a response.
Compute = Callable[[Caller | None, ReadSet], Coroutine[Any, Any, Response]]


@dataclass
class LiveCounts:
    """What `/metrics` shows. `vain` counts runs whose answer was the former one, `sent` answers to listeners."""

    queries: int = 0
    listeners: int = 0
    runs: int = 0
    vain: int = 0
    sent: int = 0


class LiveQueries:
    """The live queries of a process."""

    def __init__(self, feed: Feed, counts: LiveCounts, *, most: int, pause: float) -> None:
        """`most` bounds the different live queries. One runs at most every `pause` seconds."""
        self.feed = feed
        self.counts = counts
        self.steps = LoopSteps()
        self.pause = pause
        self._most = most
        self._groups: dict[Hashable, _Group] = {}
        self._is_stopping = False

    async def listen(
        self, request: Hashable, caller: Caller | None, compute: Compute, known: str | None = None
    ) -> LiveListener:
        """Returns the answers to a request. Equal requests have equal functions `compute`.

        Args:     known: the digest of the answer that the client has got before it was cut off.

        Raises:   TooManyLive; Stopping; a driver's error if changes cannot be followed.
        """
        if self._is_stopping:
            raise Stopping
        await self.feed.open()
        listener = LiveListener(self, caller, known)
        key = (request, caller is None)
        try:
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group(self, key, compute)
            group.place(listener)
        except BaseException:
            self.feed.close()
            raise
        self.counts.listeners += 1
        return listener

    def require_room(self) -> None:
        """Raises TooManyLive if there may be no other live query."""
        if self.counts.queries >= self._most:
            raise TooManyLive(self._most)

    def forget(self, group: _Group) -> None:
        self._groups.pop(group.key, None)

    def stop(self) -> None:
        """Ends every listener, and refuses new ones."""
        self._is_stopping = True
        for group in tuple(self._groups.values()):
            for listener in group.listeners():
                listener.end(Stopping())

    async def aclose(self) -> None:
        """Stops, and closes the change stream."""
        self.stop()
        await self.feed.aclose()


class _Group:
    """The live queries of one request, by the view of their callers: what runs have read of them."""

    def __init__(self, queries: LiveQueries, key: Hashable, compute: Compute) -> None:
        self.queries = queries
        self.key = key
        self.compute = compute
        self._facts: tuple[Fact, ...] = ()
        self._by_view: dict[Hashable, _LiveQuery] = {}

    def listeners(self) -> list[LiveListener]:
        return [listener for query in self._by_view.values() for listener in query.listeners]

    def place(self, listener: LiveListener) -> None:
        """Adds the listener to the live query of its view. Raises TooManyLive."""
        view = self._view(listener.caller)
        query = self._by_view.get(view)
        if query is None:
            try:
                self.queries.require_room()
            except TooManyLive:
                self._forget_if_empty()
                raise
            query = self._by_view[view] = _LiveQuery(self, listener.caller)
            self.queries.counts.queries += 1
        query.add(listener)

    def learn(self, facts: Any) -> None:
        """Adds what a run has read of its caller. Listeners who do not agree any more get live queries of their own."""
        new = [fact for fact in facts if fact not in self._facts]
        if not new:
            return
        self._facts = (*self._facts, *new)
        queries = list(self._by_view.values())
        self._by_view = {self._view(query.caller): query for query in queries}
        for query in queries:
            for listener in [one for one in query.listeners if self._view(one.caller) != self._view(query.caller)]:
                try:
                    self.place(listener)
                except TooManyLive as error:
                    listener.end(error)
                # The last one may have gone on whose behalf it ran. Then it ends.
                query.remove(listener)

    def forget(self, query: _LiveQuery) -> None:
        self._by_view = {view: one for view, one in self._by_view.items() if one is not query}
        self.queries.counts.queries -= 1
        self._forget_if_empty()

    def _forget_if_empty(self) -> None:
        if not self._by_view:
            self.queries.forget(self)

    def _view(self, caller: Caller | None) -> Hashable:
        return None if caller is None else tuple([fact_of(caller, fact) for fact in self._facts])


class _LiveQuery:
    """One live query, from its first listener to its last."""

    def __init__(self, group: _Group, caller: Caller | None) -> None:
        self.caller = caller
        self.listeners: set[LiveListener] = set()
        # The number of the last run.
        self.number = 0
        self._group = group
        self._queries = group.queries
        self._answer = b""
        self._reads: ReadSet | None = None
        self._is_stale = False
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time() - self._queries.pause
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._retry_pause = _FIRST_PAUSE

    def add(self, listener: LiveListener) -> None:
        """Sends the answers of all runs from now on to the listener."""
        listener.attach(self, self.number)
        self.listeners.add(listener)
        self.affected()

    def remove(self, listener: LiveListener) -> None:
        """Sends the listener nothing more. After the last one, the live query ends."""
        if listener not in self.listeners:
            return
        self.listeners.remove(listener)
        if self.listeners:
            return
        for one in (self._timer, self._task):
            if one is not None:
                one.cancel()
        if self._reads is not None:
            self._reads.release()
            self._reads = None
        self._group.forget(self)

    def affected(self) -> None:
        """Marks the last answer as one that may have changed."""
        self._is_stale = True
        self.wake()

    def wake(self) -> None:
        """Runs the query, if its answer may have changed and a client can take another."""
        if self._must_run and self._task is None:
            self._task = self._loop.create_task(self._run_while_stale())

    @property
    def _must_run(self) -> bool:
        return self._is_stale and any(listener.is_free for listener in self.listeners)

    async def _run_while_stale(self) -> None:
        try:
            while self._must_run:
                left = self._began + self._queries.pause - self._loop.time()
                if left > 0:
                    await asyncio.sleep(left)
                await self._run()
        except Exception as error:  # noqa: BLE001 - a fault of the gateway: the clients must not wait for ever
            logger().error("live query failed", exc_info=error)
            for listener in tuple(self.listeners):
                listener.end(Ended("INTERNAL", "Internal error in the gateway."))
        finally:
            self._task = None

    async def _run(self) -> None:
        self._is_stale = False
        self._began = self._loop.time()
        number = self.number = self.number + 1
        watched = None if self.caller is None else WatchedCaller.of(self.caller)
        reads = ReadSet(self._queries.feed.index, self.affected, self._queries.feed.checks)
        self._queries.counts.runs += 1
        try:
            response = await self._queries.feed.losses.until(self._group.compute(watched, reads))
        except ChangesLost:
            # It may wait for a primary that stalls.
            reads.release()
            self._is_stale = True
            return
        except BaseException:
            reads.release()
            raise
        reads.finish()
        if self._reads is not None:
            self._reads.release()
        self._reads = reads
        if not self.listeners:
            reads.release()
            return
        if watched is not None:
            self._group.learn(watched.facts)
        if not self.listeners:
            return
        self._repeat_later(reads, response)
        self._deliver(number, response)

    def _repeat_later(self, reads: ReadSet, response: Response) -> None:
        """Sets a timer if no change says when the answer changes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if response.has_begun and not response.codes.isdisjoint(_RETRIED):
            self._timer = self._loop.call_later(self._retry_pause, self.affected)
            self._retry_pause = min(2 * self._retry_pause, _LONGEST_PAUSE)
            return
        self._retry_pause = _FIRST_PAUSE
        seconds = CLOCK_SECONDS if reads.reads_clock or not reads.is_whole else reads.seconds_left
        if seconds is not None:
            self._timer = self._loop.call_later(seconds, self.affected)

    def _deliver(self, number: int, response: Response) -> None:
        is_failure = response.has_begun and not response.codes.isdisjoint(_RETRIED)
        answer = EncodedResponse.of(response, is_state=True)
        if answer.json == self._answer:
            self._queries.counts.vain += 1
        self._answer = answer.json
        # A failure that will pass is for those who have no answer yet.
        listeners = [one for one in self.listeners if not (is_failure and one.has_answer)]
        self._queries.steps.each(lambda listener: listener.put(self, number, answer), listeners)


class LiveListener:
    """An iterator over the answers of a live query for one client, until it is closed.

    Raises an `Ended` when the gateway ends it.
    """

    __slots__ = (
        "_error",
        "_is_closed",
        "_known",
        "_queries",
        "_query",
        "_sent",
        "_since",
        "_waiting",
        "_wanted",
        "caller",
    )

    def __init__(self, queries: LiveQueries, caller: Caller | None, known: str | None = None) -> None:
        self.caller = caller
        # The digest of what the client has, as it says, until it gets something else.
        self._known = known or None
        self._queries = queries
        self._query: _LiveQuery | None = None
        # The number of the last run that is too old for the client.
        self._since = 0
        self._sent: bytes | None = None
        self._waiting: EncodedResponse | None = None
        self._wanted: asyncio.Future[None] | None = None
        self._error: Ended | None = None
        self._is_closed = False

    @property
    def is_free(self) -> bool:
        """Whether no answer waits for the client."""
        return self._waiting is None

    @property
    def has_answer(self) -> bool:
        """Whether the client has got an answer, or one waits for it."""
        return self._sent is not None or self._waiting is not None or self._known is not None

    def attach(self, query: _LiveQuery, number: int) -> None:
        """Follows this live query, from the run after that with this number."""
        self._query = query
        self._since = number

    def put(self, query: _LiveQuery, number: int, answer: EncodedResponse) -> None:
        """Lets the answer of a run wait for the client, unless it has it. An older one that waits is dropped.

        An answer of a live query that the listener has left is dropped, too: its number says nothing any more.
        """
        if query is not self._query or number <= self._since or self._is_closed or self._error is not None:
            return
        self._since = number
        if self._known is not None:
            if self._known == answer.digest:
                self._sent = answer.json
            self._known = None
        self._waiting = None if answer.json == self._sent else answer
        if self._waiting is not None:
            self._continue()

    def end(self, error: Ended) -> None:
        """Ends the iteration with this error."""
        if self._error is None and not self._is_closed:
            self._error = error
            self._continue()

    def _continue(self) -> None:
        if self._wanted is not None:
            complete(self._wanted)

    def __aiter__(self) -> LiveListener:
        return self

    async def __anext__(self) -> EncodedResponse:
        while self._waiting is None:
            if self._error is not None:
                raise self._error
            if self._is_closed:
                raise StopAsyncIteration
            self._wanted = asyncio.get_running_loop().create_future()
            await self._wanted
        answer, self._waiting = self._waiting, None
        self._sent = answer.json
        self._queries.counts.sent += 1
        if self._query is not None:
            self._query.wake()
        return answer

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._waiting = None
        self._continue()
        self._queries.counts.listeners -= 1
        if self._query is not None:
            self._query.remove(self)
        self._queries.feed.close()
