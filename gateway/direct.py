"""Reads straight over the wire: most of what a small read costs is the driver's way to it, not the read.

PyMongo connects, authenticates, encrypts, and watches the replica set. A connection that it has made is taken over;
`find`, `find_one` and `aggregate` then send their command (OP_MSG, one at a time) and await the reply, without the
tasks, locks and session that the driver takes for each. Whatever cannot be had so goes by the driver: every write, a
cursor of more than one batch, a read while all connections are in use or the primary is gone, and one that has failed.
A read has no effect, so it may be sent again.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import bson
import structlog
from bson import Int64
from pymongo import AsyncMongoClient
from pymongo.errors import ExecutionTimeout, NetworkTimeout, PyMongoError
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from resolvers.documents import Document

# Of each process. What is read at once beyond that goes by the driver's own pool.
CONNECTIONS = 16
IDLE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_OP_MSG = 2013
_HEAD = struct.Struct("<iiiiIB")
_SIZE = struct.Struct("<i")
_MAX_TIME_EXPIRED = 50
# The server is no primary any more, or about to stop; the connection has to authenticate again.
_OF_NO_USE = {91, 189, 391, 10058, 10107, 11600, 11602, 13435, 13436}
# A batch ends at 16 MiB in any case.
_ALL = 2**31 - 1
_FIND_OPTIONS = {"sort", "limit", "batch_size"}
_WRITING = {"$merge", "$out"}
_HAS_PRIMARY = {"RSPrimary", "Mongos", "Standalone"}

_log = structlog.get_logger("portico.direct")
_numbers = itertools.count(1)


class _Lost(Exception):
    """The connection has ended without an answer."""


class Link(asyncio.Protocol):
    """A connection of the driver's, taken over. It carries one command at a time."""

    def __init__(self, connection: Any) -> None:
        # Held, for the driver's object closes its socket when nobody does.
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = connection.conn.get_conn.transport
        self._part = bytearray()
        self._reply: asyncio.Future[bytes] | None = None
        self.used_at = self._loop.time()
        self.address: tuple[str, int] = connection.address
        self._transport.set_protocol(self)
        self._transport.resume_reading()

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    async def ask(self, message: bytes, seconds: float) -> bytes:
        """The reply to a message. Raises _Lost and NetworkTimeout. Without a reply the connection is closed."""
        reply: asyncio.Future[bytes] = self._loop.create_future()
        self._reply = reply
        self._transport.write(message)
        timer = self._loop.call_later(seconds, self._expire)
        try:
            return await reply
        except BaseException:
            # A late reply must not be taken for the next command's.
            self.close()
            raise
        finally:
            timer.cancel()
            self._reply = None
            self.used_at = self._loop.time()

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._part or len(data) < _SIZE.size or _SIZE.unpack_from(data)[0] != len(data):
            self._part += data
            if len(self._part) < _SIZE.size or _SIZE.unpack_from(self._part)[0] > len(self._part):
                return
            data, self._part = bytes(self._part), bytearray()
        if self._reply is None or self._reply.done():
            self.close()
        else:
            self._reply.set_result(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(_Lost())

    def _expire(self) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(NetworkTimeout("The server has not answered in time."))


def _message(command: Document) -> bytes:
    body = bson.encode(command)
    return _HEAD.pack(_HEAD.size + len(body), next(_numbers) & _ALL, 0, _OP_MSG, 0, 0) + body


def _decoded(reply: bytes) -> Document:
    answer: Document = bson.decode(memoryview(reply)[_HEAD.size :])
    return answer


class _Event:
    """What the listeners of the driver's commands hear of a read."""

    def __init__(
        self, listeners: Sequence[CommandListener], command: Document, address: tuple[str, int], database: str
    ) -> None:
        self._listeners = listeners
        self._started_at = time.monotonic()
        self._name = next(iter(command))
        self._about: dict[str, Any] = {
            "request_id": next(_numbers),
            "connection_id": address,
            "operation_id": None,
            "database_name": database,
        }
        started = CommandStartedEvent(command, **self._about)
        for listener in listeners:
            listener.started(started)

    def end(self, answer: Document | None) -> None:
        """With None there was no answer."""
        took = timedelta(seconds=time.monotonic() - self._started_at)
        if answer is not None and answer["ok"]:
            succeeded = CommandSucceededEvent(took, answer, self._name, **self._about)
            for listener in self._listeners:
                listener.succeeded(succeeded)
            return
        failed = CommandFailedEvent(took, answer or {}, self._name, **self._about)
        for listener in self._listeners:
            listener.failed(failed)


class Reader:
    """Sends reads of one database to the primary, over links that it opens as they are needed."""

    def __init__(
        self, client: AsyncMongoClient[Document], database: str, seconds: float, listeners: Sequence[CommandListener]
    ) -> None:
        self._client = client
        self._database = database
        self._seconds = seconds
        self._listeners = listeners
        self._common = {
            "maxTimeMS": int(seconds * 1000),
            "readConcern": {"level": "local"},
            "$db": database,
        }
        self._idle: list[Link] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._count = 0
        self._not_before = 0.0

    async def read(self, command: Document) -> list[Document] | None:
        """The documents of a read command; None where the driver has to be asked.

        Raises ExecutionTimeout and NetworkTimeout, and what `bson.encode` raises.
        """
        link = self._take()
        if link is None:
            return None
        event = _Event(self._listeners, command, link.address, self._database) if self._listeners else None
        answer: Document | None = None
        try:
            answer = _decoded(await link.ask(_message({**command, **self._common}), self._seconds))
            return await self._documents(link, answer)
        except _Lost:
            return None
        finally:
            if event is not None:
                event.end(answer)
            self._give_back(link)

    @property
    def connections(self) -> int:
        """How many are open."""
        return self._count - len(self._opening)

    async def close(self) -> None:
        self._not_before = math.inf
        if self._opening:
            # A driver that is interrupted while it connects leaves its socket open.
            _, late = await asyncio.wait(self._opening, timeout=_PAUSE_SECONDS)
            for task in late:
                task.cancel()
        for link in self._idle:
            link.close()

    async def _documents(self, link: Link, answer: Document) -> list[Document] | None:
        if answer["ok"]:
            cursor = answer["cursor"]
            if not cursor["id"]:
                found: list[Document] = cursor["firstBatch"]
                return found
            collection = cursor["ns"].partition(".")[2]
            end = {"killCursors": collection, "cursors": [Int64(cursor["id"])], "$db": self._database}
            await link.ask(_message(end), self._seconds)
            return None
        if answer.get("code") == _MAX_TIME_EXPIRED:
            raise ExecutionTimeout(str(answer.get("errmsg")), _MAX_TIME_EXPIRED, answer)
        if answer.get("code") in _OF_NO_USE:
            link.close()
        return None

    def _take(self) -> Link | None:
        """A link for one command; it is given back. Where none is free another is opened, for those that come later."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            link = self._idle.pop()
            if link.is_open and now - link.used_at < IDLE_SECONDS:
                return link
            self._count -= 1
            link.close()
        if self._count < CONNECTIONS and now >= self._not_before:
            self._count += 1
            task = asyncio.create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        return None

    def _give_back(self, link: Link) -> None:
        if link.is_open:
            self._idle.append(link)
        else:
            self._count -= 1

    async def _open(self) -> None:
        link = None
        try:
            link = await self._connected()
        except (PyMongoError, OSError) as error:
            _log.info("no direct connection", error=str(error))
        except (AttributeError, TypeError) as error:
            if self._not_before < math.inf:
                _log.warning("reads go by the driver: this version of it has other parts", error=str(error))
            self._not_before = math.inf
        finally:
            if link is None:
                self._count -= 1
                self._not_before = max(self._not_before, asyncio.get_running_loop().time() + _PAUSE_SECONDS)
            else:
                self._idle.append(link)

    async def _connected(self) -> Link | None:
        """A new link to the primary. What it needs of the driver's inner parts is named here and in `Link`."""
        servers = self._client.topology_description.server_descriptions()
        primary = [address for address, server in servers.items() if server.server_type_name in _HAS_PRIMARY]
        if not primary:
            return None
        inner: Any = self._client
        server = inner._topology.get_server_by_address(primary[0])  # noqa: SLF001 - see above
        if server is None:
            return None
        connection = await server.pool.connect()
        try:
            return Link(connection)
        except BaseException:
            await connection.close_conn(None)
            raise


class DirectDatabase:
    """A database of the driver's whose reads go straight."""

    def __init__(self, database: Any, reader: Reader) -> None:
        self._database = database
        self.reader = reader
        self._collections: dict[str, DirectCollection] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> DirectCollection:
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = DirectCollection(self._database[name], self.reader)
        return found


class DirectCollection:
    """A collection of the driver's whose reads go straight. With other options it is the driver's own."""

    def __init__(self, collection: Any, reader: Reader) -> None:
        self._collection = collection
        self._reader = reader
        self.name: str = collection.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def find(
        self, query: Mapping[str, Any] | None = None, projection: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        if options.keys() - _FIND_OPTIONS:
            return self._collection.find(query, projection, **options)
        command: Document = {"find": self.name, "filter": query or {}, "batchSize": _ALL}
        if projection:
            command["projection"] = projection
        if options.get("sort"):
            command["sort"] = dict(options["sort"])
        if options.get("limit"):
            command["limit"] = options["limit"]
        return DirectCursor(self._reader, command, lambda: self._collection.find(query, projection, **options))

    async def find_one(
        self, query: Mapping[str, Any] | None = None, projection: Mapping[str, Any] | None = None, **options: Any
    ) -> Document | None:
        if options.keys() - _FIND_OPTIONS:
            one: Document | None = await self._collection.find_one(query, projection, **options)
            return one
        found = await self.find(query, projection, **{**options, "limit": 1}).to_list()
        return found[0] if found else None

    async def aggregate(self, pipeline: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        if options.keys() - {"batchSize"} or not _WRITING.isdisjoint(pipeline[-1] if pipeline else ()):
            return await self._collection.aggregate(pipeline, **options)
        command = {"aggregate": self.name, "pipeline": pipeline, "cursor": {"batchSize": _ALL}}
        return DirectCursor(self._reader, command, lambda: self._collection.aggregate(pipeline, **options))


class DirectCursor:
    """What a read finds: all of it at once goes straight, one after the other goes by the driver."""

    def __init__(self, reader: Reader, command: Document, ordinary: Callable[[], Any]) -> None:
        self._reader = reader
        self._command = command
        self._ordinary = ordinary

    async def to_list(self) -> list[Document]:
        found = await self._reader.read(self._command)
        return await (await self._by_driver()).to_list() if found is None else found

    async def __aiter__(self) -> AsyncIterator[Document]:
        async for document in await self._by_driver():
            yield document

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ordinary(), name)

    async def _by_driver(self) -> Any:
        cursor = self._ordinary()
        return await cursor if inspect.isawaitable(cursor) else cursor
