"""The results of reads of a run that is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from portico.resolvers.documents import Document

from .index import Read

if TYPE_CHECKING:
    from .recorded import ReadSet


class KnownRows:
    """The result of a read that has been recorded."""

    def __init__(self, rows: list[Document]) -> None:
        self._rows = rows

    async def to_list(self) -> list[Document]:
        return self._rows

    async def __aiter__(self) -> AsyncIterator[Document]:
        for row in self._rows:
            yield row


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
