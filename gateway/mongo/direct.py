"""Sends read commands over the wire without the driver, whose overhead is most of the cost of a small read.

PyMongo connects, authenticates, encrypts, and monitors the replica set. The gateway takes over a connection of PyMongo
(`links`). `find`, `find_one` and `aggregate` send their command on it (OP_MSG, one at a time) and await the reply,
without the tasks, locks and session that the driver uses for each command. The read concern is that of the collection:
`local` or `majority`.

Everything else falls back to the driver: a cursor of more than one batch, a read while no connection is open or there
is no primary, a read that failed, and a read whose primary was replaced before the reply arrived. A read has no effect,
so it is safe to send it again. While all connections are in use, reads wait for one.

Small writes have a path of their own: see `direct_writes`.
"""

from __future__ import annotations

import inspect
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import bson
from bson import Int64, ObjectId
from pymongo import AsyncMongoClient
from pymongo.errors import ExecutionTimeout
from pymongo.monitoring import CommandListener
from pymongo.read_concern import ReadConcern
from pymongo.results import BulkWriteResult, DeleteResult, InsertOneResult, UpdateResult
from pymongo.write_concern import WriteConcern

from portico.resolvers.answer_bounds import METER, Meter
from portico.resolvers.documents import CODEC, LENIENT, Document, Update

from .direct_writes import Writer, bulk_result, require_done, update_result
from .links import Link, Links, Lost, Primary, TooLong
from .messages import CLOSING_CODES, HEAD, CommandEvent, message
from .pings import Ping, Then

_SIZE = struct.Struct("<i")
# The cursor is the first element of the answer to a read that succeeded, and the next one says that it has.
_CURSOR, _OK = b"\x03cursor\0", b"\x01ok\0" + struct.pack("<d", 1.0)
_CURSOR_AT = HEAD.size + _SIZE.size
_VALUE_AT = _CURSOR_AT + len(_CURSOR)
_PING: Document = {"ping": 1}
_MAX_TIME_EXPIRED = 50
# A larger batch than any: the server ends a batch at 16 MiB in any case.
_ALL = 2**31 - 1
# How many documents a server's batch has if the caller does not say. An iteration reads one batch directly.
_BATCH = 101
_FIND_OPTIONS = {"sort", "limit", "batch_size", "hint"}
_WRITING = {"$merge", "$out"}
# The options of the driver, with their names in the commands.
_UPDATE_OPTIONS = {"upsert": "upsert", "array_filters": "arrayFilters"}
_FIND_AND_UPDATE_OPTIONS = {"upsert": "upsert", "return_document": "new"}
_LOCAL, _MAJORITY = ReadConcern("local"), ReadConcern("majority")
_PRIMARY_ALONE = WriteConcern(w=1)
_DIRECT_OPTIONS: tuple[Document, ...] = ({"read_concern": _MAJORITY}, {"write_concern": _PRIMARY_ALONE})


def _decoded(reply: bytes) -> Document:
    """Returns the answer in a reply. Of a successful read, it is only the cursor: nobody reads the cluster's times."""
    if reply.startswith(_CURSOR, _CURSOR_AT):
        end = _VALUE_AT + _SIZE.unpack_from(reply, _VALUE_AT)[0]
        if reply.startswith(_OK, end):
            return {"cursor": bson.decode(memoryview(reply)[_VALUE_AT:end], CODEC), "ok": 1.0}
    answer: Document = bson.decode(memoryview(reply)[HEAD.size :], CODEC)
    return answer


class Asked(NamedTuple):
    """The answer to a command, and the primary that gave it."""

    answer: Document
    primary: Primary


