"""Inserts many copies of a document quickly: the part that all copies share is encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bson import BSON, ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import WriteConcern

from portico.resolvers.documents import Database, Document

# A document to insert.
Stored = Document | RawBSONDocument

# The most documents of a command, and about the most bytes.
_BATCH, _BYTES = 10_000, 16_000_000


class Template:
    """A document without the fields in which its copies differ."""

    def __init__(self, shared: Mapping[str, Any]) -> None:
        self._shared = _elements(shared)

    def copy(self, own: Mapping[str, Any]) -> RawBSONDocument:
        """Returns a copy with these fields. `_id` is among them."""
        elements = _elements(own) + self._shared
        return RawBSONDocument((len(elements) + 5).to_bytes(4, "little") + elements + b"\0")


def without(document: Mapping[str, Any], *names: str) -> Template:
    return Template({name: value for name, value in document.items() if name not in names})


def numbered(kind: str, number: int) -> ObjectId:
    """Returns an id that depends on nothing else, so that operations need not look for it."""
    return ObjectId(kind.encode().ljust(4)[:4] + number.to_bytes(8, "big"))


async def insert(db: Database, name: str, documents: Iterable[Stored]) -> None:
    """Inserts documents in large batches. Does not wait until they are in the journal."""
    collection = db[name].with_options(write_concern=WriteConcern(1, j=False))
    batch: list[Stored] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.raw) if isinstance(document, RawBSONDocument) else 1_000
        if len(batch) == _BATCH or size > _BYTES:
            await collection.insert_many(batch, ordered=False)
            batch, size = [], 0
    if batch:
        await collection.insert_many(batch, ordered=False)


def _elements(document: Mapping[str, Any]) -> bytes:
    """Returns the encoded fields, without the length before them and the zero after them."""
    return bytes(BSON.encode(document))[4:-1]
