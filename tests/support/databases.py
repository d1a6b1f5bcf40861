"""Databases for tests. Each test has a database of its own, which is emptied for the next test.

Creating a database with all its indexes and dropping it takes half a second of the processor. MongoDB also keeps the
files of dropped databases open for minutes, and a thousand of them exceed the limit of open files.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from bson import Timestamp
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.write_concern import WriteConcern

from portico.gateway import app
from portico.resolvers.documents import CollectionSpec, Document
from portico.resolvers.documents import Database as DocumentDatabase
from portico.resolvers.indexes import create_indexes
from tests.support.domains import COLLECTIONS

# The number of free databases before one is reused. A late write of a killed process then cannot reach the next test.
_SPARE = 3
_CATALOG: dict[str, Any] = {"$listCatalog": {}}
# Indexed paths whose values are lists. A test of the demo compares them with what the domains store.
LISTS = {
    "ads.campaign_id",
    "ads.capping.at",
    "ads.pending.at",
    "ancestors._id",
    "characters.since",
    "circles",
    "comments._id",
    "comments.by.id",
    "comments.id",
    "decided.at",
    "detail.replaced.at",
    "incoming.ids",
    "items.sku",
    "keywords",
    "words",
    "near",
    "name_keys",
    "name_near",
    "notes.at",
    "owners",
    "parents",
    "pending.at",
    "refresh.at",
    "removing",
    "tags",
    "terms",
    "under_way.at",
    "walls",
}
_INDEXES = {spec.name: [index.document for index in spec.indexes] for spec in COLLECTIONS if spec.indexes}

_free: dict[str, deque[str]] = {}
_indexed: set[str] = set()
# For each database, a time before it was emptied. What has been written since is in the oplog.
_emptied: dict[str, Timestamp] = {}
_clients = contextlib.ExitStack()


@contextlib.contextmanager
def database(uri: str) -> Iterator[str]:
    """Yields the name of an empty database. It may have the project's collections, with their indexes."""
    free = _free.setdefault(uri, deque())
    name = free.popleft() if len(free) >= _SPARE else f"test_{uuid4().hex[:16]}"
    yield name
    empty(_client(uri)[name])
    free.append(name)


def has_indexes(name: str) -> bool:
    """Returns whether the database has all collections of the project, with their indexes."""
    return name in _indexed


def note_indexes(name: str) -> None:
    """Notes that a process has created all collections of the project in the database, with their indexes."""
    _indexed.add(name)


def skip_known_indexes() -> None:
    """Makes gateways of this process start without the creation of indexes that the database of the test has.

    Asking for indexes that exist takes most of the time of a start.
    """
    known = {spec.name for spec in COLLECTIONS}

    async def missing(db: DocumentDatabase, collections: Iterable[CollectionSpec]) -> AsyncIterator[object]:
        # A domain of a test has collections of its own.
        wanted = [spec for spec in collections if spec.name not in known or not has_indexes(db.name)]
        async for made in create_indexes(db, wanted):
            yield made

    app.create_indexes = missing  # type: ignore[assignment,attr-defined]


@functools.cache
def _client(uri: str) -> MongoClient[dict[str, Any]]:
    return _clients.enter_context(MongoClient[dict[str, Any]](uri))


def disconnect() -> None:
    """Closes the connections. Call this before MongoDB stops."""
    _clients.close()
    _client.cache_clear()


def empty(db: Database[dict[str, Any]]) -> None:
    """Removes all documents. Drops the collections whose indexes a test has changed, and creates them again.

    A test changes an index if it makes or drops one, or stores a list where others never do. MongoDB keeps for good
    that an index has held a list, and then sorts in memory what it would walk along the index.
    """
    now = time_of(db)
    written = written_since(db, _emptied[db.name]) if db.name in _emptied else None
    names = set(db.list_collection_names()) if written is None else written
    changed = {
        catalog["name"]
        for catalog in _of_each(db, sorted(names), _CATALOG)
        if _indexes_of(catalog["md"]) != {"_id_", *(index["name"] for index in _INDEXES.get(catalog["name"], ()))}
    }
    for name in changed:
        db.drop_collection(name)
    _delete_all(db, sorted(names - changed))
    missing = _INDEXES.keys() & changed if written is not None else _INDEXES.keys() - (names - changed)
    if db.name in _indexed:
        create_all_indexes(db, missing)
    elif written is None and not missing:
        _indexed.add(db.name)
    _emptied[db.name] = now


