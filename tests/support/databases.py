"""Databases for tests. Each test has a database of its own, which is emptied for the next test.

Creating a database with all its indexes and dropping it takes half a second. MongoDB also keeps the files of dropped
databases open for minutes, and a thousand of them exceed the limit of open files.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from pymongo import MongoClient
from pymongo.database import Database

from .domains import COLLECTIONS

# The number of free databases before one is reused. A late write of a killed process then cannot reach the next test.
_SPARE = 3
_CATALOG: dict[str, Any] = {"$listCatalog": {}}
# Indexed paths whose values are lists.
_LISTS = {
    *(
        "ancestors._id",
        "circles",
        "comments._id",
        "decided.at",
        "detail.replaced.at",
        "incoming.ids",
        "items.sku",
        "keywords",
    ),
    *("refresh.at", "tags", "terms", "under_way.at"),
}
_INDEXES = {spec.name: {"_id_", *(index.document["name"] for index in spec.indexes)} for spec in COLLECTIONS}

_free: dict[str, deque[str]] = {}
_indexed: set[str] = set()
_clients = contextlib.ExitStack()


@contextlib.contextmanager
def database(uri: str) -> Iterator[str]:
    """Yields the name of an empty database. It may have the project's collections, with their indexes."""
    free = _free.setdefault(uri, deque())
    name = free.popleft() if len(free) >= _SPARE else f"test_{uuid4().hex[:16]}"
    yield name
    client = _client(uri)
    if _empty(client[name]):
        free.append(name)
    else:
        client.drop_database(name)


def has_indexes(name: str) -> bool:
    """Returns whether the database has all collections of the project, with their indexes."""
    return name in _indexed


@functools.cache
def _client(uri: str) -> MongoClient[dict[str, Any]]:
    return _clients.enter_context(MongoClient[dict[str, Any]](uri))


def disconnect() -> None:
    """Closes the connections. Call this before MongoDB stops."""
    _clients.close()
    _client.cache_clear()


def _empty(db: Database[dict[str, Any]]) -> bool:
    """Empties it, unless a test has changed its indexes: made one, dropped one, or stored a list where others never do.

    MongoDB keeps for good that an index has held a list, and then sorts in memory what it would walk along the index.
    """
    names = db.list_collection_names()
    if any(_indexes_of(catalog["md"]) != _INDEXES.get(catalog["name"]) for catalog in _of_each(db, names, _CATALOG)):
        return False
    if {spec.name for spec in COLLECTIONS if spec.indexes} <= set(names):
        _indexed.add(db.name)
    for counted in _of_each(db, names, {"$collStats": {"count": {}}}):
        if counted["count"]:
            db[counted["of"]].delete_many({})
    return True


def _indexes_of(catalog: dict[str, Any]) -> set[str]:
    """The names of the indexes; one that has held an unexpected list has another name."""
    found = set()
    for index in catalog["indexes"]:
        lists = {path for path, depths in index.get("multikeyPaths", {}).items() if any(depths)}
        found.add(index["spec"]["name"] if lists <= _LISTS else f"{index['spec']['name']} with lists at {lists}")
    return found


def _of_each(db: Database[dict[str, Any]], names: list[str], stage: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Runs the stage on each collection, in one command. `of` in each result is the collection."""
    parts = [(name, [stage, {"$addFields": {"of": name}}]) for name in names]
    if parts:
        others = [{"$unionWith": {"coll": name, "pipeline": part}} for name, part in parts[1:]]
        yield from db[parts[0][0]].aggregate([*parts[0][1], *others])
