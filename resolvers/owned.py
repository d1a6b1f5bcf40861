"""Documents that belong to objects of another domain, and that are deleted together with them.

A document stores the key of its object, to find the object, and the object's `_id`, because another object can take the
key later. No document is left behind:

1. An `_id` is never reused. So if you read the `_id`s that documents with a key store, and then the current object
   with the key, every other `_id` belongs to a deleted object.
2. A writer checks for deleted objects after its write. If the object is deleted by then, the writer removes its
   document. If the object is deleted later, the deletion finds the document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from .attachments import Hosts, Target
from .documents import CollectionSpec, Database, Document, DocumentId
from .projections import value_at

# A collection of such documents, with the paths at which they store their object's key and `_id`.
Owned = tuple[CollectionSpec, str, str]


@dataclass(frozen=True)
class OwnedDocuments:
    """The attachment of documents that belong to objects of a kind. It refuses no deletion.

    `collections` has the collections of such documents, each with the paths at which they store their object's key and
    `_id`.
    """

    kind: str
    collections: Sequence[Owned]

    async def remove_gone(self, db: Database, hosts: Hosts, key: str) -> set[DocumentId]:
        """Removes the documents of deleted objects that had the key. Returns the `_id`s of these objects."""
        found: set[DocumentId] = set()
        for spec, key_path, of_path in self.collections:
            found.update(await db[spec.name].distinct(of_path, {key_path: key}))
        present = await hosts.find_one(db, self.kind, key)
        gone = found - {None if present is None else present["_id"]}
        if gone:
            for spec, key_path, of_path in self.collections:
                await db[spec.name].delete_many({key_path: key, of_path: {"$in": list(gone)}})
        return gone

    def after_write(self, spec: CollectionSpec) -> Callable[[Database, Hosts, Document], Awaitable[None]]:
        """Returns the step after a write to this collection: it removes the document if its object is deleted."""
        key_path = next(key for owned, key, _ in self.collections if owned is spec)

        async def remove_if_gone(db: Database, hosts: Hosts, document: Document) -> None:
            await self.remove_gone(db, hosts, value_at(document, key_path))

        return remove_if_gone

    def belongs_to(self, kind: str) -> bool:
        return kind == self.kind

    async def close(self, db: Database, target: Target, *, by: str, now: datetime) -> bool:  # noqa: ARG002
        return True

    async def settle(
        self,
        db: Database,
        hosts: Hosts,
        target: Target,
        *,
        by: str,  # noqa: ARG002
        present: DocumentId | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> None:
        await self.remove_gone(db, hosts, target.key)

    async def drop(self, db: Database, hosts: Hosts, target: Target, *, by: str, now: datetime) -> None:  # noqa: ARG002
        await self.remove_gone(db, hosts, target.key)