def _delete_all(db: Database[dict[str, Any]], names: Sequence[str]) -> None:
    """Removes the documents of these collections. The last deletion on a majority implies the ones before."""
    for name in names[:-1]:
        db[name].with_options(write_concern=WriteConcern(w=1)).delete_many({})
    for name in names[-1:]:
        db[name].delete_many({})


def create_all_indexes(db: Database[dict[str, Any]], names: Iterable[str] = _INDEXES) -> None:
    """Creates the collections of the project with their indexes, or those with these names."""
    for name in names:
        db.command("createIndexes", name, indexes=_INDEXES[name])
    _indexed.add(db.name)


def time_of(db: Database[dict[str, Any]]) -> Timestamp:
    """Returns the time of the last write on the server."""
    found: Timestamp = db.client.admin.command("ping")["operationTime"]
    return found


def written_since(
    db: Database[dict[str, Any]], since: Timestamp, operations: Sequence[str] = ("i", "u")
) -> set[str] | None:
    """Returns the collections with documents that were inserted or updated since then, or deleted with operation `d`.

    Returns None if other collections may have changed: one was created, dropped or renamed, an index was, or a
    transaction has written.
    """
    ours = {"$gte": f"{db.name}.", "$lt": f"{db.name}/"}
    wanted = [{"ts": since}, {"ns": ours, "op": {"$in": [*operations, "c"]}}, {"o.applyOps.ns": ours}]
    stages: list[dict[str, Any]] = [
        {"$match": {"ts": {"$gte": since}, "$or": wanted}},
        {"$group": {"_id": {"$cond": [{"$eq": ["$ts", since]}, None, {"op": "$op", "ns": "$ns"}]}}},
    ]
    found = [one["_id"] for one in db.client.local["oplog.rs"].aggregate(stages)]
    # Without the entry of that time, the oplog has lost later ones, too.
    if None not in found or any(one is not None and one["op"] == "c" for one in found):
        return None
    return {one["ns"].removeprefix(f"{db.name}.") for one in found if one is not None}


async def documents_in(db: DocumentDatabase, names: Sequence[str]) -> list[Document]:
    """Returns all documents of these collections, by collection and `_id`, in one command."""
    stages: list[dict[str, Any]] = [{"$sort": {"_id": 1}}, {"$project": {"_id": 0, "document": "$$ROOT"}}]
    found = await db[names[0]].aggregate(_on_each(names, *stages))
    return await found.to_list()


async def stored_in(db: DocumentDatabase) -> dict[str, int]:
    """Returns how many documents the collections have, by name; without those that have none."""
    names = [name for name in await db.list_collection_names() if not name.startswith("system.")]
    if not names:
        return {}
    found = await db[names[0]].aggregate(_on_each(names, {"$collStats": {"count": {}}}))
    return {one["of"]: one["count"] async for one in found if one["count"]}


async def delete_documents(db: DocumentDatabase) -> None:
    """Removes all documents. Sends no command to a collection that has none."""
    for name in await stored_in(db):
        await db[name].delete_many({})


def lists_in_indexes(uri: str, name: str) -> set[str]:
    """Returns the paths at which the indexes of the database with this name have held a list."""
    db = _client(uri)[name]
    catalogs = _of_each(db, db.list_collection_names(), _CATALOG)
    return set().union(*(_lists_of(index) for catalog in catalogs for index in catalog["md"]["indexes"]))


def _indexes_of(catalog: dict[str, Any]) -> set[str]:
    """The names of the indexes; one that has held an unexpected list has another name."""
    found = set()
    for index in catalog["indexes"]:
        lists = _lists_of(index)
        found.add(index["spec"]["name"] if lists <= LISTS else f"{index['spec']['name']} with lists at {lists}")
    return found


def _lists_of(index: dict[str, Any]) -> set[str]:
    return {path for path, depths in index.get("multikeyPaths", {}).items() if any(depths)}


def _of_each(db: Database[dict[str, Any]], names: list[str], stage: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Runs the stage on each collection, in one command. `of` in each result is the collection."""
    if names:
        yield from db[names[0]].aggregate(_on_each(names, stage))


def _on_each(names: Sequence[str], *stages: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns a pipeline on the first of these collections that runs the stages on each. `of` is the collection."""
    parts = [(name, [*stages, {"$addFields": {"of": name}}]) for name in names]
    return [*parts[0][1], *({"$unionWith": {"coll": name, "pipeline": part}} for name, part in parts[1:])]
