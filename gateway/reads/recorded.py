"""A database handle that records what a run reads.

Every read of a run goes through the handle of its context, so relations, rules of visibility and loaders are recorded
like everything else. A run that is not recorded uses the database itself.

An interest in what a command reads begins before the command is sent. So a change that the command does not see
reaches the run: the event of a change arrives after the change.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from portico.resolvers.documents import ComparedProjection, Database, Document

from . import deriving
from .counting import NUMBER, Counts, Estimate
from .deriving import Matching
from .index import Read
from .plans import Plan
from .read_sets import ReadSet, Shown

# What reads nothing of the database, by attribute.
_NO_READS = {
    "bulk_write",
    "client",
    "codec_options",
    "database",
    "delete_many",
    "delete_one",
    "full_name",
    "insert_many",
    "insert_one",
    "name",
    "read_concern",
    "read_preference",
    "replace_one",
    "update_many",
    "update_one",
    "write_concern",
}


def recorded(database: Database, reads: ReadSet) -> Database:
    """Returns the database with its reads recorded in this read set."""
    return cast("Database", RecordedDatabase(database, reads))


class RecordedDatabase:
    def __init__(self, database: Any, reads: ReadSet) -> None:
        self._database = database
        self._reads = reads
        self._collections: dict[str, RecordedCollection] = {}

    def __getitem__(self, name: str) -> RecordedCollection:
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = RecordedCollection(self._database[name], self._reads)
        return found

    def __getattr__(self, name: str) -> Any:
        if name not in _NO_READS:
            self._reads.is_whole = False
        return getattr(self._database, name)

    async def part(self, read: Callable[[Database], Awaitable[Any]]) -> Any:
        """Reads a part of the run with a handle of its own. Returns what it returns."""
        if not self._reads.has_parts:
            return await read(cast("Database", self))
        return await self._reads.part(lambda own: read(recorded(self._database, own)))

    def with_options(self, **options: Any) -> RecordedDatabase:
        return RecordedDatabase(self._database.with_options(**options), self._reads)


class RecordedCollection:
    def __init__(self, collection: Any, reads: ReadSet) -> None:
        self._collection = collection
        self._reads = reads
        self.name: str = collection.name

    def __getattr__(self, name: str) -> Any:
        if name not in _NO_READS:
            self._reads.end(self._reads.begin(deriving.of_collection(self.name)), None)
        return getattr(self._collection, name)

    def with_options(self, **options: Any) -> RecordedCollection:
        return RecordedCollection(self._collection.with_options(**options), self._reads)

    def find(
        self, query: Mapping[str, Any] | None = None, projection: Mapping[str, Any] | None = None, **options: Any
    ) -> RecordedCursor | ComparedCursor:
        reads, find = self._reads, self._collection.find
        plan = deriving.of_find(self.name, query, projection, options)
        if reads.has_parts and (plan.is_compared or isinstance(projection, ComparedProjection)):
            return ComparedCursor(lambda: find(query, projection, **options), plan, reads, _shown_by(projection))
        return RecordedCursor(find(query, projection, **options), reads.begin(plan), reads)

    async def find_one(
        self, query: Mapping[str, Any] | None = None, projection: Mapping[str, Any] | None = None, **options: Any
    ) -> Document | None:
        plan = deriving.of_find(self.name, query, projection, {**options, "limit": 1})

        async def read(reads: ReadSet) -> list[Document]:
            read = reads.begin(plan)
            found: Document | None = await self._collection.find_one(query, projection, **options)
            rows = [] if found is None else [found]
            reads.end(read, rows)
            return rows

        is_part = self._reads.has_parts and isinstance(projection, ComparedProjection)
        rows = await (self._reads.part(read, _shown_by(projection)) if is_part else read(self._reads))
        return rows[0] if rows else None

    async def aggregate(self, pipeline: Sequence[Mapping[str, Any]], **options: Any) -> RecordedCursor | KnownRows:
        plan = deriving.of_pipeline(self.name, pipeline)
        if isinstance(plan, Counts) and (rows := await self._counted(plan)) is not None:
            return KnownRows(rows)
        if self._reads.has_parts and (plan.is_compared or isinstance(plan, Matching | Counts)):
            return KnownRows(await self._reads.part(lambda own: self._computed(plan, pipeline, options, own)))
        read = self._reads.begin(plan)
        return RecordedCursor(await self._collection.aggregate(pipeline, **options), read, self._reads)

    async def _computed(self, plan: Plan, pipeline: Any, options: Mapping[str, Any], reads: ReadSet) -> list[Document]:
        """Returns the rows of a pipeline, of which it is not known what they are made of."""
        read = reads.begin(plan)
        rows: list[Document] = await (await self._collection.aggregate(pipeline, **options)).to_list()
        reads.end(read, rows)
        return rows

    async def count_documents(self, query: Mapping[str, Any], **options: Any) -> int:
        plan = deriving.of_count(self.name, query)
        if not options and (rows := await self._counted(plan)) is not None:
            return int(rows[0][""]) if rows else 0
        if self._reads.has_parts:
            return int(await self._reads.part(lambda own: self._number(plan, query, options, own)))
        return await self._number(plan, query, options, self._reads)

    async def _number(self, plan: Plan, query: Mapping[str, Any], options: Mapping[str, Any], reads: ReadSet) -> int:
        read = reads.begin(plan)
        number = int(await self._collection.count_documents(query, **options))
        reads.end(read, None)
        return number

    async def _counted(self, plan: Counts) -> list[Document] | None:
        """Returns the rows of counts whose documents are few; None if one has many."""
        keys = plan.keys
        read = self._reads.begin(keys)
        found = await (await self._collection.aggregate(keys.pipeline())).to_list()
        rows = keys.answer(found)
        if rows is None:
            self._reads.drop(read)
        else:
            self._reads.end(read, found)
        return rows

    async def estimated_document_count(self, **options: Any) -> int:
        read = self._reads.begin(Estimate(self.name, options.get("comment")))
        number = int(await self._collection.estimated_document_count(**options))
        self._reads.end(read, [{NUMBER: number}])
        return number

    async def distinct(self, path: str, query: Mapping[str, Any] | None = None, **options: Any) -> list[Any]:
        read = self._reads.begin(deriving.of_values(self.name, path, query))
        found: list[Any] = await self._collection.distinct(path, query, **options)
        self._reads.end(read, None)
        return found


class KnownRows:
    """The result of a read that has been recorded."""

    def __init__(self, rows: list[Document]) -> None:
        self._rows = rows

    async def to_list(self) -> list[Document]:
        return self._rows

    async def __aiter__(self) -> AsyncIterator[Document]:
        for row in self._rows:
            yield row


class ComparedCursor:
    """The result of a read that is a part of the run: it is read again after a change, and its rows are compared."""

    def __init__(self, cursor: Callable[[], Any], plan: Plan, reads: ReadSet, shown: Shown | None) -> None:
        self._cursor = cursor
        self._plan = plan
        self._reads = reads
        self._shown = shown

    async def to_list(self) -> list[Document]:
        found: list[Document] = await self._reads.part(self._rows, self._shown)
        return found

    async def _rows(self, reads: ReadSet) -> list[Document]:
        read = reads.begin(self._plan)
        rows: list[Document] = await self._cursor().to_list()
        reads.end(read, rows)
        return rows

    async def __aiter__(self) -> AsyncIterator[Document]:
        for row in await self.to_list():
            yield row

    def __getattr__(self, name: str) -> Any:
        # Until the run ends, any document of its filter may be read.
        self._reads.begin(self._plan)
        return getattr(self._cursor(), name)


def _shown_by(projection: Mapping[str, Any] | None) -> Shown | None:
    """Returns what is compared of rows with this projection; None: the whole rows."""
    if not isinstance(projection, ComparedProjection):
        return None
    shown = projection.shown
    return lambda rows: list(map(shown, rows))


class RecordedCursor:
    """The result of a read. Until all of it is read, any document of its filter may be in it."""

    def __init__(self, cursor: Any, read: Read, reads: ReadSet) -> None:
        self._cursor = cursor
        self._read = read
        self._reads = reads

    async def to_list(self) -> list[Document]:
        found: list[Document] = await self._cursor.to_list()
        self._reads.end(self._read, found)
        return found

    async def __aiter__(self) -> AsyncIterator[Document]:
        found: list[Document] = []
        async for document in self._cursor:
            found.append(document)
            yield document
        self._reads.end(self._read, found)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)
