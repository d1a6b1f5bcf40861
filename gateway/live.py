"""Publishes changes in the database to subscriptions. Each process has one change stream for all its listeners.

The stream opens for the first listener and closes after the last. Each listener has a bounded queue, and the stream
never waits for a listener. If a queue is full, the listener has lost events, so the gateway ends its subscription.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from portico.resolvers.changes import ChangesLost, ChangeSource, Event, follow
from portico.resolvers.documents import Database
from portico.resolvers.missed_changes import Replays

from .ended import Ended, EventsLost, Stopping, TooSlow
from .logs import logger
from .loop_steps import LoopSteps, complete

# How many of the latest events keep the reads that their listeners share.
_SHARED = 100
_AGAIN_SECONDS = 0.1
# A source that fails is logged once in this time.
_LOG_SECONDS = 60.0


@dataclass
class Counts:
    """The counts that `/metrics` shows. `streams` counts opened change streams; `ended` counts by error code.

    `unread` counts connections that the gateway dropped because their clients did not read. `runs` counts how often a
    selection was run for an event; equal subscriptions share a run. `retries` counts the runs that were repeated,
    because the database was unavailable or did not answer in time. `failures` counts the changes of which a source has
    failed to make events, by collection. `resumed` counts subscriptions that continued after their last event, and
    `replays` the change streams that were opened for them.
    """

    sockets: int = 0
    unread: int = 0
    listeners: int = 0
    streams: int = 0
    interruptions: int = 0
    events: int = 0
    deliveries: int = 0
    runs: int = 0
    retries: int = 0
    resumed: int = 0
    replays: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)


class Hub:
    """Publishes each event of the change stream to the listeners of its topic."""

    def __init__(
        self,
        database: Database,
        sources: Sequence[ChangeSource],
        counts: Counts,
        *,
        max_waiting: int,
        resume_seconds: float = 600.0,
    ) -> None:
        """`max_waiting` events wait for a slow listener. Missed events are read again for `resume_seconds`."""
        self.counts = counts
        self.max_waiting = max_waiting
        self.replays = Replays(
            database, sources, seconds=resume_seconds, on_open=self._opened_replay, on_failure=self.failed
        )
        # Open WebSockets wait for this event, too.
        self.stopping = asyncio.Event()
        self.steps = LoopSteps()
        self._sources = sources
        # When a failure of a source was last logged, by the ids of sources.
        self._logged: dict[int, float] = {}
        self._database = database
        self._topics: dict[Hashable, set[Listener]] = {}
        self._reader: _Reader | None = None

    async def listen(self, *topics: Hashable, is_state: bool = False, catches_up: bool = False) -> Listener:
        """Returns the events of these topics from now on. When this returns, no later event is missed.

        With `is_state`, the events say that there is a new state: only the latest one of each topic waits for a slow
        listener. With `catches_up`, the listener reads earlier events first, until `has_caught_up`.

        Raises:   Stopping; a driver's error if the stream cannot be opened.
        """
        if self.stopping.is_set():
            raise Stopping
        listener = Listener(self, topics, self.max_waiting, is_state=is_state, catches_up=catches_up)
        for topic in topics:
            self._topics.setdefault(topic, set()).add(listener)
        self.counts.listeners += 1
        try:
            if self._reader is None:
                self._reader = _Reader(self, self._database, self._sources)
            # If one waiter is cancelled, the others still wait.
            await asyncio.shield(self._reader.opened)
        except BaseException:
            await listener.aclose()
            raise
        return listener

    def remove(self, listener: Listener) -> None:
        """Publishes no more events to the listener. Closes the stream after the last listener."""
        if not any(listener in self._topics.get(topic, ()) for topic in listener.topics):
            return
        for topic in listener.topics:
            self._topics[topic].remove(listener)
            if not self._topics[topic]:
                del self._topics[topic]
        self.counts.listeners -= 1
        if not self._topics and self._reader is not None:
            self._reader.close()
            self._reader = None

    def publish(self, event: Event) -> None:
        self.counts.events += 1
        listeners = self._topics.get(event.topic)
        if listeners:
            self.steps.each(lambda listener: listener.put(event), tuple(listeners))

    def _opened_replay(self) -> None:
        self.counts.replays += 1

    def failed(self, source: ChangeSource, error: Exception) -> None:
        """Counts a failure of a source, and logs one in a minute."""
        collections = ", ".join(sorted(source.collections))
        self.counts.failures[collections] += 1
        now = asyncio.get_running_loop().time()
        if now - self._logged.get(id(source), -_LOG_SECONDS) >= _LOG_SECONDS:
            self._logged[id(source)] = now
            logger().error("change source failed", collections=collections, exc_info=error)

    def end_all(self, error: Callable[[], Ended]) -> None:
        """Ends every listener with a new error: a shared one would collect the frames of every task that raises it."""
        # They get all earlier events first.
        self.steps.finish()
        for listener in {listener for listeners in self._topics.values() for listener in listeners}:
            listener.end(error())

    def stop(self) -> None:
        """Ends every listener, and refuses new ones."""
        self.stopping.set()
        self.end_all(Stopping)

    async def aclose(self) -> None:
        """Stops, and waits until the stream is closed."""
        reader = self._reader
        self.stop()
        if reader is not None:
            await reader.aclose()
        await self.replays.aclose()


class Listener:
    """An iterator over the events of its topics. Close it when you need no more events.

    Many listeners get the same event. Each takes it in a step of the event loop. Raises an `Ended` after the events
    that arrived before it. TooSlow discards those events and is raised at once.
    """

    # An event reaches thousands of listeners, whose attributes are in no cache any more. Slots keep them together.
    __slots__ = (
        "_catches_up",
        "_error",
        "_has_lost",
        "_hub",
        "_is_closed",
        "_is_state",
        "_loop",
        "_max_waiting",
        "_waiting",
        "_wanted",
        "topics",
    )

    def __init__(
        self,
        hub: Hub,
        topics: Sequence[Hashable],
        max_waiting: int,
        *,
        is_state: bool = False,
        catches_up: bool = False,
    ) -> None:
        self.topics = tuple(dict.fromkeys(topics))
        # Kept, because asking for the running loop takes a system call in CPython 3.11.
        self._loop = asyncio.get_running_loop()
        self._hub = hub
        self._max_waiting = max_waiting
        self._is_state = is_state
        self._catches_up = catches_up
        # Whether too many events came while it caught up. Those that wait are not all.
        self._has_lost = False
        self._waiting: deque[Event] = deque()
        # Completed when the iteration, which waits for it, may continue.
        self._wanted: asyncio.Future[None] | None = None
        self._error: Ended | None = None
        self._is_closed = False

    def put(self, event: Event) -> None:
        """Adds an event to those that wait. Its iteration continues at once."""
        if self._is_closed or self._error is not None or self._has_lost:
            return
        if self._is_state:
            for place, waiting in enumerate(self._waiting):
                if waiting.topic == event.topic:
                    self._waiting[place] = event
                    return
        if len(self._waiting) >= self._max_waiting:
            self._waiting.clear()
            if self._catches_up:
                self._has_lost = True
            else:
                self.end(TooSlow())
            return
        self._waiting.append(event)
        if self._wanted is not None:
            complete(self._wanted)

    def has_caught_up(self) -> bool:
        """Returns whether all events since `listen` wait or will come. From then on, it must not be too slow.

        There is room for as many events as wait. Otherwise a burst would end a listener that had no chance to take any.
        """
        self._catches_up = False
        return not self._has_lost and len(self._waiting) <= self._max_waiting / 2

    def end(self, error: Ended) -> None:
        """Ends the iteration with this error, after the events that wait."""
        self._error = error
        self._hub.counts.ended[str((error.extensions or {})["code"])] += 1
        self._continue()
        self._hub.remove(self)

    def _continue(self) -> None:
        """Lets the iteration continue among the steps of the event loop."""
        if self._wanted is not None:
            self._hub.steps.each(complete, (self._wanted,))

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> Event:
        self._wanted = self._loop.create_future()
        if self._waiting or self._error is not None or self._is_closed:
            self._continue()
        await self._wanted
        if self._waiting:
            self._hub.counts.deliveries += 1
            return self._waiting.popleft()
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        self._continue()
        self._hub.remove(self)


class _Reader:
    """The task that reads the stream, from its opening to its end."""

    def __init__(self, hub: Hub, database: Database, sources: Sequence[ChangeSource]) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Retrieves an error that nobody waits for, so that asyncio does not log it.
        self.opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._hub = hub
        self._latest: deque[Event] = deque()
        self._is_closing = False
        self._task = asyncio.create_task(self._run(database, sources))

    async def _run(self, database: Database, sources: Sequence[ChangeSource]) -> None:
        try:
            followed = follow(database, sources, on_interruption=self._interrupted, on_failure=self._hub.failed)
            async with aclosing(followed) as batches:
                async for events in batches:
                    if self._is_closing:
                        return
                    if not self.opened.done():
                        self._hub.counts.streams += 1
                        self.opened.set_result(None)
                    for event in events:
                        self._publish(event)
        except ChangesLost:
            logger().warning("change stream lost events")
            self._hub.end_all(EventsLost)
        except Exception as error:  # noqa: BLE001 - any error goes to the listeners and to the log
            if not self.opened.done():
                self.opened.set_exception(error)
                return
            logger().error("change stream failed", exc_info=error)
            self._hub.end_all(EventsLost)

    def _publish(self, event: Event) -> None:
        self._latest.append(event)
        if len(self._latest) > _SHARED:
            self._latest.popleft().shared = None
        self._hub.publish(event)

    def _interrupted(self, error: Exception) -> None:
        # The driver may report a cancellation as a failed command, or retry the command.
        if self._is_closing:
            raise asyncio.CancelledError
        self._hub.counts.interruptions += 1
        logger().warning("change stream interrupted", error=type(error).__name__)

    def close(self) -> None:
        self._is_closing = True
        if not self.opened.done():
            self.opened.set_exception(Stopping())
        self._task.cancel()

    async def aclose(self) -> None:
        """Closes, and waits until the task has ended. Cancels it repeatedly: the driver may swallow a cancellation."""
        while not self._task.done():
            self.close()
            await asyncio.wait({self._task}, timeout=_AGAIN_SECONDS)
