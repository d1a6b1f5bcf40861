"""Documents that belong to objects of another domain, and go when these are gone.

A document holds the key of its object, by which the object is found, and the object's `_id`, for another object may get
the key later. An `_id` never comes back. So of the `_id`s that documents with a key hold, each is gone for ever that is
not the one of the present object, if that is read after them.

Who writes a document looks for what is gone afterwards. Either the object is gone by then, and the document is removed;
or it is removed later, and then whoever deletes the object finds the document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from . import attachments
from .attachments import Target
from .documents import CollectionSpec, Database, Document, DocumentId
from .paging import value_at


class Owned(NamedTuple):
    """A collection of documents that belong to objects: where they hold an object's key, and where its `_id`."""

    spec: CollectionSpec
    key: str
    of: str


@dataclass(frozen=True)
class OwnedDocuments:
    """The attachment of documents that belong to objects of a kind. They refuse no deletion."""

    kind: str
    collections: tuple[Owned, ...]

    async def remove_gone(self, db: Database, key: str) -> set[DocumentId]:
        """Removes the documents of objects that had the key and are gone. Returns the `_id`s of these objects."""
        found: set[DocumentId] = set()
        for spec, key_path, of_path in self.collections:
            found.update(await db[spec.name].distinct(of_path, {key_path: key}))
        present = await attachments.find_one(db, self.kind, key)
        gone = found - {None if present is None else present["_id"]}
        if gone:
            for spec, key_path, of_path in self.collections:
                await db[spec.name].delete_many({key_path: key, of_path: {"$in": list(gone)}})
        return gone

    def after_write(self, spec: CollectionSpec) -> Callable[[Database, Document], Awaitable[None]]:
        """The step after a write of a document of this collection: removes it where its object has gone meanwhile."""
        key_path = next(owned.key for owned in self.collections if owned.spec is spec)

        async def look(db: Database, document: Document) -> None:
            await self.remove_gone(db, value_at(document, key_path))

        return look

    def belongs_to(self, kind: str) -> bool:
        return kind == self.kind

    async def close(self, db: Database, target: Target, *, by: str, now: datetime) -> bool:  # noqa: ARG002
        return True

    async def settle(
        self,
        db: Database,
        target: Target,
        *,
        by: str,  # noqa: ARG002
        present: DocumentId | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> None:
        await self.remove_gone(db, target.key)

    async def drop(self, db: Database, target: Target, *, by: str, now: datetime) -> None:  # noqa: ARG002
        await self.remove_gone(db, target.key)
