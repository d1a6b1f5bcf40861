"""Follows all changes that an answer can depend on, and tells the readers that they affect.

Each process has one such change stream, which is open while something depends on it. Changes that arrive within some
milliseconds are looked at together.

The change stream says which paths an update has changed, and not the document after it. If somebody needs that, it is
read, for all updates of these milliseconds together. Such a document can be newer than the change, so it can differ
from the former one in paths that the change does not name. Those are named by a later change, which is not there yet.
Therefore, the paths of a change count also for the later ones of the same document, until the stream has passed the
time of the read. So a reader whose documents are not known, e.g. a count, never takes a condition for unchanged that a
change in this chain has changed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from bson import Timestamp
from pymongo.errors import PyMongoError

from portico.gateway.logs import logger
from portico.resolvers.changes import ChangesLost, ChangeSource, Event, follow
from portico.resolvers.current import current_documents
from portico.resolvers.documents import CollectionSpec, Database

from .comparing import row_key
from .index import Index
from .interests import ALL, DELETE, INSERT, REPLACE, UPDATE, Change
from .losses import Losses
from .parts import Checks
from .paths import NO_PATHS, Paths
from .texts import TextIndex

# How long changes are collected.
COLLECT_SECONDS = 0.004
_AGAIN_SECONDS = 0.25
_MOST_AHEAD = 5_000
# The fields of a change that the stream must deliver.
PATHS = ("documentKey", "fullDocument", "updateDescription", "clusterTime")
_KINDS = {"insert": INSERT, "update": UPDATE, "replace": REPLACE, "delete": DELETE}


@dataclass
class FeedCounts:
    """What `/metrics` shows. `affected` counts the readers that changes have affected."""

    streams: int = 0
    changes: int = 0
    looked_up: int = 0
    affected: int = 0
    losses: int = 0
    checks: Checks = field(default_factory=Checks)


@dataclass(slots=True, eq=False)
class _Streamed:
    """A change as the stream has it."""

    change: Change
    id: Any
    time: Timestamp


@dataclass(slots=True)
class _Ahead:
    """The paths that have changed in a document until `time`, the time of its last read."""

    paths: Paths
    time: Timestamp


class Feed:
    """The change stream of a process for answers. It is open between `open` and as many calls of `close`."""

    def __init__(
        self,
        database: Database,
        collections: Collection[str],
        counts: FeedCounts | None = None,
        text: Mapping[str, TextIndex] | None = None,
    ) -> None:
        """`text` has the text indexes, by collection, if they are known."""
        self.index = Index(text)
        self.counts = counts or FeedCounts()
        self.losses = Losses()
        self.checks = self.counts.checks
        # Changes of other collections are not followed, so an answer must not depend on them.
        self.collections = frozenset(collections)
        self._database = database
        self._users = 0
        self._reader: _Reader | None = None

    async def open(self) -> None:
        """Opens the stream, unless it is open. No later change is missed. Raises a driver's error."""
        self._users += 1
        if self._reader is None:
            self._reader = _Reader(self, self._database)
        try:
            await asyncio.shield(self._reader.opened)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the stream when nobody uses it any more."""
        self._users -= 1
        if not self._users and self._reader is not None:
            self._reader.close()
            self._reader = None

    async def aclose(self) -> None:
        """Closes the stream, and waits until it is closed."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.aclose()
        await self.losses.aclose()


def text_indexes(specs: Iterable[CollectionSpec]) -> Mapping[str, TextIndex]:
    """Returns the text indexes, by collection. An index of all paths is left out."""
    found: dict[str, TextIndex] = {}
    for spec in specs:
        for index in spec.indexes:
            paths = [path for path, kind in index.document["key"].items() if kind == "text"]
            if paths and "$**" not in paths:
                found[spec.name] = TextIndex(Paths(paths), is_literal=_has_no_language(index.document))
    return found


def _has_no_language(index: Mapping[str, Any]) -> bool:
    """Returns whether no document of a text index can have a language. A name with a null byte is that of no field."""
    return index.get("default_language") == "none" and "\0" in index.get("language_override", "language")


