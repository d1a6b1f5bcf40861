"""Roll-ups: documents that are computed from others, and stay right whatever crashes and however many write at once.

1. A write changes a document below and marks it `dirty`, by one update.
2. It computes the roll-up, and stores it if it still has the revision that it had before the documents were read.
   Otherwise another one was stored meanwhile, and it computes again. So the last roll-up that is stored has seen every
   write that an earlier one saw.
3. It takes its mark off, unless a later write has left another.

Each step may be repeated. A job does steps 2 and 3 where a crash has left a mark.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, key_of
from portico.resolvers.domains import Invariant, Job, Problem, Turn
from portico.resolvers.errors import Conflict

from .retries import attempts
from .sweeps import sweep

REVISION, DIRTY = "revision", "dirty"
# Every collection that is rolled up needs it.
DIRTY_INDEX = IndexModel([(f"{DIRTY}.at", ASCENDING)], sparse=True)
# What a write has left behind for so long is the job's.
LEFT_BEHIND = timedelta(seconds=5)


async def _nothing(_db: Database, _document: Document) -> None:
    """No further step."""


@dataclass(frozen=True)
class RollUp:
    """Documents of `into`, each computed from those of `below` that hold its `_id` at `path`.

    `compute` takes the database and that `_id`, and returns the fields of the roll-up; None where nothing is below it.
    `then` is done with the document below before its mark is taken off. Both may be repeated.
    """

    below: CollectionSpec
    path: str
    into: CollectionSpec
    compute: Callable[[Database, Any], Awaitable[Document | None]]
    then: Callable[[Database, Document], Awaitable[Any]] = _nothing

    def mark(self, operation_id: str, now: datetime) -> Document:
        """The fields that a write sets on a document below, beside what it changes."""
        return {DIRTY: {"by": operation_id, "at": now}}

    async def settle(self, db: Database, document: Document) -> None:
        """Brings the roll-up of a document below up to date, and takes its mark off. Raises Conflict.

        Args:     document: as it was read after the write.
        """
        await self.refresh(db, document[self.path])
        await self.then(db, document)
        if DIRTY in document:
            mark = {name: document[name] for name in (*key_of(self.below), DIRTY)}
            await db[self.below.name].update_one(mark, {"$unset": {DIRTY: ""}})

    async def refresh(self, db: Database, key: Any) -> None:
        """Computes one roll-up. Raises Conflict where others keep storing theirs."""
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
                # It has another revision by now.
                continue
            return
        raise Conflict("Too many are writing the same at once.")

    def job(self, name: str) -> Job:
        """The job that settles what crashes have left."""

        async def settle_all(turn: Turn) -> int:
            async def settle(document: Document) -> int:
                await self.settle(turn.db, document)
                return 1

            return await sweep(turn.db, self.below, {f"{DIRTY}.at": {"$lte": turn.now - LEFT_BEHIND}}, settle)

        return Job(name, settle_all)

    def invariant(self, name: str) -> Invariant:
        """What must hold: every roll-up is as `compute` says. `name` says so for people."""
        return Invariant(name, self._problems)

    async def _problems(self, db: Database) -> AsyncIterator[Problem]:
        below: Document = {"$group": {"_id": f"${self.path}"}}
        stored: Document = {"$unionWith": {"coll": self.into.name, "pipeline": [{"$project": {"_id": 1}}]}}
        async for row in await db[self.below.name].aggregate([below, stored, {"$group": {"_id": "$_id"}}]):
            key = row["_id"]
            fields, present = await self.compute(db, key), await db[self.into.name].find_one({"_id": key})
            is_right = present is None if fields is None else present is not None and fields.items() <= present.items()
            if not is_right:
                under_way = {self.path: key, DIRTY: {"$exists": True}}
                is_open = await db[self.below.name].find_one(under_way, {"_id": 1}) is not None
                text = "it is not what follows from the documents below it"
                yield Problem(f"{self.into.name} {key}", text, partial(self.refresh, db, key), is_open)
