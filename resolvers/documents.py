"""Documents as the driver gives them, and how old ones become new."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson import ObjectId
from bson.errors import InvalidId
from pymongo import IndexModel, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

Document = dict[str, Any]
Database = AsyncDatabase[Document]
Collection = AsyncCollection[Document]
Projection = Mapping[str, int]
DocumentId = ObjectId

SCHEMA_VERSION = "schema_version"
# On a document that could not be brought to this version.
UPGRADE_FAILED = "upgrade_failed"
UPGRADE_BATCH = 100


def document_id(text: str) -> DocumentId:
    """The id that this text is the form of. Raises ValueError."""
    try:
        return ObjectId(text)
    except InvalidId as error:
        raise ValueError(text) from error


@dataclass(frozen=True)
class CollectionSpec:
    """What the project promises about one collection.

    `shard_key` is None where the collection is small and stays on one shard. `version` is that of the newest
    documents; `upgrade` takes a whole document of any older version to the newest, without touching the database.
    """

    name: str
    indexes: Sequence[IndexModel] = ()
    shard_key: Mapping[str, int | str] | None = None
    version: int = 1
    upgrade: Callable[[Document], Document] | None = None


def with_version(projection: Projection | None) -> Projection | None:
    """The projection, with the path that tells whether the document is an old one."""
    return None if projection is None else {**projection, SCHEMA_VERSION: 1}


async def in_batches(documents: AsyncIterable[Document], size: int = 500) -> AsyncIterator[list[Document]]:
    """The documents of a cursor, so many at a time."""
    batch: list[Document] = []
    async for document in documents:
        batch.append(document)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def upgrade_read(
    db: Database, spec: CollectionSpec, documents: list[Document], projection: Projection | None
) -> list[Document]:
    """Brings those among the documents up to date that are of an older version, and stores them so.

    Returns:  the same documents in the same order; upgraded ones whole.
    Writes:   one guarded update for each old document, in one command; a document that somebody else has changed or
              upgraded meanwhile is left to them.
    """
    old = [document for document in documents if document.get(SCHEMA_VERSION, 1) < spec.version]
    if not old or spec.upgrade is None:
        return documents
    whole = documents if projection is None else await db[spec.name].find(_named(spec, old)).to_list()
    upgraded = await _store_upgrades(db, spec, [d for d in whole if d.get(SCHEMA_VERSION, 1) < spec.version])
    by_id = {document["_id"]: document for document in (*whole, *upgraded)}
    return [by_id.get(document["_id"], document) for document in documents]


def _named(spec: CollectionSpec, documents: Sequence[Document]) -> Document:
    """The filter of just these documents, with the shard key as far as they have it."""
    paths = ("_id", *(path for path in spec.shard_key or () if path != "_id"))
    known = [path for path in paths if all(path in document for document in documents)]
    return {path: {"$in": [document[path] for document in documents]} for path in known}


async def upgrade_batch(db: Database, spec: CollectionSpec) -> int:
    """Upgrades up to 100 old documents of the collection. Returns how many were looked at; 0 when none is left.

    One that cannot be upgraded is marked, and passed over from then on.
    """
    if spec.upgrade is None:
        return 0
    is_old = {"$or": [{SCHEMA_VERSION: None}, {SCHEMA_VERSION: {"$lt": spec.version}}]}
    query = {**is_old, UPGRADE_FAILED: {"$ne": spec.version}}
    documents = await db[spec.name].find(query).limit(UPGRADE_BATCH).to_list()
    await _store_upgrades(db, spec, documents)
    return len(documents)


async def _store_upgrades(db: Database, spec: CollectionSpec, documents: Iterable[Document]) -> list[Document]:
    assert spec.upgrade is not None
    upgraded: list[Document] = []
    updates: list[UpdateOne] = []
    for document in documents:
        try:
            new = spec.upgrade(document) | {SCHEMA_VERSION: spec.version}
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # Nobody foresaw this document. It stays as it is, and must not keep the others from going on.
            key = {name: document[name] for name in ("_id", *(spec.shard_key or ())) if name in document}
            updates.append(UpdateOne(key, {"$set": {UPGRADE_FAILED: spec.version}}))
            continue
        changed = {key: value for key, value in new.items() if key not in document or document[key] != value}
        gone = {key: "" for key in document if key not in new}
        # The whole old document is the guard: an edit made meanwhile by an older gateway wins.
        guard = {key: {"$eq": document.get(key)} for key in (*document, *changed)}
        update: Document = {"$set": changed}
        if gone:
            update["$unset"] = gone
        updates.append(UpdateOne(guard, update))
        upgraded.append(new)
    if updates:
        await db[spec.name].bulk_write(updates, ordered=False)
    return upgraded
