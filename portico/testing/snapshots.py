"""The documents of collections, to restore them for each try."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import bson
from pymongo import DeleteMany, InsertOne, ReplaceOne

from portico.resolvers.documents import Database, Document

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
