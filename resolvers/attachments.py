"""Data that a domain keeps with the objects of another domain, and what happens to it when an object is deleted.

The domain that owns a kind declares a `Host`, which finds its objects. A domain that keeps data with them declares an
`Attachment`, e.g. the stock of a product or the discussion about it. Neither domain imports the other.

A deletion removes the attachments in one of two ways:

* It deletes the object, then *drops* the attachments. An intent that it has announced before lets a job repeat the
  drop after a crash.
* It marks the object, *closes* the attachments, deletes the object, and *settles* the attachments. A deletion uses this
  way if an attachment may refuse it, or if another object may take the key immediately:

      open --close--> closed by this deletion --settle, the object is deleted--> removed
        ^                       |
        +-settle, object exists-+

Each step is idempotent and names its deletion, so a process that resumes late does not affect a later deletion.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias

from .documents import CollectionSpec, Database, Document, DocumentId
from .projections import value_at


@dataclass(frozen=True)
class Host:
    """A kind whose objects can have attachments.

    `find` reads objects by key. Each has its `_id`, and the mark `deleting: {id}` if a deletion has closed its
    attachments. `find_named` finds an object by a readable name, such as a path or a SKU, and returns its key and
    `_id`. `being_deleted` returns the keys of the objects whose attachments a deletion is about to drop. `find_authors`
    returns the subjects of those who have written the objects, by key: they are notified of comments.
    """

    kind: str
    find: Callable[[Database, Sequence[str]], Awaitable[Mapping[str, Mapping[str, Any]]]]
    find_named: Callable[[Database, str], Awaitable[tuple[str, DocumentId] | None]] | None = None
    being_deleted: Callable[[Database], Awaitable[set[str]]] | None = None
    find_authors: Callable[[Database, Sequence[str]], Awaitable[Mapping[str, str]]] | None = None


class Hosts:
    """The kinds of one gateway whose objects can have attachments."""

    def __init__(self, hosts: Iterable[Host] = ()) -> None:
        self._hosts: Mapping[str, Host] = {host.kind: host for host in hosts}

    def __contains__(self, kind: object) -> bool:
        return kind in self._hosts

    async def find(self, db: Database, targets: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Mapping[str, Any]]:
        """Returns the objects, given by kind and key, that exist. Objects of another kind count as missing."""
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for host in self._hosts.values():
            keys = [key for kind, key in targets if kind == host.kind]
            if keys:
                found |= {(host.kind, key): document for key, document in (await host.find(db, keys)).items()}
        return found

    async def find_one(self, db: Database, kind: str, key: str) -> Mapping[str, Any] | None:
        """Returns the object of this kind with this key; None if there is none or the kind is no host."""
        return (await self.find(db, [(kind, key)])).get((kind, key))

    async def find_authors(self, db: Database, targets: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Returns the authors of these objects, given by kind and key. Leaves out objects that have none."""
        found: dict[tuple[str, str], str] = {}
        for host in self._hosts.values():
            keys = [key for kind, key in targets if kind == host.kind]
            if keys and host.find_authors is not None:
                found |= {(host.kind, key): author for key, author in (await host.find_authors(db, keys)).items()}
        return found

    async def find_named(self, db: Database, name: str) -> Attachments.Target | None:
        """Finds an object of any kind by its readable name, such as a path or a SKU."""
        for host in self._hosts.values():
            named = None if host.find_named is None else await host.find_named(db, name)
            if named is not None:
                return Attachments.Target(host.kind, *named)
        return None

    async def being_deleted(self, db: Database) -> set[tuple[str, str]]:
        """Returns kind and key of the objects whose attachments a deletion is about to drop."""
        return {
            (host.kind, key)
            for host in self._hosts.values()
            if host.being_deleted is not None
            for key in await host.being_deleted(db)
        }


class Attachment(Protocol):
    """Data that a domain keeps with objects of some kinds."""

    def belongs_to(self, kind: str) -> bool:
        """Returns whether objects of the kind can have this attachment."""
        ...

    async def close(self, db: Database, target: Attachments.Target, *, by: str, now: datetime) -> bool:
        """Blocks the attachment until the deletion `by` is settled. Returns False if another deletion has closed it.

        Raises a DomainError to refuse the deletion.
        """
        ...

    async def settle(
        self,
        db: Database,
        hosts: Hosts,
        target: Attachments.Target,
        *,
        by: str,
        present: DocumentId | None,
        now: datetime,
    ) -> None:
        """Ends what `close` began. `present` is the `_id` of the object that has the key now; None if there is none."""
        ...

    async def drop(self, db: Database, hosts: Hosts, target: Attachments.Target, *, by: str, now: datetime) -> None:
        """Removes the attachment of a deleted object, or lets a job remove it."""
        ...


@dataclass(frozen=True)
class OwnedDocuments:
    """The attachment of documents that belong to objects of a kind, and that are deleted together with them.

    `collections` has the collections of such documents, each with the paths at which they store their object's key and
    `_id`. The key finds the object. The `_id` tells it from another object, which can take the key later. This
    attachment refuses no deletion, and no document is left behind:

    1. An `_id` is never reused. So if you read the `_id`s that documents with a key store, and then the current object
       with the key, every other `_id` belongs to a deleted object.
    2. A writer checks for deleted objects after its write. If the object is deleted by then, the writer removes its
       document. If the object is deleted later, the deletion finds the document.
    """

    kind: str
    collections: Sequence[tuple[CollectionSpec, str, str]]

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

    async def close(self, db: Database, target: Attachments.Target, *, by: str, now: datetime) -> bool:  # noqa: ARG002
        return True

    async def settle(
        self,
        db: Database,
        hosts: Hosts,
        target: Attachments.Target,
        *,
        by: str,  # noqa: ARG002
        present: DocumentId | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> None:
        await self.remove_gone(db, hosts, target.key)

    async def drop(self, db: Database, hosts: Hosts, target: Attachments.Target, *, by: str, now: datetime) -> None:  # noqa: ARG002
        await self.remove_gone(db, hosts, target.key)


class Attachments:
    """The attachments of one gateway. Deletions close them in this order."""

    class Target(NamedTuple):
        """An object that has attachments. `of` is its `_id`; None if only the key is known."""

        kind: str
        key: str
        of: DocumentId | None

    # Documents that are deleted together with their objects.
    Owned: TypeAlias = OwnedDocuments

    def __init__(self, hosts: Hosts, attachments: Iterable[Attachment] = ()) -> None:
        self._hosts = hosts
        self._all: Sequence[Attachment] = tuple(attachments)

    async def close(self, db: Database, target: Target, *, by: str, now: datetime) -> bool:
        """Closes every attachment. Returns False if another deletion has closed one.

        The caller must call `settle` in every case. Raises the DomainError of an attachment that refuses the deletion.
        """
        for attachment in self._of(target.kind):
            if not await attachment.close(db, target, by=by, now=now):
                return False
        return True

    async def settle(self, db: Database, target: Target, *, by: str, present: DocumentId | None, now: datetime) -> None:
        """Ends what `close` began, for every attachment in reverse order. Idempotent."""
        for attachment in reversed(self._of(target.kind)):
            await attachment.settle(db, self._hosts, target, by=by, present=present, now=now)

    async def drop(self, db: Database, target: Target, *, by: str, now: datetime) -> None:
        """Drops every attachment of a deleted object. Idempotent."""
        for attachment in self._of(target.kind):
            await attachment.drop(db, self._hosts, target, by=by, now=now)

    def _of(self, kind: str) -> list[Attachment]:
        return [attachment for attachment in self._all if attachment.belongs_to(kind)]
