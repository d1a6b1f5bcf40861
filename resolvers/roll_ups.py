"""Roll-ups: documents that are computed from others, correct under concurrency and after crashes.

1. A write changes a source document and marks it `dirty`, in one update.
2. It reads the revision of the roll-up, computes the roll-up, and stores it if the revision is still the same.
   Otherwise another process has stored one in between, and it computes again. So each stored roll-up includes every
   write that an earlier one included.
3. It removes its mark, unless a later write has set another.

Each step is idempotent. If a crash leaves a mark, a job does steps 2 and 3.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.declarations import Job
from portico.resolvers.documents import CollectionSpec, Database, Document, key_of
from portico.resolvers.errors import Conflict
from portico.resolvers.problems import Invariant, Problem

from .attachments import Hosts
from .writes.retries import attempts
from .writes.sweeps import STALE_AFTER, sweep

REVISION, DIRTY = "revision", "dirty"


async def _nothing(_db: Database, _hosts: Hosts, _document: Document) -> None:
    """Does nothing."""


@dataclass(frozen=True)
class RollUp:
    """Documents of `into`, each computed from the documents of `below` that store its `_id` at `path`.

    `compute` takes the database and that `_id`, and returns the fields of the roll-up; None if it has no sources.
    `then` runs with the hosts and the source document before its mark is removed. Both must be idempotent.
    It follows the changes of `below` alone: what writes another collection that `compute` reads calls `refresh`.
    The collection `below` needs the index `RollUp.INDEX`.
    """

    INDEX: ClassVar = IndexModel([(f"{DIRTY}.at", ASCENDING)], sparse=True)

    below: CollectionSpec
    path: str
    into: CollectionSpec
    compute: Callable[[Database, Any], Awaitable[Document | None]]
    then: Callable[[Database, Hosts, Document], Awaitable[Any]] = _nothing

    def mark(self, operation_id: str, now: datetime) -> Document:
        """Returns the fields that a write sets on a source document besides its changes."""
        return {DIRTY: {"by": operation_id, "at": now}}

    async def settle(self, db: Database, hosts: Hosts, document: Document) -> None:
        """Updates the roll-up of a source document and removes the document's mark. Raises Conflict.

        Args:     hosts: of the gateway.  document: as read after the write.
        """
        await self.refresh(db, document[self.path])
        await self.then(db, hosts, document)
        if DIRTY in document:
            mark = {name: document[name] for name in (*key_of(self.below), DIRTY)}
            await db[self.below.name].update_one(mark, {"$unset": {DIRTY: ""}})

    async def refresh(self, db: Database, key: Any) -> None:
        """Computes and stores one roll-up. Raises Conflict if concurrent writers keep replacing it."""
        stored = db[self.into.name]
        async for _ in attempts():
            present = await stored.find_one({"_id": key}, {REVISION: 1}) or {}
            guard = {"_id": key, REVISION: present.get(REVISION)}
            fields = await self.compute(db, key)
            if fields is None:
                if not present or (await stored.delete_one(guard)).deleted_count:
                    return
                continue
            try:
                await stored.update_one(guard, {"$set": {**fields, REVISION: ObjectId()}}, upsert=True)
            except DuplicateKeyError:
                # Another process has stored a new revision.
                continue
            return
        raise Conflict("Too many concurrent writes change the same data. Try again.")

    def job(self, name: str) -> Job:
        """Returns the job that settles the marks that crashes have left."""

        async def settle_all(run: Job.Run) -> int:
            hosts = run.resources.of(Hosts)

            async def settle(document: Document) -> int:
                await self.settle(run.db, hosts, document)
                return 1

            return await sweep(run.db, self.below, {f"{DIRTY}.at": {"$lte": run.now - STALE_AFTER}}, settle)

        return Job(name, settle_all)

    def invariant(self, name: str) -> Invariant:
        """Returns the invariant that every roll-up equals the result of `compute`. `name` is its readable name."""
        return Invariant(name, self._problems)

    async def _problems(self, db: Database) -> AsyncIterator[Problem]:
        below: Document = {"$group": {"_id": f"${self.path}"}}
        stored: Document = {"$unionWith": {"coll": self.into.name, "pipeline": [{"$project": {"_id": 1}}]}}
        async for row in await db[self.below.name].aggregate([below, stored, {"$group": {"_id": "$_id"}}]):
            key = row["_id"]
            fields, present = await self.compute(db, key), await db[self.into.name].find_one({"_id": key})
            text = _difference(fields, present)
            if text:
                under_way = {self.path: key, DIRTY: {"$exists": True}}
                is_open = await db[self.below.name].find_one(under_way, {"_id": 1}) is not None
                yield Problem(f"{self.into.name} {key}", text, partial(self.refresh, db, key), is_open)


def _difference(computed: Document | None, stored: Document | None) -> str:
    """Returns how a stored roll-up differs from the computed one; an empty text if it does not."""
    if computed is None:
        return "" if stored is None else "it is stored, but it has no source documents"
    if stored is None:
        return "it has source documents, but it is not stored"
    wrong = [
        f"`{name}` is {repr(stored[name]) if name in stored else 'missing'} instead of {value!r}"
        for name, value in computed.items()
        if name not in stored or stored[name] != value
    ]
    return f"it does not match its source documents: {', '.join(wrong)}" if wrong else ""
