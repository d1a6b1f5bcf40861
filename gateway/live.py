"""What clients are told of as it happens: one change stream a process, however many listen.

The stream is opened for the first listener and closed after the last. Each listener has a queue with a bound; the
stream never waits for one. Whoever lets their queue run full has lost something, so their listening ends there.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from graphql import GraphQLError

from portico.resolvers.changes import ChangesLost, Event, Source, follow
from portico.resolvers.documents import Database

from .logs import logger

# What those who are told of an event have in common is kept of so many of the latest.
_SHARED = 100
_AGAIN_SECONDS = 0.1


class Ended(GraphQLError):
    """A subscription goes on no more. The code says what its client can do about it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, extensions={"code": code})


class TooSlow(Ended):
    """The client takes its events more slowly than they come."""

    def __init__(self) -> None:
        super().__init__("TOO_SLOW", "Events came faster than they were taken. Subscribe again, then read what is new.")


class EventsLost(Ended):
    """The database cannot tell any more what has happened meanwhile."""

    def __init__(self) -> None:
        super().__init__("EVENTS_LOST", "Some events are lost. Subscribe again, then read what is new.")


class Stopping(Ended):
    """The gateway stops. Another one, or the next one, goes on."""

    def __init__(self) -> None:
        super().__init__("UNAVAILABLE", "The gateway stops. Subscribe again.")


@dataclass
class Counts:
    """What `/metrics` shows of it. `streams` counts how often one was opened, `ended` is by code.

    `unread` are connections that were given up because their clients did not read.
    """

    sockets: int = 0
    unread: int = 0
    listeners: int = 0
    streams: int = 0
    interruptions: int = 0
    events: int = 0
    deliveries: int = 0
    ended: Counter[str] = field(default_factory=Counter)


class Hub:
    """Hands on what the database says has happened to those who listen to its topic."""

    def __init__(self, database: Database, sources: Sequence[Source], counts: Counts, *, most_waiting: int) -> None:
        self.counts = counts
        # Whoever holds a connection open waits for this, too.
        self.stopping = asyncio.Event()
        self._sources = sources
        self._most_waiting = most_waiting
        self._database = database
        self._topics: dict[Hashable, set[Listener]] = {}
        self._reader: _Reader | None = None

    async def listen(self, topic: Hashable) -> Listener:
        """What happens from now on: when this returns the stream is open, and nothing later is missed.

        Raises Stopping, and a driver's error where the stream cannot be opened.
        """
        if self.stopping.is_set():
            raise Stopping
        listener = Listener(self, topic, self._most_waiting)
        self._topics.setdefault(topic, set()).add(listener)
        self.counts.listeners += 1
        try:
            if self._reader is None:
                self._reader = _Reader(self, self._database, self._sources)
            # Who stops waiting must not end it for the others.
            await asyncio.shield(self._reader.opened)
        except BaseException:
            await listener.aclose()
            raise
        return listener

    def forget(self, listener: Listener) -> None:
        """It is told of nothing more; after the last one the stream is closed."""
        listeners = self._topics.get(listener.topic, set())
        if listener not in listeners:
            return
        listeners.remove(listener)
        self.counts.listeners -= 1
        if not listeners:
            del self._topics[listener.topic]
        if not self._topics and self._reader is not None:
            self._reader.close()
            self._reader = None

    def tell(self, event: Event) -> None:
        self.counts.events += 1
        for listener in tuple(self._topics.get(event.topic, ())):
            listener.put(event)

    def end_all(self, error: Callable[[], Ended]) -> None:
        """Ends every listening by an error of its own: one for all would gather the frames of all that raise it."""
        for listener in [listener for listeners in self._topics.values() for listener in listeners]:
            listener.end(error())

    def stop(self) -> None:
        """Ends every listening, at once and for good."""
        self.stopping.set()
        self.end_all(Stopping)

    async def stopped(self) -> None:
        """As `stop`, until nothing of it is under way."""
        reader = self._reader
        self.stop()
        if reader is not None:
            await reader.closed()


class Listener:
    """The events of one topic, one after the other, as an iterator that is closed when nobody wants more.

    Raises an `Ended` once what was there before it is taken; after TooSlow nothing of it is.
    """

    def __init__(self, hub: Hub, topic: Hashable, most_waiting: int) -> None:
        self.topic = topic
        self._hub = hub
        self._most_waiting = most_waiting
        self._waiting: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._error: Ended | None = None
        self._is_closed = False

    def put(self, event: Event) -> None:
        if len(self._waiting) >= self._most_waiting:
            self._waiting.clear()
            self.end(TooSlow())
            return
        self._waiting.append(event)
        self._arrived.set()

    def end(self, error: Ended) -> None:
        """Nothing more comes."""
        self._error = error
        self._hub.counts.ended[str((error.extensions or {})["code"])] += 1
        self._arrived.set()
        self._hub.forget(self)

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._is_closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        self._hub.counts.deliveries += 1
        return self._waiting.popleft()

    async def aclose(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        self._arrived.set()
        self._hub.forget(self)


class _Reader:
    """The task that reads the stream, from its opening to its end."""

    def __init__(self, hub: Hub, database: Database, sources: Sequence[Source]) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Nobody may be waiting for it any more.
        self.opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._hub = hub
        self._latest: deque[Event] = deque()
        self._is_closing = False
        self._task = asyncio.create_task(self._run(database, sources))

    async def _run(self, database: Database, sources: Sequence[Source]) -> None:
        try:
            async with aclosing(follow(database, sources, on_interruption=self._interrupted)) as batches:
                async for events in batches:
                    if self._is_closing:
                        return
                    if not self.opened.done():
                        self._hub.counts.streams += 1
                        self.opened.set_result(None)
                    for event in events:
                        self._tell(event)
        except ChangesLost:
            logger().warning("change stream lost events")
            self._hub.end_all(EventsLost)
        except Exception as error:  # noqa: BLE001 - whatever it was, it belongs to those who wait, and into the log
            if not self.opened.done():
                self.opened.set_exception(error)
                return
            logger().error("change stream failed", exc_info=error)
            self._hub.end_all(EventsLost)

    def _tell(self, event: Event) -> None:
        self._latest.append(event)
        if len(self._latest) > _SHARED:
            self._latest.popleft().shared = None
        self._hub.tell(event)

    def _interrupted(self, error: Exception) -> None:
        # The driver may turn a cancellation into a failed command of its own, or try the command again.
        if self._is_closing:
            raise asyncio.CancelledError
        self._hub.counts.interruptions += 1
        logger().warning("change stream interrupted", error=type(error).__name__)

    def close(self) -> None:
        self._is_closing = True
        if not self.opened.done():
            self.opened.set_exception(Stopping())
        self._task.cancel()

    async def closed(self) -> None:
        """Until it has ended. The driver may swallow a cancellation, so one may not be enough."""
        while not self._task.done():
            self.close()
            await asyncio.wait({self._task}, timeout=_AGAIN_SECONDS)