class Reader:
    """Sends reads of one database to the primary, over links that it opens on demand."""

    def __init__(
        self, client: AsyncMongoClient[Document], database: str, seconds: float, listeners: Sequence[CommandListener]
    ) -> None:
        self._links = Links(client)
        self._seconds = seconds
        self._database = database
        self._listeners = listeners
        self._common = {
            "maxTimeMS": int(seconds * 1000),
            "$db": database,
        }
        self._ping = message({**_PING, "$db": database})

    async def read(self, command: Document) -> list[Document] | None:
        """Returns the documents of a read command; None if the caller must fall back to the driver.

        Raises ExecutionTimeout, NetworkTimeout and AnswerTooLarge, and what `bson.encode` raises.
        """
        meter = METER.get()
        if meter is None:
            return await self._read(command, None)
        while True:
            if meter.must_wait:
                await meter.enter()
            meter.require()
            try:
                return await self._read(command, meter)
            except TooLong as reply:
                size = reply.size
            await meter.enter(size)

    async def _read(self, command: Document, meter: Meter | None) -> list[Document] | None:
        """Reads as `read` does. Raises TooLong for a reply that may not be received now."""
        deadline = time.monotonic() + self._seconds
        link = self._links.idle() or await self._links.take(deadline)
        if link is None:
            return None
        event = CommandEvent.begin(self._listeners, command, link.primary.address, self._database)
        answer: Document | None = None
        try:
            sent = message({**command, **self._common})
            answer = _decoded(await link.ask(sent, deadline, None if meter is None else meter.admits))
            return await self._documents(link, answer, deadline) if self._links.is_current(link) else None
        except Lost:
            return None
        finally:
            if event is not None:
                event.end(answer)
            self._links.give_back(link)

    async def ask(self, command: Document) -> Asked | None:
        """Sends any command that has no effect to the primary. None if no connection is open at the moment.

        Raises Lost if the connection closes, or the primary is another one when the answer arrives; NetworkTimeout; and
        what `bson.decode` raises.
        """
        deadline = time.monotonic() + self._seconds
        link = self._links.idle() or await self._links.take(deadline)
        if link is None:
            return None
        event = CommandEvent.begin(self._listeners, command, link.primary.address, self._database)
        answer: Document | None = None
        try:
            reply = await link.ask(message({**command, "$db": self._database}), deadline)
            answer = bson.decode(memoryview(reply)[HEAD.size :], LENIENT)
            if not self._links.is_current(link):
                raise Lost
            return Asked(answer, link.primary)
        finally:
            if event is not None:
                event.end(answer)
            self._links.give_back(link)

    def ping(self, then: Then) -> bool:
        """Asks the primary for the time of its newest write. Returns False if no connection is idle.

        `then` gets the answer. If there is none, it gets Lost, NetworkTimeout or what `bson.decode` raises.
        """
        link = self._links.idle()
        if link is None:
            return False
        try:
            event = CommandEvent.begin(self._listeners, _PING, link.primary.address, self._database)
            link.send(self._ping, time.monotonic() + self._seconds, Ping(self._links, link, event, then))
        except BaseException:
            link.close()
            self._links.give_back(link)
            raise
        return True

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._links.connections

    async def close(self) -> None:
        await self._links.close()

    async def _documents(self, link: Link, answer: Document, deadline: float) -> list[Document] | None:
        if answer["ok"]:
            cursor = answer["cursor"]
            if not cursor["id"]:
                found: list[Document] = cursor["firstBatch"]
                return found
            collection = cursor["ns"].partition(".")[2]
            end = {"killCursors": collection, "cursors": [Int64(cursor["id"])], "$db": self._database}
            await link.ask(message(end), deadline)
            return None
        if answer.get("code") == _MAX_TIME_EXPIRED:
            raise ExecutionTimeout(str(answer.get("errmsg")), _MAX_TIME_EXPIRED, answer)
        if answer.get("code") in CLOSING_CODES:
            link.close()
        return None


class DirectDatabase:
    """A database of the driver, with direct reads and writes."""

    def __init__(self, database: Any, reader: Reader, writer: Writer) -> None:
        self._database = database
        self.reader = reader
        self.writer = writer
        self._collections: dict[str, DirectCollection] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> DirectCollection:
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = DirectCollection(self._database[name], self.reader, self.writer)
        return found


