"""Prepares the data for a call that is stopped anywhere: creates it once, and restores it for every stop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from portico.resolvers.documents import Database, Document

from .harness import Answer, GatewayClient, SettableClock
from .interruptions import crashing

Given = dict[str, Any]


class Snapshot:
    """The documents of collections, to restore them."""

    def __init__(self, db: Database, collections: Sequence[str]) -> None:
        self._db = db
        self._documents: dict[str, list[Document]] = {name: [] for name in collections}

    async def take(self) -> None:
        for name in self._documents:
            self._documents[name] = await self._db[name].find({}).to_list()

    async def restore(self) -> None:
        await asyncio.gather(*(self._restore(name, documents) for name, documents in self._documents.items()))

    async def _restore(self, name: str, documents: list[Document]) -> None:
        await self._db[name].delete_many({})
        if documents:
            await self._db[name].insert_many(documents)


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
