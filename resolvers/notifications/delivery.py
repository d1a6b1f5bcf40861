"""Follows the changes of all sources, and stores the notifications: each once, whatever crashes.

The writes that cause notifications do nothing for them. A job follows the change stream of the database:

1. It reads the next changes after the stored position. The stream returns each majority-committed change once and in
   order, and resumes after any token that the server still has.
2. It derives the notifications from what is stored, and inserts them. The `_id` follows from the member, the reason and
   the key of the notice, so a notification that exists already is refused.
3. It moves the position, guarded by the position that it read.

After a crash between any two steps, or if a worker has lost its lease and another one has taken over, changes are read
again from the last position. Their notifications exist or are inserted: nothing is lost, and nothing is there twice. A
worker whose position another one has moved begins again with the stored position. A notification that was deleted
because of its age does not come back: a notice that is older than notifications are kept is dropped.

If the server no longer has the changes after the position, because all gateways were stopped for too long or a backup
was restored, the job opens a new stream and stores its position together with `missed`: the time of the lost position.
Then it reads the backlogs of all sources, a bounded number of documents at a time. What was written before the new
stream was opened is in the backlogs, and what was written later is in the stream. What is in both is stored once.

Source: MongoDB Manual, "Change Streams", on resume tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.errors import PyMongoError

from portico.resolvers.attachments import Hosts
from portico.resolvers.change_times import is_ahead
from portico.resolvers.changes import AWAIT_MS, ChangeSource, accepted, is_lost, open_stream
from portico.resolvers.documents import Database, Document
from portico.resolvers.notifying import NotificationSource
from portico.resolvers.tasks import end
from portico.resolvers.writes.timer import Timer

from . import backlogs, position
from .position import PositionDocument
from .storing import Storing

_log = logging.getLogger("portico.notifications")

# The changes of one batch, and the batches of one run.
_BATCH, _BATCHES = 500, 10
# How long it rests after the first change, and how long a command takes if there are changes, both in seconds.
_REST, _BURST = 0.05, 0.005
# Without changes, the position is stored this often, so that the server still has what follows it.
_SAVED_EVERY = timedelta(minutes=1)
# How much earlier than the lost position the backlogs are read: the clocks of writers may differ.
_MARGIN = timedelta(minutes=5)
# The type of a timestamp, with which every resume token begins. The seconds of its operation follow, in four bytes.
# Source: src/mongo/db/storage/key_string.cpp and src/mongo/db/pipeline/resume_token.cpp of MongoDB.
_TIMESTAMP = "82"
# The server refuses to wait for no time.
_AT_ONCE_MS = 1


def _log_refused(source: ChangeSource, error: Exception) -> None:
    names = ", ".join(sorted(source.collections))
    _log.error("Nobody is notified of changes in %s: %s", names, error)


def _read_until(at: PositionDocument) -> datetime:
    """Returns until when all changes have been read.

    The position can have been stored long after that: a job that has been stopped for hours reads what has happened
    meanwhile batch by batch.
    """
    token = at["token"]
    if not token.startswith(_TIMESTAMP):
        return at["at"]
    return min(at["at"], datetime.fromtimestamp(int(token[2:10], 16), UTC).replace(tzinfo=None))


class Delivery:
    """The job of one process. It keeps its stream open between runs."""

    def __init__(self, sources: Sequence[NotificationSource], hosts: Hosts, kept: timedelta) -> None:
        self._sources = sources
        self._hosts = hosts
        self._kept = kept
        self._running = asyncio.Lock()
        self._stream: AsyncChangeStream[Document] | None = None
        # The read of a change that a run has not waited for.
        self._reading: asyncio.Task[Document | None] | None = None
        # Closes the stream.
        self._closing = contextlib.AsyncExitStack()
        # What the stream was opened for, the token after what it has returned, and the token of the stored position.
        self._opened: tuple[Database, int] | None = None
        self._token = self._stored = ""

    async def run(self, db: Database, *, now: datetime, patience: float) -> int:
        """Stores the notifications of what has happened since the last run. Returns how many.

        Args:     patience: for how many seconds it waits for changes, if there are none.
        Raises:   SweepFailed: some could not be derived; a driver's error.
        """
        if not self._sources:
            return 0
        async with self._running:
            try:
                return await self._run(db, Timer(now), patience)
            except BaseException:
                # Changes that were read may not be stored. The next run reads them again.
                await self.aclose()
                raise

    async def aclose(self) -> None:
        """Closes the stream."""
        if self._reading is not None:
            reading, self._reading = self._reading, None
            await end(reading)
        opened, self._closing, self._stream = self._closing, contextlib.AsyncExitStack(), None
        with contextlib.suppress(PyMongoError):
            await opened.aclose()

    async def _run(self, db: Database, timer: Timer, patience: float) -> int:
        at = await self._resume(db, timer, AWAIT_MS if patience else _AT_ONCE_MS)
        done = 0
        for _ in range(_BATCHES):
            changes = await self._read(timer, 0 if done or "missed" in at else patience)
            storing = Storing(db, self._hosts, timer.now(), self._kept)
            await self._store(storing, changes)
            if changes or timer.now() - at["at"] >= _SAVED_EVERY:
                moved: PositionDocument = {**at, "token": self._token, "at": timer.now()}
                if not await position.move(db, at, {"token": moved["token"], "at": moved["at"]}):
                    await self.aclose()
                    return done + storing.end()
                at, self._stored = moved, self._token
            done += storing.end()
            if len(changes) < _BATCH:
                break
        if "missed" in at:
            done += await backlogs.read_on(self._storing(db, timer), self._sources, at)
        return done

    def _storing(self, db: Database, timer: Timer) -> Storing:
        return Storing(db, self._hosts, timer.now(), self._kept)

    async def _resume(self, db: Database, timer: Timer, await_ms: int) -> PositionDocument:
        """Returns the stored position, with the stream after it. At the first run, begins with the next change."""
        at = await position.read(db)
        if (
            at is not None
            and self._stream is not None
            and self._opened == (db, await_ms)
            and self._stored == at["token"]
        ):
            return at
        await self.aclose()
        if at is None:
            await self._open(db, None, await_ms)
            await position.begin(db, self._token, timer.now())
            return await self._resume(db, timer, await_ms)
        if not await self._reopen(db, at["token"], await_ms):
            await self._begin_again(db, at, timer, await_ms)
            return await self._resume(db, timer, await_ms)
        return at

    async def _reopen(self, db: Database, token: str, await_ms: int) -> bool:
        """Opens the stream after this token. Returns False if the server does not have the changes after it."""
        if await is_ahead(db, token):
            return False
        try:
            await self._open(db, token, await_ms)
        except PyMongoError as error:
            if not is_lost(error):
                raise
            return False
        return True

    async def _begin_again(self, db: Database, at: PositionDocument, timer: Timer, await_ms: int) -> None:
        """Begins with the next change, and notes what was missed."""
        await self._open(db, None, await_ms)
        since = at["missed"]["since"] if "missed" in at else min(_read_until(at), timer.now()) - _MARGIN
        missed = backlogs.first(self._sources, since)
        changes: Document = {"token": self._token, "at": timer.now()}
        await position.move(db, at, changes if missed is None else {**changes, "missed": missed})

    async def _open(self, db: Database, token: str | None, await_ms: int) -> None:
        after = None if token is None else {"_data": token}
        changes: Sequence[ChangeSource] = [source.changes for source in self._sources]
        try:
            opened = await open_stream(db, changes, after, await_ms)
        except PyMongoError as error:
            changes = await accepted(db, changes, error, _log_refused)
            opened = await open_stream(db, changes, after, await_ms)
        self._stream = await self._closing.enter_async_context(opened)
        self._opened = (db, await_ms)
        self._note_token(after)
        self._stored = self._token if token is None else token

    def _note_token(self, otherwise: Mapping[str, Any] | None = None) -> None:
        assert self._stream is not None
        token = self._stream.resume_token or otherwise
        if token is not None:
            self._token = token["_data"]

    async def _read(self, timer: Timer, patience: float) -> list[Document]:
        """Returns the next changes, at most a batch. Without any, waits for the first.

        If it may wait, it rests after the first one: otherwise, each write would cause a command. Then it takes what
        has come meanwhile, and leaves the command that waits for later changes to the next run.
        """
        found: list[Document] = []
        until, has_rested = timer.seconds + patience, False
        while len(found) < _BATCH:
            change = await self._next_change(_BURST if has_rested else None)
            if change is not None:
                found.append(change)
                if patience and not has_rested:
                    await asyncio.sleep(_REST)
                    has_rested = True
            elif found or timer.seconds >= until:
                break
        self._note_token()
        return found

    async def _next_change(self, seconds: float | None) -> Document | None:
        """Returns the next change; None if there is none now, or the command for it takes longer than this."""
        assert self._stream is not None
        if self._reading is None:
            self._reading = asyncio.create_task(self._stream.try_next())
        if seconds is not None:
            await asyncio.wait({self._reading}, timeout=seconds)
            if not self._reading.done():
                return None
        reading, self._reading = self._reading, None
        return await reading

    async def _store(self, storing: Storing, changes: Sequence[Document]) -> None:
        for source in self._sources:
            keys: dict[Any, None] = {}
            for change in changes:
                if change["ns"]["coll"] in source.changes.collections:
                    try:
                        keys.update((event.key, None) for event in source.changes.events(change))
                    except Exception as error:  # noqa: BLE001 - any error of a source concerns this change only
                        storing.failures.append(error)
            if keys:
                await storing.store(source, list(keys))
