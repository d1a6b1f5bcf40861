"""Databases that restrict what the gateway does: one refuses writes, and one has other names of the core collections.

Both wrap a database of the driver, or one with direct reads and writes. They are used only if a setting asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portico.resolvers.documents import ReadOnly

_WRITES = {
    "bulk_write",
    "create_index",
    "create_indexes",
    "delete_many",
    "delete_one",
    "drop_index",
    "find_one_and_delete",
    "find_one_and_replace",
    "find_one_and_update",
    "insert_many",
    "insert_one",
    "replace_one",
    "update_many",
    "update_one",
}


class ReadOnlyDatabase:
    """A database that raises ReadOnly instead of sending a write."""

    def __init__(self, database: Any) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> Any:
        return _ReadOnlyCollection(self._database[name])

    def with_options(self, **options: Any) -> ReadOnlyDatabase:
        return ReadOnlyDatabase(self._database.with_options(**options))


class _ReadOnlyCollection:
    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def __getattr__(self, name: str) -> Any:
        if name in _WRITES:
            raise ReadOnly(self._collection.name)
        return getattr(self._collection, name)

    def with_options(self, **options: Any) -> _ReadOnlyCollection:
        return _ReadOnlyCollection(self._collection.with_options(**options))


class RenamingDatabase:
    """A database in which some collections have other names than the code gives them."""

    def __init__(self, database: Any, names: Mapping[str, str]) -> None:
        self._database = database
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> Any:
        return self._database[self._names.get(name, name)]

    def with_options(self, **options: Any) -> RenamingDatabase:
        return RenamingDatabase(self._database.with_options(**options), self._names)
