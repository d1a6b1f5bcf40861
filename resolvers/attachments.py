"""What a domain keeps with the objects of another, and how that goes when an object is deleted.

The domain that owns a kind registers a `Host`: how its objects are found. A domain that keeps something with them
registers an `Attachment`, e.g. the stock of a product or the discussion about it. Neither imports the other.

A deletion takes its attachments along in one of two ways:

* It *drops* them once the object is gone. An intent, announced before, lets a job repeat that.
* It *closes* them first, under a mark on the object, where an attachment may refuse the deletion, or where another
  object may get the key at once. Then it removes the object, and *settles* what it has closed:

      open --close--> closed by this deletion --settle, the object is gone--> gone
        ^                       |
        +--settle, it is there--+

Each step may be repeated, and names the deletion, so a process that resumes late changes nothing of a later one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from .documents import Database, Document, DocumentId


class Target(NamedTuple):
    """An object that has attachments. `of` is its `_id`; None where only the key is known."""

    kind: str
    key: str
    of: DocumentId | None


@dataclass(frozen=True)
class Host:
    """A kind whose objects can have attachments.

    `find` reads objects by their keys: each with its `_id`, and with the mark `deleting: {id}` of a deletion that has
    closed its attachments. `find_named` reads the one that people call by a name, such as a path or a SKU, and returns
    its key and `_id`. `being_deleted` returns the keys of objects whose attachments a deletion is about to drop.
    """

    kind: str
    find: Callable[[Database, Sequence[str]], Awaitable[dict[str, Document]]]
    find_named: Callable[[Database, str], Awaitable[tuple[str, DocumentId] | None]] | None = None
    being_deleted: Callable[[Database], Awaitable[set[str]]] | None = None


class Attachment(Protocol):
    """Something that a domain keeps with objects of some kinds."""

    def belongs_to(self, kind: str) -> bool:
        """Whether objects of the kind may have it."""
        ...

    async def close(self, db: Database, target: Target, *, by: str, now: datetime) -> bool:
        """Keeps it from being used until the deletion `by` is settled. False where another deletion has closed it.

        Raises a DomainError to refuse the deletion.
        """
        ...

    async def settle(self, db: Database, target: Target, *, by: str, present: DocumentId | None, now: datetime) -> None:
        """Ends what `close` began. `present` is the `_id` of the object that has the key now; None where none has."""
        ...

    async def drop(self, db: Database, target: Target, *, by: str, now: datetime) -> None:
        """Removes it, or lets a job remove it, for the object is gone."""
        ...


_hosts: dict[str, Host] = {}
_attachments: list[Attachment] = []


def register(hosts: Iterable[Host], attachments: Iterable[Attachment]) -> None:
    """Sets the hosts and the attachments of this process, in the order in which deletions close them."""
    _hosts.clear()
    _hosts.update((host.kind, host) for host in hosts)
    _attachments[:] = attachments


def hosts() -> Sequence[Host]:
    return tuple(_hosts.values())


def is_host(kind: str) -> bool:
    """Whether objects of the kind can have attachments: whether a domain that is served has registered it."""
    return kind in _hosts


async def find(db: Database, targets: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Document]:
    """Those of the objects, given by kind and key, that exist. Of a kind that is not served none does."""
    found: dict[tuple[str, str], Document] = {}
    for host in _hosts.values():
        keys = [key for kind, key in targets if kind == host.kind]
        if keys:
            found |= {(host.kind, key): document for key, document in (await host.find(db, keys)).items()}
    return found


async def find_one(db: Database, kind: str, key: str) -> Document | None:
    """The object of this kind with this key; None where there is none, or the kind is not served."""
    return (await find(db, [(kind, key)])).get((kind, key))


async def find_named(db: Database, name: str) -> Target | None:
    """The object that people call by this name."""
    for host in _hosts.values():
        named = None if host.find_named is None else await host.find_named(db, name)
        if named is not None:
            return Target(host.kind, *named)
    return None


async def being_deleted(db: Database) -> set[tuple[str, str]]:
    """Kind and key of the objects whose attachments a deletion is about to drop."""
    return {
        (host.kind, key)
        for host in _hosts.values()
        if host.being_deleted is not None
        for key in await host.being_deleted(db)
    }


async def close(db: Database, target: Target, *, by: str, now: datetime) -> bool:
    """Closes every attachment. False where another deletion has closed one. Raises the DomainError of one that refuses.

    The caller settles in either case.
    """
    for attachment in _of(target.kind):
        if not await attachment.close(db, target, by=by, now=now):
            return False
    return True


async def settle(db: Database, target: Target, *, by: str, present: DocumentId | None, now: datetime) -> None:
    """Ends what `close` began, for every attachment, the last one first. May be repeated."""
    for attachment in reversed(_of(target.kind)):
        await attachment.settle(db, target, by=by, present=present, now=now)


async def drop(db: Database, target: Target, *, by: str, now: datetime) -> None:
    """Drops every attachment of an object that is gone. May be repeated."""
    for attachment in _of(target.kind):
        await attachment.drop(db, target, by=by, now=now)


def _of(kind: str) -> list[Attachment]:
    return [attachment for attachment in _attachments if attachment.belongs_to(kind)]
