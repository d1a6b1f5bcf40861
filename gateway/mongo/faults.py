"""Simulates a crash of the process between any two of its database commands.

Each step of a write is a command, so writes need no code for these tests. A test gives the gateway a `FaultyDatabase`
in place of its database. A gateway in production has none, so it has no overhead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from portico.resolvers.documents import Database

COMMANDS = {
    "aggregate",
    "bulk_write",
    "count_documents",
    "delete_many",
    "delete_one",
    "distinct",
    "find",
    "find_one",
    "find_one_and_update",
    "insert_many",
    "insert_one",
    "update_many",
    "update_one",
}


class Crash(Exception):
    """The simulated process has crashed. All its later commands fail, too."""


class FaultyDatabase:
    """A database that fails the command with this number, counted from 0, and every later command.

    `commands` lists the commands, as (collection, method).
    """

    def __init__(self, database: Any, stop_before: int | None) -> None:
        self._database = database
        self._stop_before = stop_before
        self.commands: list[tuple[str, str]] = []

    @classmethod
    def around(cls, database: Database, stop_before: int | None = None) -> tuple[FaultyDatabase, Database]:
        """Returns the faulty database twice: with its own type, and with the type that resolvers take."""
        faulty = cls(database, stop_before)
        return faulty, cast("Database", faulty)

    @property
    def has_crashed(self) -> bool:
        return self._stop_before is not None and len(self.commands) > self._stop_before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> FaultyCollection:
        return FaultyCollection(self._database[name], lambda method: self._reach(name, method))

    def _reach(self, collection: str, method: str) -> None:
        self.commands.append((collection, method))
        if self.has_crashed:
            raise Crash


class FaultyCollection:
    def __init__(self, collection: Any, reach: Callable[[str], None]) -> None:
        self._collection = collection
        self._reach = reach

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._collection, name)
        if name not in COMMANDS:
            return method

        def guarded(*args: Any, **kwargs: Any) -> Any:
            self._reach(name)
            return method(*args, **kwargs)

        return guarded
