"""Stops a write between two of its commands, or runs an action there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

from portico.gateway.mongo.faults import COMMANDS
from portico.resolvers.documents import Database, Document

Action = Callable[[], Awaitable[object]]


def interrupted(
    database: Database, collection: str | None, method: str | None, action: Action, *, skip: int = 0
) -> Database:
    """Returns the database with an `action` that runs once, before a command on the collection by the method.

    The action skips the first `skip` such commands. None as the collection or the method means any.
    """
    return cast("Database", _InterruptedDatabase(database, collection, method, _Interruption(action, skip)))


def delayed(database: Database, rng: random.Random, longest: float) -> Database:
    """Returns the database with a random delay of up to `longest` seconds before every command."""

    async def delay() -> None:
        await asyncio.sleep(rng.uniform(0, longest))

    return before_every_command(database, delay)


def before_every_command(
    database: Database, action: Action, *, collection: str | None = None, method: str | None = None
) -> Database:
    """Returns the database with an `action` that runs before every command, on a collection or by a method if given."""
    return cast("Database", _InterruptedDatabase(database, collection, method, _EveryTime(action, 0)))


class _Interruption:
    def __init__(self, action: Action, skip: int) -> None:
        self._action: Action | None = action
        self._skip = skip

    async def reach(self) -> None:
        if self._action is None:
            return
        if self._skip:
            self._skip -= 1
            return
        action, self._action = self._action, None
        await action()


class _EveryTime(_Interruption):
    async def reach(self) -> None:
        if self._action is not None:
            await self._action()


class _InterruptedDatabase:
    def __init__(
        self, database: Database, collection: str | None, method: str | None, interruption: _Interruption
    ) -> None:
        self._database = database
        self._collection = collection
        self._method = method
        self._interruption = interruption

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> Any:
        collection = self._database[name]
        if self._collection not in {None, name}:
            return collection
        return _InterruptedCollection(collection, self._method, self._interruption)


class _InterruptedCollection:
    def __init__(self, collection: Any, method: str | None, interruption: _Interruption) -> None:
        self._collection = collection
        self._method = method
        self._interruption = interruption

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._collection, name)
        if name == "with_options":
            return lambda **options: _InterruptedCollection(method(**options), self._method, self._interruption)
        if name not in ({self._method} if self._method else COMMANDS):
            return method
        if name == "find":
            return lambda *args, **kwargs: _InterruptedCursor(method(*args, **kwargs), self._interruption)

        async def later(*args: Any, **kwargs: Any) -> Any:
            await self._interruption.reach()
            return await method(*args, **kwargs)

        return later


class _InterruptedCursor:
    def __init__(self, cursor: Any, interruption: _Interruption) -> None:
        self._cursor = cursor
        self._interruption = interruption

    def __getattr__(self, name: str) -> Any:
        def refined(*args: Any, **kwargs: Any) -> _InterruptedCursor:
            return _InterruptedCursor(getattr(self._cursor, name)(*args, **kwargs), self._interruption)

        return refined

    async def to_list(self) -> list[Document]:
        await self._interruption.reach()
        return cast("list[Document]", await self._cursor.to_list())

    async def __aiter__(self) -> AsyncIterator[Document]:
        await self._interruption.reach()
        async for document in self._cursor:
            yield document
