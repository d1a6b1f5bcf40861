"""Documents as the driver gives them, and how old ones become new."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson import ObjectId, encode
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError, InvalidId
from pymongo import IndexModel, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import BulkWriteError

Document = dict[str, Any]
Database = AsyncDatabase[Document]
Collection = AsyncCollection[Document]
Projection = Mapping[str, int]
DocumentId = ObjectId

# For readers that go on: a value that Python cannot hold spoils its own document only, and not all that come with it.
LENIENT: CodecOptions[Document] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
)
# For readers that go on and may write what they have read: the driver refuses to store text that it could not decode,
# so that no damage is copied.
LENIENT_FOR_REPAIRS: CodecOptions[Document] = LENIENT.with_options(unicode_decode_error_handler="surrogateescape")
SCHEMA_VERSION = "schema_version"
# On a document that could not be brought to this version.
UPGRADE_FAILED = "upgrade_failed"
UPGRADE_BATCH = 100
# What one update may hold: its guard and its changes together.
_MAX_COMMAND_BYTES = 16 * 1024 * 1024


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


def key_of(spec: CollectionSpec) -> Document:
    """A projection of the document's key: its `_id` and its shard key, without dates, which may be undecodable."""

    def shown(path: str) -> Document:
        return {"$cond": [{"$eq": [{"$type": f"${path}"}, "date"]}, "$$REMOVE", f"${path}"]}

    return {"_id": 1, **{path: shown(path) for path in spec.shard_key or () if path != "_id"}}


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
              upgraded meanwhile is left to them. `db` may read from a secondary that lags.
    """
    old = [document for document in documents if document.get(SCHEMA_VERSION, 1) < spec.version]
    if not old or spec.upgrade is None:
        return documents
    whole = documents if projection is None else await db[spec.name].find(_named(spec, old)).to_list()
    upgraded, _ = await _store_upgrades(db, spec, [d for d in whole if d.get(SCHEMA_VERSION, 1) < spec.version])
    by_id = {document["_id"]: document for document in (*whole, *upgraded)}
    return [by_id.get(document["_id"], document) for document in documents]


def _named(spec: CollectionSpec, documents: Sequence[Document]) -> Document:
    """The filter of just these documents, with the shard key as far as they have it."""
    paths = ("_id", *(path for path in spec.shard_key or () if path != "_id"))
    known = [path for path in paths if all(path in document for document in documents)]
    return {path: {"$in": [document[path] for document in documents]} for path in known}


async def upgrade_batch(db: Database, spec: CollectionSpec) -> int:
    """Upgrades up to 100 old documents of the collection. Returns how many were looked at; 0 when none is left.

    One that cannot be upgraded is marked, and passed over from then on. `db` reads from the primary.
    """
    if spec.upgrade is None:
        return 0
    is_old = {"$or": [{SCHEMA_VERSION: None}, {SCHEMA_VERSION: {"$lt": spec.version}}]}
    query = {**is_old, UPGRADE_FAILED: {"$ne": spec.version}}
    found = await db[spec.name].find(query, key_of(spec)).limit(UPGRADE_BATCH).to_list()
    if found:
        old = await _whole(db, spec, found)
        _, all_matched = await _store_upgrades(db, spec, old)
        if not all_matched:
            # Others have changed some of them. One that is still as it was read is one that its guard does not match.
            present = {document["_id"]: document for document in await _whole(db, spec, old)}
            await _give_up(db, spec, [document for document in old if present.get(document["_id"]) == document])
    return len(found)


async def _whole(db: Database, spec: CollectionSpec, found: Sequence[Document]) -> list[Document]:
    """The documents with these keys. One that the driver cannot decode is marked and left out."""
    try:
        return await db[spec.name].find(_named(spec, found)).to_list()
    except BSONError:
        if len(found) == 1:
            await _give_up(db, spec, found)
            return []
    # Only one by one can tell which of them it is.
    return [document for one in found for document in await _whole(db, spec, [one])]


async def _store_upgrades(
    db: Database, spec: CollectionSpec, documents: Iterable[Document]
) -> tuple[list[Document], bool]:
    """Returns the new documents, and whether each update found its document."""
    upgraded: list[Document] = []
    refused: list[Document] = []
    updates: list[tuple[Document, UpdateOne]] = []
    for document in documents:
        try:
            new, update = _upgrade(spec, document)
        except (ArithmeticError, AttributeError, BSONError, LookupError, TypeError, ValueError):
            # Nobody foresaw this document. It stays as it is, and must not keep the others from going on.
            refused.append(document)
            continue
        updates.append((document, update))
        upgraded.append(new)
    all_matched = True
    if updates:
        failed, all_matched = await _write(db, spec, updates)
        refused += failed
    await _give_up(db, spec, refused)
    return upgraded, all_matched


def _upgrade(spec: CollectionSpec, document: Document) -> tuple[Document, UpdateOne]:
    """The new document, and the update that stores it."""
    assert spec.upgrade is not None
    new = spec.upgrade(document) | {SCHEMA_VERSION: spec.version}
    changed = {key: value for key, value in new.items() if key not in document or document[key] != value}
    gone = {key: "" for key in document if key not in new}
    # The whole old document is the guard: an edit made meanwhile by an older gateway wins.
    guard = {key: {"$eq": document.get(key)} for key in (*document, *changed)}
    update: Document = {"$set": changed}
    if gone:
        update["$unset"] = gone
    if len(encode({"q": guard, "u": update})) > _MAX_COMMAND_BYTES:
        raise ValueError(document["_id"])
    return new, UpdateOne(guard, update)


async def _write(
    db: Database, spec: CollectionSpec, updates: Sequence[tuple[Document, UpdateOne]]
) -> tuple[list[Document], bool]:
    """Sends the updates. Returns the documents that the server refused to update, and whether the others matched."""
    try:
        written = await db[spec.name].bulk_write([update for _, update in updates], ordered=False)
    except BulkWriteError as error:
        failed = {row["index"] for row in error.details["writeErrors"]}
        if not failed:
            raise
        matched = error.details["nMatched"]
    else:
        failed, matched = set(), written.matched_count
    refused = [document for number, (document, _) in enumerate(updates) if number in failed]
    return refused, matched == len(updates) - len(refused)


async def _give_up(db: Database, spec: CollectionSpec, documents: Sequence[Document]) -> None:
    """Marks documents that cannot be upgraded, so that later batches pass over them. Leaves upgraded ones alone."""
    if not documents:
        return
    is_old = {SCHEMA_VERSION: {"$not": {"$gte": spec.version}}}
    keys = [{path: {"$eq": document[path]} for path in key_of(spec) if path in document} for document in documents]
    marks = [UpdateOne({**key, **is_old}, {"$set": {UPGRADE_FAILED: spec.version}}) for key in keys]
    await db[spec.name].bulk_write(marks, ordered=False)