class _Reader:
    """The tasks that read the stream and look at its changes."""

    def __init__(self, feed: Feed, database: Database) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._feed = feed
        self._database = database
        self._arrived: list[_Streamed] = []
        self._has_arrived = asyncio.Event()
        self._ahead: dict[tuple[str, Any], _Ahead] = {}
        self._is_closing = False
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._look())]

    def close(self) -> None:
        self._is_closing = True
        if not self.opened.done():
            self.opened.cancel()
        for task in self._running:
            task.cancel()

    async def aclose(self) -> None:
        """Closes, and waits. Cancels repeatedly: the driver may swallow a cancellation."""
        while running := self._running:
            self.close()
            await asyncio.wait(running, timeout=_AGAIN_SECONDS)

    @property
    def _running(self) -> list[asyncio.Task[Any]]:
        return [task for task in self._tasks if not task.done()]

    async def _follow(self) -> None:
        source = ChangeSource(self._feed.collections, {}, PATHS, self._arrives, with_renamed=True)
        while not self._is_closing:
            is_new = True
            try:
                followed = follow(
                    self._database, [source], on_interruption=self._interrupted, on_failure=self._unreadable
                )
                async with aclosing(followed) as batches:
                    async for _ in batches:
                        if self._is_closing:
                            return
                        if is_new:
                            is_new = False
                            self._begins()
            except ChangesLost:
                logger().warning("change stream of answers lost changes")
            except Exception as error:  # noqa: BLE001 - without the stream, answers would stay as they are for ever
                if not self.opened.done():
                    self.opened.set_exception(error)
                    return
                logger().warning("change stream of answers failed", error=type(error).__name__)
            self._lost()
            await asyncio.sleep(_AGAIN_SECONDS)

    def _begins(self) -> None:
        self._feed.counts.streams += 1
        if not self.opened.done():
            self.opened.set_result(None)
            return
        # What has happened since the former stream is unknown.
        self._lost()

    def _arrives(self, change: Mapping[str, Any]) -> Sequence[Event]:
        self._feed.counts.changes += 1
        index = self._feed.index
        for one in _streamed(change):
            index.arrived += 1
            one.change.number = index.arrived
            self._arrived.append(one)
        self._has_arrived.set()
        return ()

    def _interrupted(self, error: PyMongoError) -> None:
        if self._is_closing:
            raise asyncio.CancelledError
        # After an election, answers can show writes that are rolled back, of which no change tells.
        logger().warning("change stream of answers interrupted", error=type(error).__name__)
        self._lost()

    def _unreadable(self, _source: ChangeSource, error: Exception) -> None:
        logger().error("change cannot be read", exc_info=error)
        self._lost()

    def _lost(self) -> None:
        self._feed.counts.losses += 1
        self._feed.index.dispatch_all()
        self._feed.losses.add()

    async def _look(self) -> None:
        while True:
            await self._has_arrived.wait()
            await asyncio.sleep(COLLECT_SECONDS)
            self._has_arrived.clear()
            arrived, self._arrived = self._arrived, []
            try:
                await self._look_at(arrived)
            except ChangesLost:
                # All readers have been told.
                continue
            except Exception as error:  # noqa: BLE001 - whatever fails, no change may be overlooked
                logger().warning("changes are not known", error=type(error).__name__)
                self._lost()

    async def _look_at(self, arrived: Sequence[_Streamed]) -> None:
        index = self._feed.index
        wanted: defaultdict[str, list[_Streamed]] = defaultdict(list)
        for one in arrived:
            if one.change.kind == UPDATE:
                one.change.paths = self._chained(one)
                if index.needs_document(one.change):
                    wanted[one.change.collection].append(one)
        for collection, updates in wanted.items():
            await self._read(collection, updates)
        for one in arrived:
            self._feed.counts.affected += index.dispatch(one.change)
        if len(self._ahead) > _MOST_AHEAD and arrived:
            passed = arrived[-1].time
            self._ahead = {key: ahead for key, ahead in self._ahead.items() if ahead.time >= passed}

    def _chained(self, update: _Streamed) -> Paths:
        """Returns the paths of an update, with those of earlier ones if it may have been read with them."""
        key = (update.change.collection, update.change.key)
        ahead = self._ahead.get(key)
        if ahead is None:
            return update.change.paths
        if ahead.time < update.time:
            del self._ahead[key]
            return update.change.paths
        return update.change.paths | ahead.paths

    async def _read(self, collection: str, updates: Sequence[_Streamed]) -> None:
        """Reads the documents of updates. Those of one document count as one update."""
        together: dict[Any, Paths] = {}
        for one in updates:
            together[one.change.key] = together.get(one.change.key, NO_PATHS) | one.change.paths
        ids = {one.change.key: one.id for one in updates}
        self._feed.counts.looked_up += len(ids)
        current = await self._feed.losses.until(
            current_documents(self._database, collection, list(ids.values()), self._feed.index.used(collection))
        )
        for one in updates:
            one.change.paths = together[one.change.key]
            one.change.document = current.found.get(repr(one.id))
        for key, paths in together.items():
            self._ahead[collection, key] = _Ahead(paths, current.time)


def _streamed(change: Mapping[str, Any]) -> list[_Streamed]:
    """Returns the changes of an event: that of its collection, and of the one whose name it gets."""
    found, time = change_of(change), change["clusterTime"]
    changes = [_Streamed(found, None if found.kind == ALL else change["documentKey"]["_id"], time)]
    if "to" in change:
        changes.append(_Streamed(Change(change["to"]["coll"], ALL), None, time))
    return changes


def change_of(change: Mapping[str, Any]) -> Change:
    """Returns a change from an event of the stream with the paths `PATHS`. An update has no document."""
    collection = change["ns"]["coll"]
    kind = _KINDS.get(change["operationType"], ALL)
    if kind == ALL:
        return Change(collection, ALL)
    found = Change(collection, kind, row_key(change["documentKey"]["_id"]), change.get("fullDocument"))
    if kind == UPDATE:
        found.paths = _changed(change["updateDescription"])
    return found


def _changed(description: Mapping[str, Any]) -> Paths:
    truncated = (array["field"] for array in description.get("truncatedArrays") or ())
    return Paths([*description["updatedFields"], *description["removedFields"], *truncated])
