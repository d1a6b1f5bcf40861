"""Simulates a crash of the process between any two of its database commands.

Each step of a write is a command, so writes need no code for these tests. A test gives the gateway a `FaultyDatabase`
in place of its database. A gateway in production has none, so it has no overhead.

Crashes are numbered by the commands that can change data: crash 0 is before the first command, and crash n is before
the first command after the n-th change. A crash before a later read, or before the next change, would leave the same
data. So these numbers stand for crashes before each command.

If the driver repeats a `findAndModify` whose answer it has lost, MongoDB 6.0 ignores the projection and answers with
the whole document. A `FaultyDatabase` always answers so. Writes must therefore not depend on a projection that computes
or selects, such as `$size` or `$elemMatch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from portico.resolvers.documents import Database

READS = {"aggregate", "count_documents", "distinct", "find", "find_one"}
CHANGES = {
    "bulk_write",
    "delete_many",
    "delete_one",
    "find_one_and_update",
    "insert_many",
    "insert_one",
    "update_many",
    "update_one",
}
COMMANDS = READS | CHANGES


class Crash(Exception):
    """The simulated process has crashed. All its later commands fail, too."""


class FaultyDatabase:
    """A database that fails the first command after this number of changes, and every later command.

    `commands` lists the commands, as (collection, method), with those that have failed. `changes` lists those that were
    sent and can change data.
    """

    def __init__(self, database: Any, stop_after: int | None) -> None:
        self._database = database
        self._stop_after = stop_after
        self.commands: list[tuple[str, str]] = []
        self.changes: list[tuple[str, str]] = []
        self.has_crashed = False

    @classmethod
    def around(cls, database: Database, stop_after: int | None = None) -> tuple[FaultyDatabase, Database]:
        """Returns the faulty database twice: with its own type, and with the type that resolvers take."""
        faulty = cls(database, stop_after)
        return faulty, cast("Database", faulty)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> FaultyCollection:
        return FaultyCollection(self._database[name], lambda method: self._reach(name, method))

    def _reach(self, collection: str, method: str) -> None:
        self.commands.append((collection, method))
        self.has_crashed |= len(self.changes) == self._stop_after
        if self.has_crashed:
            raise Crash
        if method in CHANGES:
            self.changes.append((collection, method))


class FaultyCollection:
    def __init__(self, collection: Any, reach: Callable[[str], None]) -> None:
        self._collection = collection
        self._reach = reach

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._collection, name)
        if name == "with_options":
            return lambda **options: FaultyCollection(method(**options), self._reach)
        if name not in COMMANDS:
            return method

        def guarded(*args: Any, **kwargs: Any) -> Any:
            self._reach(name)
            return method(*args, **kwargs)

        def without_projection(key: Any, update: Any, projection: Any = None, **kwargs: Any) -> Any:  # noqa: ARG001
            return guarded(key, update, **kwargs)

        return without_projection if name == "find_one_and_update" else guarded