class DirectCollection:
    """A collection of the driver, with direct reads and writes. Those with other options fall back to the driver."""

    def __init__(
        self, collection: Any, reader: Reader, writer: Writer, concern: ReadConcern = _LOCAL, *, waits: bool = True
    ) -> None:
        self._collection = collection
        self._reader = reader
        self._writer = writer
        self._concern = concern
        self._read_concern = concern.document
        self._waits = waits
        # The same collection with one of `_DIRECT_OPTIONS`, by its name. The driver takes long to make one.
        self._others: dict[str, DirectCollection] = {}
        self.name: str = collection.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def with_options(self, **options: Any) -> Any:
        if options not in _DIRECT_OPTIONS:
            return self._collection.with_options(**options)
        [name] = options
        found = self._others.get(name)
        if found is None:
            collection, concern = self._collection.with_options(**options), options.get("read_concern", self._concern)
            waits = self._waits and "write_concern" not in options
            found = DirectCollection(collection, self._reader, self._writer, concern, waits=waits)
            self._others[name] = found
        return found

    async def _write(self, command: Document) -> Document | None:
        return await self._writer.write(command, waits=self._waits)

    def find(
        self, query: Mapping[str, Any] | None = None, projection: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        if not options.keys() <= _FIND_OPTIONS:
            return self._collection.find(query, projection, **options)
        command: Document = {"find": self.name, "filter": query or {}, "batchSize": _ALL}
        command["readConcern"] = self._read_concern
        if projection:
            command["projection"] = projection
        if options.get("sort"):
            command["sort"] = dict(options["sort"])
        if options.get("limit"):
            command["limit"] = options["limit"]
        if hint := options.get("hint"):
            command["hint"] = hint if isinstance(hint, str) else dict(hint)
        batch = options.get("batch_size")
        return DirectCursor(self._reader, command, lambda: self._collection.find(query, projection, **options), batch)

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
        command: Document = {"aggregate": self.name, "pipeline": pipeline, "cursor": {"batchSize": _ALL}}
        command["readConcern"] = self._read_concern
        batch = options.get("batchSize")
        return DirectCursor(self._reader, command, lambda: self._collection.aggregate(pipeline, **options), batch)

    async def insert_one(self, document: Document, **options: Any) -> Any:
        # Documents of other types are encoded, e.g. raw ones.
        if not options and isinstance(document, dict):
            if "_id" not in document:
                document["_id"] = ObjectId()
            answer = await self._write({"insert": self.name, "documents": [document]})
            if answer is not None:
                require_done(answer)
                return InsertOneResult(document["_id"], acknowledged=True)
        return await self._collection.insert_one(document, **options)

    async def update_one(self, query: Mapping[str, Any], change: Any, *more: Any, **options: Any) -> UpdateResult:
        if not more and options.keys() <= _UPDATE_OPTIONS.keys() and _is_change(change):
            update = {"q": query, "u": change, **{_UPDATE_OPTIONS[name]: value for name, value in options.items()}}
            answer = await self._write({"update": self.name, "updates": [update]})
            if answer is not None:
                require_done(answer)
                return update_result(answer)
        updated: UpdateResult = await self._collection.update_one(query, change, *more, **options)
        return updated

    async def delete_one(self, query: Mapping[str, Any], **options: Any) -> DeleteResult:
        if not options:
            answer = await self._write({"delete": self.name, "deletes": [{"q": query, "limit": 1}]})
            if answer is not None:
                require_done(answer)
                return DeleteResult({"n": answer["n"]}, acknowledged=True)
        deleted: DeleteResult = await self._collection.delete_one(query, **options)
        return deleted

    async def bulk_write(self, requests: Sequence[Any], ordered: bool = True, **options: Any) -> BulkWriteResult:
        if not options and requests and all(isinstance(request, Update) for request in requests):
            updates = [request.statement for request in requests]
            answer = await self._write({"update": self.name, "updates": updates, "ordered": ordered})
            if answer is not None:
                return bulk_result(answer)
        written: BulkWriteResult = await self._collection.bulk_write(requests, ordered=ordered, **options)
        return written

    async def find_one_and_update(
        self, query: Mapping[str, Any], change: Any, projection: Any = None, *more: Any, **options: Any
    ) -> Document | None:
        is_simple = not more and options.keys() <= _FIND_AND_UPDATE_OPTIONS.keys() and _is_change(change)
        if is_simple and (projection is None or isinstance(projection, Mapping)):
            command: Document = {"findAndModify": self.name, "query": query, "update": change, "fields": projection}
            command |= {_FIND_AND_UPDATE_OPTIONS[name]: value for name, value in options.items()}
            answer = await self._write(command)
            if answer is not None:
                require_done(answer)
                one: Document | None = answer["value"]
                return one
        found: Document | None = await self._collection.find_one_and_update(query, change, projection, *more, **options)
        return found


def _is_change(change: Any) -> bool:
    """Returns whether an update changes fields. Otherwise it replaces the document, which the driver refuses."""
    return bool(change) and (isinstance(change, list) or next(iter(change)).startswith("$"))


class DirectCursor:
    """The result of a read. `to_list` reads directly. So does an iteration, unless the result needs several batches."""

    def __init__(
        self, reader: Reader, command: Document, ordinary: Callable[[], Any], batch: int | None = None
    ) -> None:
        self._reader = reader
        self._command = command
        self._batch = {"batchSize": batch or _BATCH}
        self._ordinary = ordinary

    async def to_list(self) -> list[Document]:
        found = await self._reader.read(self._command)
        if found is not None:
            return found
        meter = METER.get()
        if meter is None:
            whole: list[Document] = await (await self._by_driver()).to_list()
            return whole
        async with meter.alone(), await self._by_driver() as cursor:
            documents: list[Document] = []
            async for document in cursor:
                # A further batch is read only if the operation may hold more.
                meter.require()
                documents.append(document)
        return documents

    async def __aiter__(self) -> AsyncIterator[Document]:
        first = {"cursor": self._batch} if "pipeline" in self._command else self._batch
        found = await self._reader.read({**self._command, **first})
        if found is None:
            async for document in await self._by_driver():
                yield document
            return
        for document in found:
            yield document

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ordinary(), name)

    async def _by_driver(self) -> Any:
        cursor = self._ordinary()
        return await cursor if inspect.isawaitable(cursor) else cursor
