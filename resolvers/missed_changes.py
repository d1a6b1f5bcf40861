"""Reads events again that clients have missed.

Every change has an operation time, and the oplog keeps changes in the order of these times. A client that names the
last event it has got can so get the next ones from any process, as far back as the oplog goes.

Clients come back together, e.g. after a restart. One change stream at a time reads for all who wait, from the earliest
place to the newest operation. Clients that come meanwhile share the next one. If many of them wait, more are probably
on their way. The next stream then starts a little later, so that fewer streams serve all clients. While no stream is
open, a client does not wait for others.

A client gets a page of events at a time, so nothing piles up for one that is slow. Clients that were away for longer
than a minute have a change stream of their own, so that the others, who have missed little, do not wait for them.

Source: MongoDB manual, "Change Streams", `startAtOperationTime`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from bson import Timestamp
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.errors import PyMongoError

from .change_times import is_of_another_history, newest_time, token_time
from .changes import (
    ChangesLost,
    ChangeSource,
    Event,
    OnFailure,
    Position,
    accepted,
    events_of,
    is_lost,
    pipeline,
    watched,
)
from .documents import Database, Document
from .writes.combining import Combiner, Waiting
from .writes.retries import attempts

# How long the server may wait for a change. All changes that are asked for have happened.
_AWAIT_MS = 10
# With the pauses, these take about half a minute: longer than an election.
_ATTEMPTS = 30
_LONGEST_PAUSE = 2.0
# The seconds after which a client was away for long, and the changes that the server returns at a time.
_LONG_SECONDS = 60
_BATCH = 500
# From this number of waiting clients on, the next change stream starts so many seconds later.
_MANY = 20
_GATHER_SECONDS = 0.3
# No change has this digest in practice, so all changes of the time come before it.
_NO_CHANGE = "0" * 16
_POSITION = re.compile(r"([0-9a-f]{8})([0-9a-f]{8})([0-9a-f]{16})([0-9a-f]{1,8})", re.ASCII)


def position_after(time: Timestamp) -> Position:
    """Returns the place after all events of this operation time."""
    return Position(time, _NO_CHANGE, 0)


def text_of(position: Position) -> str:
    """Returns a place as text, in hexadecimal digits."""
    return f"{position.time.time:08x}{position.time.inc:08x}{position.change}{position.index:x}"


def position_of(text: str) -> Position | None:
    """Returns the place in a text; None if it is none."""
    found = _POSITION.fullmatch(text)
    return (
        None
        if found is None
        else Position(Timestamp(int(found[1], 16), int(found[2], 16)), found[3], int(found[4], 16))
    )


@dataclass(frozen=True)
class Page:
    """Missed events. `until` is the operation time up to which these are all; None if there are more."""

    events: Sequence[Event]
    until: Timestamp | None

    def end(self, after: Position) -> Position:
        """Returns the place up to which a page of the events after a place has been read."""
        if self.until is not None:
            return position_after(self.until)
        return self.events[-1].at or after


@dataclass(eq=False, kw_only=True)
class _Missed(Waiting[Page]):
    """A client that waits for the events of topics after a place."""

    topics: frozenset[Hashable]
    after: Position
    most: int
    events: list[Event] = field(default_factory=list)
    # Whether the event at `after` has been read again.
    has_passed: bool = False
    was_long_away: bool = False

    @property
    def is_open(self) -> bool:
        return not self.done.done()

    def restart(self) -> None:
        self.events, self.has_passed = [], False

    def take(self, event: Event) -> None:
        """Takes an event of the topics, if it comes after the place. Answers if the page is full."""
        # The stream begins at the earliest place of all clients.
        if event.at is None or not self.is_open or event.at.time < self.after.time:
            return
        if event.at.time == self.after.time and not self.has_passed:
            self.has_passed = event.at == self.after
            return
        self.events.append(event)
        if len(self.events) == self.most:
            self.answer(Page(self.events, None))


@dataclass(eq=False, kw_only=True)
class _Asking(Waiting[Timestamp]):
    """A call that waits for the newest operation time."""


class Replays:
    """Reads missed events for all clients of the process."""

    def __init__(
        self,
        db: Database,
        sources: Sequence[ChangeSource],
        *,
        seconds: float,
        on_open: Callable[[], None],
        on_failure: OnFailure,
    ) -> None:
        """`seconds` is how far back events are read again. `on_open` is called for each change stream."""
        self._db = db
        self._sources = sources
        self._seconds = seconds
        self._on_open = on_open
        self._on_failure = on_failure
        self._missed: Combiner[bool, _Missed] = Combiner(self._serve, linger=self._gather)
        self._asking: Combiner[None, _Asking] = Combiner(self._ask)

    async def now(self) -> Position:
        """Returns the place after all events so far. Those who ask in one iteration of the loop share a command."""
        return position_after(await self._newest())

    async def read(self, topics: frozenset[Hashable], after: Position, most: int) -> Page:
        """Returns the first events of these topics after a place, at most this many.

        Raises:   ChangesLost if the place is too far back, or ahead of all changes; a driver's error, after many
                  attempts.
        """
        is_urgent = self._missed.is_idle(key=False)
        missed = _Missed(db=self._db, topics=topics, after=after, most=most, is_urgent=is_urgent)
        self._missed.add(missed.was_long_away, missed)
        return await missed.done

    async def aclose(self) -> None:
        """Waits until nobody waits."""
        await self._missed.close()
        await self._asking.close()

    def _gather(self, were_long_away: bool) -> float:
        """Returns how many seconds later the next change stream starts."""
        return _GATHER_SECONDS if len(self._missed.waiting(were_long_away)) >= _MANY else 0

    async def _newest(self) -> Timestamp:
        asking = _Asking(db=self._db)
        self._asking.add(None, asking)
        return await asking.done

    async def _ask(self, _key: None, asking: list[_Asking]) -> None:
        newest = await newest_time(self._db)
        for one in asking:
            one.answer(newest)

    async def _serve(self, were_long_away: bool, batch: list[_Missed]) -> None:
        failure: PyMongoError | None = None
        async for _ in attempts(_ATTEMPTS, longest=_LONGEST_PAUSE):
            waiting = [missed for missed in batch if missed.is_open and missed.was_long_away == were_long_away]
            try:
                await self._read(waiting)
            except PyMongoError as error:
                failure = error
                for missed in waiting:
                    if missed.was_long_away == were_long_away:
                        missed.restart()
            else:
                return
        if failure is not None:
            for missed in waiting:
                if missed.was_long_away == were_long_away:
                    missed.fail(failure)

    async def _read(self, batch: Sequence[_Missed]) -> None:
        until = await self._newest()
        waiting: list[_Missed] = []
        for missed in batch:
            away = until.time - missed.after.time.time
            if away > self._seconds or is_of_another_history(missed.after.time.time, until):
                missed.fail(ChangesLost())
            elif away > _LONG_SECONDS and not missed.was_long_away:
                missed.was_long_away = True
                self._missed.add(True, missed)
            else:
                waiting.append(missed)
        if not waiting:
            return
        try:
            await self._hand_out(waiting, until)
        except ChangesLost:
            for missed in waiting:
                missed.fail(ChangesLost())
        for missed in waiting:
            missed.answer(Page(missed.events, until))

    async def _hand_out(self, waiting: Sequence[_Missed], until: Timestamp) -> None:
        """Gives each what it has missed, up to this time. Ends when all have a page, or are gone."""
        by_topic: dict[Hashable, list[_Missed]] = {}
        for missed in waiting:
            for topic in missed.topics:
                by_topic.setdefault(topic, []).append(missed)
        self._on_open()
        since = min(missed.after.time for missed in waiting)
        async with aclosing(
            missed_events(self._db, self._sources, since, until, on_failure=self._on_failure)
        ) as events:
            left = list(waiting)
            async for event in events:
                for missed in by_topic.get(event.topic, ()):
                    missed.take(event)
                while left and not left[-1].is_open:
                    left.pop()
                if not left:
                    return


async def missed_events(
    db: Database, sources: Sequence[ChangeSource], since: Timestamp, until: Timestamp, *, on_failure: OnFailure
) -> AsyncGenerator[Event, None]:
    """Yields the events of the changes between two operation times, both included, in the order of the database.

    Raises:   ChangesLost if the oplog does not reach back so far; a driver's error.
    """

    async def opened() -> AsyncChangeStream[Document]:
        return await watched(db).watch(
            pipeline(sources), start_at_operation_time=since, max_await_time_ms=_AWAIT_MS, batch_size=_BATCH
        )

    try:
        try:
            found = await opened()
        except PyMongoError as error:
            sources = await accepted(db, sources, error, on_failure)
            found = await opened()
        async with found as stream:
            is_whole = False
            while not is_whole:
                change = await stream.try_next()
                if change is not None:
                    is_whole = change["clusterTime"] > until
                    for event in () if is_whole else events_of(sources, change, on_failure):
                        yield event
                elif token_time(stream.resume_token) >= until:
                    is_whole = True
                elif not stream.alive:
                    # The database was dropped.
                    raise ChangesLost
    except PyMongoError as error:
        if is_lost(error):
            raise ChangesLost from error
        raise
