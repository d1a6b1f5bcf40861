"""Prepares the data for a call that is stopped anywhere: creates it once, and restores it for every stop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, ClassVar

import bson
from pymongo import DeleteMany, InsertOne, ReplaceOne

from portico.resolvers.documents import Database, Document
from tests.support.harness import Answer, GatewayClient, SettableClock
from tests.support.interruptions import crashing

Given = dict[str, Any]
Write = DeleteMany | InsertOne[Document] | ReplaceOne[Document]


class Snapshot:
    """The documents of collections, to restore them."""

    def __init__(self, db: Database, collections: Sequence[str]) -> None:
        self._db = db
        self._collections = collections
        self._documents: dict[str, list[Document]] = {}

    async def take(self) -> None:
        self._documents = await self._read()

    async def restore(self) -> None:
        """Writes only what differs, because writes cost more than all other parts of a test that stops a call."""
        found = await self._read()
        await asyncio.gather(*(self._restore(name, found[name]) for name in self._collections))

    async def _read(self) -> dict[str, list[Document]]:
        """Reads all collections with one command."""
        documents: dict[str, list[Document]] = {name: [] for name in self._collections}
        stages = [[{"$project": {"_id": 0, "of": {"$literal": name}, "whole": "$$ROOT"}}] for name in documents]
        others = [
            {"$unionWith": {"coll": name, "pipeline": stage}}
            for name, stage in zip(self._collections[1:], stages[1:], strict=True)
        ]
        cursor = await self._db[self._collections[0]].aggregate([*stages[0], *others])
        for row in await cursor.to_list():
            documents[row["of"]].append(row["whole"])
        return documents

    async def _restore(self, name: str, found: list[Document]) -> None:
        kept, now = _by_id(self._documents[name]), _by_id(found)
        # The encoded documents, because Python does not tell 1 from 1.0 and True.
        changed = [one for key, one in kept.items() if key in now and bson.encode(one) != bson.encode(now[key])]
        writes: list[Write] = [ReplaceOne({"_id": document["_id"]}, document) for document in changed]
        writes += [InsertOne(document) for key, document in kept.items() if key not in now]
        if new := [document["_id"] for key, document in now.items() if key not in kept]:
            writes.insert(0, DeleteMany({"_id": {"$in": new}}))
        if writes:
            await self._db[name].bulk_write(writes)


def _by_id(documents: Iterable[Document]) -> dict[bytes, Document]:
    return {bson.encode({"_id": document["_id"]}): document for document in documents}


class Stage(ABC):
    """A gateway with the data that `build` creates, and its calls."""

    collections: ClassVar[Sequence[str]]

    def __init__(self, gateway: GatewayClient, clock: SettableClock) -> None:
        self.gateway = gateway
        self.clock = clock
        self._snapshot: Snapshot | None = None
        self._offset = timedelta()

    @abstractmethod
    async def build(self) -> None:
        """Creates the data for the calls."""

    async def restore(self) -> None:
        """Restores the data and the time to the state after `build`."""
        if self._snapshot is None:
            await self.build()
            self._snapshot = Snapshot(self.gateway.db, self.collections)
            await self._snapshot.take()
            self._offset = self.clock.offset
            return
        await self._snapshot.restore()
        self.clock.offset = self._offset

    async def ask(self, mutation: str, given: Given) -> Answer:
        kind = "Tags" if mutation.endswith("Tags") else mutation[0].upper() + mutation[1:]
        text = f"mutation ($input: {kind}Input!) {{ {mutation}(input: $input) {{ __typename }} }}"
        return await self.gateway.ask(text, {"input": given})

    async def typename_of(self, mutation: str, given: Given) -> str:
        """Calls the mutation. Returns the `__typename` of its union member."""
        return str((await self.ask(mutation, given)).data[mutation]["__typename"])

    async def crash(self, mutation: str, given: Given, stop: int) -> bool:
        """Crashes the call after this number of changes. Returns False if the call ends before."""
        with crashing(self.gateway, stop) as faulty:
            answer = await self.ask(mutation, given)
        if faulty.has_crashed:
            assert (answer.body["data"], answer.codes) == ({mutation: None}, ["INTERNAL"])
        return bool(faulty.has_crashed)
