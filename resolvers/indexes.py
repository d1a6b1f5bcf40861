"""Maintenance of every collection: creating indexes, sharding, upgrading documents."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from pymongo import IndexModel, timeout
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError

from .documents import SCHEMA_VERSION, Collection, CollectionSpec, Database, upgrade_batch

_NO_SUCH_INDEX = 27
_DUPLICATE_KEY = 11000
# What precedes the collection, the index and the key in the server's message.
_DUPLICATE = "E11000 duplicate key error "
# The server's codes for an index of the same name with other options, or with other keys.
_DEFINED_OTHERWISE = {85, 86}


async def create_indexes(
    db: Database, collections: Iterable[CollectionSpec], *, rebuild: bool = False
) -> AsyncIterator[tuple[str, list[str]]]:
    """Creates missing indexes. Idempotent. Yields each collection with the names of its indexes.

    An index that another version has defined differently stays, so that two versions can run side by side. With
    `rebuild` it is dropped and created again.

    Raises DuplicateKeyError at the end if unique indexes are missing because documents have the same key.
    """
    refused: list[DuplicateKeyError] = []
    for spec in collections:
        if spec.indexes:
            refused += await _create_indexes(db[spec.name], list(spec.indexes), rebuild=rebuild)
        yield spec.name, [index.document["name"] for index in spec.indexes]
    _require_none(refused)


def _require_none(refused: Sequence[DuplicateKeyError]) -> None:
    """Raises one error for all unique indexes that cannot be built, which names a key of each."""
    if refused:
        found = "; ".join(
            str((error.details or {}).get("errmsg", error)).rpartition(_DUPLICATE)[2] for error in refused
        )
        raise DuplicateKeyError(
            f"Unique indexes are missing, because documents have the same key: {found}. Change or delete all but one "
            "of these documents, and start the command again.",
            _DUPLICATE_KEY,
        )


@contextlib.asynccontextmanager
async def filling(db: Database, spec: CollectionSpec) -> AsyncIterator[None]:
    """Creates missing indexes that writes need before the block, and those that only reads need after it.

    To build an index from all documents takes a fraction of the time of an entry for each new document. So if the
    collection is empty, indexes that only reads need are dropped first. If the process is killed in the block, the next
    one creates them, and so does every start of a gateway. It is the same if the block fails because it has lost the
    database. Until then, searches by text fail, and lists take longer.
    """
    collection = db[spec.name]
    late = [index for index in spec.indexes if _serves_reads(index)]
    if await collection.find_one({}, {"_id": 1}) is None:
        known = await collection.index_information()
        for index in late:
            if index.document["name"] in known:
                await _drop(collection, index.document["name"])
    early = [index for index in spec.indexes if index not in late]
    _require_none(await _create_indexes(collection, early, rebuild=False))
    try:
        yield
    except PyMongoError:
        # A build without a time limit could wait for the lost database for ever.
        raise
    except BaseException:
        await _create_indexes(collection, late, rebuild=False)
        raise
    await _create_indexes(collection, late, rebuild=False)


async def _drop(collection: Collection, name: str) -> None:
    """Drops an index, unless another process has dropped it."""
    try:
        await collection.drop_index(name)
    except OperationFailure as error:
        if error.code != _NO_SUCH_INDEX:
            raise


def _serves_reads(index: IndexModel) -> bool:
    """Returns whether no write needs the index. Sparse indexes are for marks, which jobs look for, and are small."""
    options = index.document
    return not (options.get("unique") or options.get("sparse") or SCHEMA_VERSION in options["key"])


async def _create_indexes(
    collection: Collection, indexes: list[IndexModel], *, rebuild: bool
) -> list[DuplicateKeyError]:
    """Creates missing indexes. Returns the errors of unique ones for which there are duplicates."""
    try:
        await _build(collection, indexes)
    except OperationFailure as error:
        if error.code not in {*_DEFINED_OTHERWISE, _DUPLICATE_KEY}:
            raise
        if len(indexes) > 1:
            # One of them makes the server reject all, so each is created by itself.
            alone = [await _create_indexes(collection, [index], rebuild=rebuild) for index in indexes]
            return [*itertools.chain.from_iterable(alone)]
        if isinstance(error, DuplicateKeyError):
            return [error]
        if rebuild:
            await _drop_like(collection, indexes[0].document)
            return await _create_indexes(collection, indexes, rebuild=False)
    return []


async def _build(collection: Collection, indexes: list[IndexModel]) -> None:
    """Builds indexes, however long that takes. After a timeout, the build would start again."""
    # The driver ignores None here, and applies the timeout of the client.
    with timeout(0):
        await collection.create_indexes(indexes)


async def _drop_like(collection: Collection, wanted: Mapping[str, Any]) -> None:
    """Drops the indexes that conflict with an index: by name, by keys, or as the only text index of the collection."""
    is_text = "text" in wanted["key"].values()
    async for index in await collection.list_indexes():
        same_keys = dict(index["key"]) == dict(wanted["key"]) or (is_text and "textIndexVersion" in index)
        if index["name"] == wanted["name"] or same_keys:
            await collection.drop_index(index["name"])


async def shard_collections(db: Database, collections: Iterable[CollectionSpec]) -> AsyncIterator[tuple[str, str]]:
    """Shards the collections that have a shard key. Needs a sharded cluster. Idempotent.

    Yields each sharded collection with its key.
    """
    for spec in collections:
        if spec.shard_key is not None:
            unique = any(
                index.document.get("unique") and list(index.document["key"]) == list(spec.shard_key)
                for index in spec.indexes
            )
            key = dict(spec.shard_key)
            if "hashed" in key.values():
                # The server creates this index by itself only if the collection is empty.
                await db[spec.name].create_index(list(key.items()))
            await db.client.admin.command(
                {"shardCollection": db[spec.name].full_name, "key": key, **({"unique": True} if unique else {})}
            )
            yield spec.name, ", ".join(f"{path}: {kind}" for path, kind in key.items())


async def migrate(db: Database, collections: Iterable[CollectionSpec]) -> AsyncIterator[tuple[str, int]]:
    """Upgrades every outdated document, 100 at a time. Yields the collection and the size of each batch."""
    for spec in collections:
        while count := await upgrade_batch(db, spec):
            yield spec.name, count
