"""Follows the changes in the database: one change stream, which feeds all subscriptions.

A change stream returns each majority-committed change once and in order. It is interrupted when a primary steps down or
the network fails. It is then reopened after the last change that it returned, which works as far back as the server's
oplog goes. A primary that stalls neither answers nor closes its connections. So the stream also ends, and is reopened,
when the driver knows another primary, or when the server has not answered for long.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

from bson import Timestamp
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.errors import NetworkTimeout, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from portico.resolvers.lru import Lru
from portico.resolvers.writes import retries

from .change_paths import require_paths
from .documents import LENIENT, CollectionSpec, Database, Document
from .tasks import end

# How long the server may wait for a change before it returns an empty batch.
AWAIT_MS = 1_000
# A server that has not answered for so long is lost. How often that, and the primary, is looked at.
_SILENT_SECONDS, _WATCH_SECONDS = 10.0, 0.2
# How long the closing of a stream may take. The server may not answer.
_CLOSE_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
# The server cannot resume the stream: the errors InvalidResumeToken, ChangeStreamFatalError and
# ChangeStreamHistoryLost.
_LOST = {260, 280, 286}
_LOST_LABEL = "NonResumableChangeStreamError"
# How many of the latest changes are remembered to detect a repeated delivery.
_REMEMBERED = 1_000
# The server does not understand the conditions of a query: BadValue, FailedToParse, TypeMismatch.
_REFUSED = {2, 9, 14}
# A collection that nobody has: the server reads the conditions of a query, and finds nothing.
_NOTHING = "changes.none"
_numbers = count()


class ChangesLost(Exception):
    """Some changes can no longer be read. Callers that depend on them must read the data again."""


@dataclass(frozen=True, slots=True)
class Position:
    """The place of an event among all events of the database, the same in every process.

    `time` is the operation time of its change. `change` tells changes of the same time apart, and `index` the events of
    a change.
    """

    time: Timestamp
    change: str
    index: int


@dataclass(slots=True, eq=False)
class Event:
    """Something that has happened, for the listeners of its topic.

    `key` identifies the object; several events of a topic can have the same key. `number` identifies the event in this
    process, `at` in all processes. In `shared` the listeners cache what they have in common; None for an old event.
    """

    topic: Hashable
    key: Any
    number: int = field(default_factory=_numbers.__next__)
    shared: dict[Hashable, Any] | None = field(default_factory=dict, repr=False)
    at: Position | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ChangeSource:
    """Makes events of the matching changes of some collections. `paths` are the fields that it fetches.

    `events` also gets the changes that other sources of the same collections match, and makes no events of them.

    If `events` raises, this source makes no events of the change. If the server refuses `match`, it makes no events at
    all. Those of other sources are not affected.

    With `with_renamed`, it also gets the change by which another collection gets the name of one of these.

    Raises TypeError or ValueError for a path that is none: all sources share one change stream, which it would break.
    Raises ValueError, too, if all changes that match are updates or deletions, but a path is one of their document.
    """

    collections: frozenset[str]
    match: Document
    paths: Sequence[str]
    events: Callable[[Document], Iterable[Event]]
    with_renamed: bool = False

    def __post_init__(self) -> None:
        require_paths(self.match, self.paths)

    def follows(self, change: Document) -> bool:
        """Returns whether a change of the stream is one of these collections."""
        names = {change["ns"]["coll"], *([change["to"]["coll"]] if self.with_renamed and "to" in change else ())}
        return not names.isdisjoint(self.collections)

    @classmethod
    def inserts(cls, spec: CollectionSpec, paths: Sequence[str], event: Callable[[Document], Event]) -> Self:
        """Returns a source that makes an event of each document inserted into the collection.

        Args:     paths: the fields that `event` reads besides `_id`.
        """

        def events(change: Document) -> Sequence[Event]:
            # Another source of the collection may follow other changes.
            return (event(change["fullDocument"]),) if change["operationType"] == "insert" else ()

        shown = tuple(f"fullDocument.{path}" for path in ("_id", *paths))
        return cls(frozenset({spec.name}), {"operationType": "insert"}, shown, events)


OnFailure = Callable[[ChangeSource, Exception], None]


async def follow(
    db: Database,
    sources: Sequence[ChangeSource],
    *,
    on_interruption: Callable[[PyMongoError], None],
    on_failure: OnFailure,
) -> AsyncGenerator[Sequence[Event], None]:
    """Yields the events from now on, each once, in the order of the database.

    A change is identified by its resume token: a repeated delivery makes no events.

    The first batch is empty: it says that the stream is open, and that no later write will be missed. Later batches can
    be empty, too. After an interruption it calls `on_interruption` and reopens the stream. If a source fails, it calls
    `on_failure`.

    Raises:   ChangesLost; a driver's error if the stream cannot be opened the first time.
    """
    token: Mapping[str, Any] | None = None
    pause, is_open, seen = _FIRST_PAUSE, False, _Seen()
    left: set[asyncio.Future[Any]] = set()
    while True:
        try:
            async with _Watched(db, await open_stream(db, sources, token), left) as stream:
                token = stream.resume_token or token
                if not is_open:
                    is_open = True
                    yield ()
                while stream.alive:
                    change = await stream.try_next()
                    token, pause = stream.resume_token or token, _FIRST_PAUSE
                    yield () if change is None or seen.is_repeat(change) else events_of(sources, change, on_failure)
        except PyMongoError as error:
            if not is_open:
                sources = await accepted(db, sources, error, on_failure)
                continue
            await _wait_out(error, on_interruption, pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            # The database was dropped. A new one with its name has another history.
            raise ChangesLost


async def accepted(
    db: Database, sources: Sequence[ChangeSource], error: PyMongoError, on_failure: OnFailure
) -> Sequence[ChangeSource]:
    """Returns the sources whose conditions the server accepts, after an error at opening a stream of all.

    Calls `on_failure` for the others. Raises the error if it has another cause.
    """
    if not isinstance(error, OperationFailure) or error.code not in _REFUSED:
        raise error
    found = []
    for source in sources:
        try:
            await db[_NOTHING].find_one(source.match)
        except OperationFailure as refused:
            if refused.code not in _REFUSED:
                raise
            on_failure(source, refused)
        else:
            found.append(source)
    if len(found) == len(sources):
        raise error
    return found


class _Watched:
    """A stream that fails with NetworkTimeout as soon as its server is not the primary any more, or does not answer.

    The driver cannot be stopped while it waits for a server that stalls. What it still does is left to tasks, in
    `left`.
    """

    def __init__(self, db: Database, stream: AsyncChangeStream[Document], left: set[asyncio.Future[Any]]) -> None:
        self._stream = stream
        self._left = left
        self._client: Any = db.client
        self._primary = _primary_of(self._client)
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        # When the read in flight began; None without one.
        self._since: float | None = None
        self._timer = self._loop.call_later(_WATCH_SECONDS, self._look)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._timer.cancel()
        await self._leave(self._stream.__aexit__(None, None, None))

    @property
    def alive(self) -> bool:
        return self._stream.alive

    @property
    def resume_token(self) -> Mapping[str, Any] | None:
        return self._stream.resume_token

    async def try_next(self) -> Document | None:
        self._since = self._loop.time()
        reading = asyncio.create_task(self._stream.try_next())
        ends: set[asyncio.Future[Any]] = {reading, self._lost}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            raise NetworkTimeout("The server of the change stream is not the primary any more, or does not answer.")
        finally:
            self._since = None
            if not reading.done():
                await self._leave(end(reading))

    async def _leave(self, ending: Awaitable[Any]) -> None:
        """Waits a moment for the end of what the driver does."""
        task = asyncio.ensure_future(ending)
        self._left.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait({task}, timeout=_CLOSE_SECONDS)

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            # Retrieves an error that nobody waits for, so that asyncio does not log it.
            task.exception()

    def _look(self) -> None:
        primary = _primary_of(self._client)
        is_former = None not in (primary, self._primary) and primary != self._primary
        is_silent = self._since is not None and self._loop.time() - self._since > _SILENT_SECONDS
        if is_former or is_silent:
            self._lost.set_result(None)
        else:
            self._timer = self._loop.call_later(_WATCH_SECONDS, self._look)


def _primary_of(client: Any) -> Hashable:
    """Returns the primary of a replica set with its election; None if there is none at the moment."""
    servers = client.topology_description.server_descriptions().values()
    return next(
        ((server.address, server.election_id) for server in servers if server.server_type_name == "RSPrimary"), None
    )


async def open_stream(
    db: Database, sources: Sequence[ChangeSource], token: Mapping[str, Any] | None, await_ms: int = AWAIT_MS
) -> AsyncChangeStream[Document]:
    """Opens a stream of the changes that the sources follow, after the change with this resume token.

    The stream has a resume token at once. The server sends none for the place before the first batch, so the first
    batch has no change.

    Args:     await_ms: how long the server may wait for a change before it returns an empty batch.
    """
    return await watched(db).watch(pipeline(sources), resume_after=token, max_await_time_ms=await_ms, batch_size=0)


def watched(db: Database) -> Database:
    """Returns the database with the options of a change stream. A majority-committed write is never rolled back."""
    return db.with_options(read_concern=ReadConcern("majority"), codec_options=LENIENT)


async def _wait_out(error: PyMongoError, on_interruption: Callable[[PyMongoError], None], pause: float) -> None:
    """Waits before a stream is reopened after an interruption. Raises ChangesLost if it cannot be resumed."""
    if is_lost(error):
        raise ChangesLost from error
    on_interruption(error)
    await retries.pause(pause)


class _Seen:
    """The latest changes, by their resume tokens."""

    def __init__(self) -> None:
        self._tokens: Lru[str, None] = Lru(_REMEMBERED)

    def is_repeat(self, change: Document) -> bool:
        """Returns whether this change was delivered before, and remembers it."""
        token = change["_id"]["_data"]
        is_repeat = token in self._tokens
        self._tokens.put(token, None)
        return is_repeat


def is_lost(error: PyMongoError) -> bool:
    """Returns whether the error says that the server no longer has the changes."""
    if error.has_error_label(_LOST_LABEL):
        return True
    return isinstance(error, OperationFailure) and error.code in _LOST


def pipeline(sources: Sequence[ChangeSource]) -> list[Document]:
    """Returns the stages that limit the stream to the changes and fields that the sources need."""
    paths = _merged({"operationType", "ns", "clusterTime", *(path for source in sources for path in source.paths)})
    matches = [{"ns.coll": {"$in": sorted(source.collections)}, **source.match} for source in sources]
    renamed = [source for source in sources if source.with_renamed]
    if renamed:
        paths.append("to")
        matches += [{"to.coll": {"$in": sorted(source.collections)}} for source in renamed]
    return [{"$match": {"$or": matches}}, {"$project": dict.fromkeys(sorted(paths), 1)}]


def _merged(paths: set[str]) -> list[str]:
    """Returns the paths without those below others: the server refuses a projection with both.

    Every change has its `_id`, the resume token, which must be whole.
    """
    others = {path for path in paths if path.split(".")[0] != "_id"}
    return [path for path in others if others.isdisjoint(_above(path))]


def _above(path: str) -> Iterator[str]:
    """Yields the paths that contain this one."""
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def events_of(sources: Sequence[ChangeSource], change: Document, on_failure: OnFailure) -> list[Event]:
    """Returns the events of this change.

    A source that fails makes none, e.g. because other software has written a malformed document.
    """
    found: list[Event] = []
    for source in sources:
        if source.follows(change):
            try:
                events = list(source.events(change))
                # Topics and keys must be hashable; nobody can listen to others.
                hash(tuple((event.topic, event.key) for event in events))
            except Exception as error:  # noqa: BLE001 - any error of a source concerns its own events only
                on_failure(source, error)
            else:
                found += events
    for index, event in enumerate(found):
        event.at = Position(change["clusterTime"], _digest(change["_id"]["_data"]), index)
    return found


def _digest(token: str) -> str:
    """Returns a text for a resume token, which itself contains the key of the document."""
    return hashlib.blake2b(token.encode(), digest_size=8).hexdigest()
