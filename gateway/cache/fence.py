"""Says whether a process has seen every change that was acknowledged before a request began.

A change stream that waits for changes does not say at once that there are none: the server holds a `getMore` until a
change matches, or for the whole time that it may wait. Other writes move the stream, but do not end the wait. So the
stream of the fence is read when a request asks, with the shortest wait, and not otherwise:

1. All requests of one iteration of the event loop share one look. Those that come while it is under way share the next
   one. So the command of a look is sent after its requests began.
2. If nothing was written of late, the look is a `ping`. Its answer has the time of the primary's newest write. If the
   stream has read up to that time, nothing is missing. A new stream names the time from which on it delivers changes,
   so at first it has read up to the time before.
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
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bson import Int64, Timestamp

from portico.gateway.logs import logger
from portico.gateway.mongo.direct import Reader
from portico.gateway.mongo.links import Primary
from portico.gateway.reads.feed import PATHS, change_of
from portico.gateway.reads.index import Index
from portico.gateway.reads.interests import ALL, Change
from portico.resolvers.changes import ChangeSource, pipeline, token_time
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
_PING: Document = {"ping": 1}


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
        self._reader = reader
        self._index = index
        self._counts = counts
        self._on_lost = on_lost
        self._primary: Primary | None = None
        self._cursor: int | None = None
        # The time up to which all changes have been read, and the time from which on the stream delivers changes.
        self._position = self._begin = Timestamp(0, 0)
        self._is_quiet = False
        # Whether a look has taken too long, and is not over.
        self._is_late = False
        self._must_look = False
        self._waiting: list[asyncio.Future[bool]] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looked_at = self._used_at = self._not_before = 0.0
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether there is a stream. If not, it is opened soon."""
        if self._cursor is not None:
            return True
        if not self._is_closed and asyncio.get_running_loop().time() >= self._not_before:
            self._look_soon()
        return False

    async def passed(self) -> bool:
        """Returns whether every change that was acknowledged before this call has been looked at."""
        if self._cursor is None or self._is_late or self._is_closed:
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._used_at = self._looked_at = asyncio.get_running_loop().time()
        self._look_soon()
        return await waiter

    async def aclose(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await end(self._task)
        _answer(self._waiting, passed=False)

    def _look_soon(self) -> None:
        self._must_look = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[bool]] = []
        try:
            while self._must_look:
                self._must_look = False
                waiting, self._waiting = self._waiting, []
                timer = loop.call_later(WAIT_SECONDS, self._expire, waiting)
                is_passed = False
                try:
                    is_passed = await self._look()
                except Exception as error:  # noqa: BLE001 - whatever fails, no answer may be kept
                    self._lose(error)
                finally:
                    timer.cancel()
                    self._is_late = False
                _answer(waiting, passed=is_passed)
        finally:
            self._task = None
            _answer(waiting, passed=False)

    def _expire(self, waiting: list[asyncio.Future[bool]]) -> None:
        self._is_late = True
        self._counts.late += 1
        _answer(waiting, passed=False)
        _answer(self._waiting, passed=False)

    async def _look(self) -> bool:
        self._counts.looks += 1
        if self._cursor is None:
            await self._open()
            return False
        if self._is_quiet:
            answer = await self._ask(_PING)
            if answer is None:
                return False
            if answer["operationTime"] <= self._position:
                return True
            self._is_quiet = False
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
        return not changes or (position >= answer["operationTime"] and len(changes) < _BATCH)

    def _read_to(self, cursor: Mapping[str, Any]) -> Timestamp:
        """Returns the time up to which the stream has delivered all changes, after a batch of it."""
        position = token_time(cursor["postBatchResumeToken"])
        if position <= self._begin and not cursor.get("nextBatch"):
            return Timestamp(self._begin.time, max(self._begin.inc - 1, 0))
        return position

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self._not_before = loop.time() + PAUSE_SECONDS
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
        self._begin = token_time(answer["cursor"]["postBatchResumeToken"])
        self._position = self._read_to(answer["cursor"])
        self._is_quiet = False
        self._used_at = self._looked_at = loop.time()
        self._timer = loop.call_later(IDLE_LOOK_SECONDS, self._tick)

    async def _ask(self, command: Document) -> Document | None:
        """Sends a command. None if no connection is open. Raises _Lost, Lost and a driver's error."""
        asked = await self._reader.ask(command)
        if asked is None:
            return None
        self._primary = self._primary or asked.primary
        if asked.primary != self._primary or asked.primary.election is None or not asked.answer["ok"]:
            raise _Lost(asked.answer.get("errmsg", "another primary"))
        return asked.answer

    def _tick(self) -> None:
        """Reads a stream that nobody asks for, so that its changes do not pile up, and closes it after a while."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._used_at >= IDLE_SECONDS:
            self._close()
            return
        if now - self._looked_at >= IDLE_LOOK_SECONDS:
            self._looked_at = now
            self._is_quiet = False
            self._look_soon()
        self._timer = loop.call_later(IDLE_LOOK_SECONDS, self._tick)

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


def _answer(waiting: list[asyncio.Future[bool]], *, passed: bool) -> None:
    for waiter in waiting:
        if not waiter.done():
            waiter.set_result(passed)
    waiting.clear()
