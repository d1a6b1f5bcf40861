"""Says whether a process has seen every change that was acknowledged before a request began.

A change stream that waits for changes does not say at once that there are none: the server holds a `getMore` until a
change matches, or for the whole time that it may wait. Other writes move the stream, but do not end the wait. So the
stream of the fence is read when a request asks, with the shortest wait, and not otherwise:

1. All requests of one iteration of the event loop share one look. Those that come while it is under way share the next
   one. So the command of a look is sent after its requests began.
2. If nothing was written of late, and a connection is idle, the look is a `ping`. Its answer has the time of the
   primary's newest write. If the stream has read up to that time, nothing is missing. A new stream names the time from
   which on it delivers changes, so at first it has read up to the time before.
3. Otherwise the look is a `getMore`. The server reads its oplog up to what a majority has at that moment. This includes
   every write that was acknowledged before, because the gateway's writes wait for a majority. If it returns no change,
   it has read so far. If it returns some, it may have stopped at the size of a batch. So its position must have
   reached the time of its answer; if not, the look goes on.
4. A change affects kept answers before the look ends.

Both commands use direct reads, so they go to the primary of one election. If the primary is another one, the connection
closes or a command fails, the stream is lost: all kept answers go, and a new stream begins. A run that began before may
not be kept (`epoch`). If a look takes too long, its requests run their queries.

A mongos waits until each shard has written something, so there is no fence on a sharded cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson import Int64

from portico.gateway.logs import logger
from portico.gateway.mongo.direct import Reader
from portico.gateway.mongo.links import Primary
from portico.gateway.mongo.pings import Pinged, ordered
from portico.gateway.reads.feed import PATHS, change_of
from portico.gateway.reads.index import Index
from portico.gateway.reads.interests import ALL, Change
from portico.resolvers.change_times import token_time
from portico.resolvers.changes import ChangeSource, pipeline
from portico.resolvers.documents import Document
from portico.resolvers.tasks import end

# How long a request waits for a look.
WAIT_SECONDS = 0.02
# A stream that nobody asks for is read so often, and closed after so long.
IDLE_LOOK_SECONDS, IDLE_SECONDS = 1.0, 60.0
# After a failure, the next stream is opened not before.
PAUSE_SECONDS = 1.0
_BATCH = 200
_MOST_BATCHES = 5
_AWAIT_MS = 1
_OPEN_MS = 5_000
_ANOTHER = "another primary"
# The precision of the timers of the event loop.
_LEAST_SECONDS = 0.001


Then = Callable[[bool], object]


class _Lost(Exception):
    """The stream cannot go on."""


@dataclass
class FenceCounts:
    """What `/metrics` shows. `looks` counts commands that asked for changes or for the newest write."""

    looks: int = 0
    late: int = 0
    losses: int = 0


class Fence:
    """The change stream of kept answers. Changes go to the `index`; `on_lost` is called when some may be missing."""

    def __init__(
        self,
        reader: Reader,
        collections: Collection[str],
        index: Index,
        counts: FenceCounts,
        on_lost: Callable[[], None],
    ) -> None:
        self.collections = frozenset(collections)
        # The number of the stream. What a run has read is known only if this did not change since its beginning.
        self.epoch = 0
        self._loop = asyncio.get_running_loop()
        self._reader = reader
        self._index = index
        self._counts = counts
        self._on_lost = on_lost
        self._primary: Primary | None = None
        self._cursor: int | None = None
        # The time up to which all changes have been read, and the time from which on the stream delivers changes.
        self._position = self._begin = 0
        self._is_quiet = False
        # Whether a look has taken too long, and is not over.
        self._is_late = False
        self._must_look = False
        self._is_looking = False
        self._began_at = 0.0
        # Whom the look under way is for, and whom the next one is for.
        self._asked: list[Then] = []
        self._waiting: list[Then] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._looked_at = self._used_at = self._not_before = 0.0
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether there is a stream. If not, it is opened soon."""
        if self._cursor is not None:
            return True
        if not self._is_closed and self._loop.time() >= self._not_before:
            self._look_soon()
        return False

    async def passed(self) -> bool:
        """Returns whether every change that was acknowledged before this call has been looked at."""
        waiter: asyncio.Future[bool] = self._loop.create_future()

        def then(passed: bool) -> None:
            # The request may have been cancelled.
            if not waiter.done():
                waiter.set_result(passed)

        return self.ask(then) and await waiter

    def ask(self, then: Then) -> bool:
        """Calls `then` soon with the result of `passed`. Returns False, and does not call it, if the result is known.

        It is then False, because there is no stream, or a look takes too long.
        """
        if self._cursor is None or self._is_late or self._is_closed:
            return False
        self._waiting.append(then)
        self._used_at = self._looked_at = self._loop.time()
        self._look_soon()
        return True

    async def aclose(self) -> None:
        self._is_closed = True
        for timer in (self._timer, self._watch):
            if timer is not None:
                timer.cancel()
        if self._task is not None:
            await end(self._task)
        self._answer_all(passed=False)

    def _look_soon(self) -> None:
        self._must_look = True
        if not self._is_looking:
            self._is_looking = True
            # All requests of this iteration of the event loop share the look.
            self._loop.call_soon(self._begin_look)

    def _begin_look(self) -> None:
        if self._is_closed:
            return
        self._must_look = False
        self._asked, self._waiting = self._waiting, []
        self._began_at = self._loop.time()
        if self._watch is None:
            self._watch = self._loop.call_later(WAIT_SECONDS, self._require_in_time)
        try:
            is_asked = self._cursor is not None and self._is_quiet and self._reader.ping(self._pinged)
        except Exception as error:  # noqa: BLE001 - whatever fails, no answer may be kept, and the next look begins
            self._lose(error)
            self._end_look(passed=False)
            return
        if is_asked:
            self._counts.looks += 1
        else:
            self._look_further()

    def _pinged(self, result: Pinged | Exception) -> None:
        if self._is_closed:
            return
        if isinstance(result, Exception) or result.primary != self._primary:
            try:
                self._lose(result if isinstance(result, Exception) else _Lost(_ANOTHER))
            finally:
                self._end_look(passed=False)
        elif result.newest <= self._position:
            self._end_look(passed=True)
        else:
            self._is_quiet = False
            self._look_further()

    def _look_further(self) -> None:
        self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        is_passed = False
        try:
            is_passed = await self._look()
        except Exception as error:  # noqa: BLE001 - whatever fails, no answer may be kept
            self._lose(error)
        finally:
            self._task = None
            self._end_look(passed=is_passed)

    def _end_look(self, *, passed: bool) -> None:
        self._is_late = self._is_looking = False
        asked, self._asked = self._asked, []
        if self._must_look and not self._is_closed:
            self._look_soon()
        _answer(asked, passed=passed)

    def _require_in_time(self) -> None:
        """Ends the waiting for a look that takes too long. Runs every WAIT_SECONDS at most while there are looks."""
        self._watch = None
        if not self._is_looking or self._is_late or self._is_closed:
            return
        left = self._began_at + WAIT_SECONDS - self._loop.time()
        if left > 0:
            self._watch = self._loop.call_later(max(left, _LEAST_SECONDS), self._require_in_time)
            return
        self._is_late = True
        self._counts.late += 1
        self._answer_all(passed=False)

    def _answer_all(self, *, passed: bool) -> None:
        waiting, self._asked, self._waiting = [*self._asked, *self._waiting], [], []
        _answer(waiting, passed=passed)

    async def _look(self) -> bool:
        """Reads the stream. Returns whether it has passed every change that was acknowledged before."""
        self._counts.looks += 1
        if self._cursor is None:
            await self._open()
            return False
        for _ in range(_MOST_BATCHES):
            more: Document = {"getMore": Int64(self._cursor), "collection": "$cmd.aggregate"}
            answer = await self._ask({**more, "batchSize": _BATCH, "maxTimeMS": _AWAIT_MS})
            if answer is None:
                return False
            if self._take(answer):
                return True
        self._must_look = True
        return False

    def _take(self, answer: Mapping[str, Any]) -> bool:
        """Looks at the changes of a batch. Returns whether there are no others that were acknowledged before."""
        cursor = answer["cursor"]
        changes = cursor["nextBatch"]
        for change in changes:
            self._index.dispatch(change_of(change))
            if "to" in change:
                self._index.dispatch(Change(change["to"]["coll"], ALL))
        if not cursor["id"]:
            # The database was dropped.
            raise _Lost
        position = self._read_to(cursor)
        self._is_quiet = not changes and position == self._position
        self._position = position
        # The changes of one transaction have one time.
        return not changes or (position >= ordered(answer["operationTime"]) and len(changes) < _BATCH)

    def _read_to(self, cursor: Mapping[str, Any]) -> int:
        """Returns the time up to which the stream has delivered all changes, after a batch of it."""
        position = ordered(token_time(cursor["postBatchResumeToken"]))
        if position <= self._begin and not cursor.get("nextBatch"):
            return max(self._begin - 1, 0)
        return position

    async def _open(self) -> None:
        self._not_before = self._loop.time() + PAUSE_SECONDS
        stages = [{"$changeStream": {}}, *pipeline([ChangeSource(self.collections, {}, (*PATHS, "to"), lambda _: ())])]
        # A collection that is renamed to one of these changes it.
        stages[1] = {"$match": {"$or": [stages[1]["$match"], {"to.coll": {"$in": sorted(self.collections)}}]}}
        command: Document = {"aggregate": 1, "pipeline": stages, "cursor": {"batchSize": 0}, "maxTimeMS": _OPEN_MS}
        self._primary = None
        answer = await self._ask({**command, "readConcern": {"level": "majority"}})
        if answer is None:
            # The connection is being opened.
            self._not_before = 0.0
            return
        self.epoch += 1
        self._cursor = answer["cursor"]["id"]
        self._begin = ordered(token_time(answer["cursor"]["postBatchResumeToken"]))
        self._position = self._read_to(answer["cursor"])
        self._is_quiet = False
        self._used_at = self._looked_at = self._loop.time()
        self._timer = self._loop.call_later(IDLE_LOOK_SECONDS, self._tick)

    async def _ask(self, command: Document) -> Document | None:
        """Sends a command. None if no connection is open. Raises _Lost, Lost and a driver's error."""
        asked = await self._reader.ask(command)
        if asked is None:
            return None
        self._primary = self._primary or asked.primary
        if asked.primary != self._primary or asked.primary.election is None or not asked.answer["ok"]:
            raise _Lost(asked.answer.get("errmsg", _ANOTHER))
        return asked.answer

    def _tick(self) -> None:
        """Reads a stream that nobody asks for, so that its changes do not pile up, and closes it after a while."""
        now = self._loop.time()
        if now - self._used_at >= IDLE_SECONDS:
            self._close()
            return
        if now - self._looked_at >= IDLE_LOOK_SECONDS:
            self._looked_at = now
            self._is_quiet = False
            self._look_soon()
        self._timer = self._loop.call_later(IDLE_LOOK_SECONDS, self._tick)

    def _lose(self, error: Exception) -> None:
        self._counts.losses += 1
        if self._cursor is not None:
            logger().info("change stream of kept answers lost", error=f"{type(error).__name__}: {error}"[:200])
        self._close()

    def _close(self) -> None:
        # The server ends a cursor that nobody uses.
        self._cursor = None
        self.epoch += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_lost()


def _answer(waiting: Sequence[Then], *, passed: bool) -> None:
    for then in waiting:
        try:
            then(passed)
        except Exception as error:  # noqa: BLE001 - the others must be answered, too
            logger().error("fault", exc_info=error)
