"""Documents as the driver returns them, and the upgrade of documents of an older version.

An upgrade derives values that are new, such as a nonce, from the `_id`, so that concurrent upgrades agree.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NotRequired

from bson import ObjectId, encode
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError, InvalidId
from pymongo import IndexModel, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import BulkWriteError, DuplicateKeyError
from typing_extensions import TypeVar

from portico.resolvers.typed import TypedDict

from .elections import met_election
from .projections import value_at
from .undecodable import KEEP_BYTES

Document = dict[str, Any]
# The type of the documents of a collection, as its TypedDict describes them.
D = TypeVar("D", bound=Mapping[str, Any], default=Any)
Database = AsyncDatabase[Document]
Collection = AsyncCollection[Any]
Projection = Mapping[str, int]
DocumentId = ObjectId
# An update of one document: its guard, which is a filter, and what it changes.
Change = tuple[Document, Any]

# For all reads and writes: a date that Python cannot represent is a `DatetimeMS`, which is stored again unchanged. Text
# that is not valid UTF-8 keeps its bytes: see `undecodable`.
CODEC: CodecOptions[Document] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler=KEEP_BYTES
)
# For readers that must not fail: a value that Python cannot represent affects its own document only, not the batch.
LENIENT: CodecOptions[Document] = CODEC.with_options(unicode_decode_error_handler="replace")
# The same, for readers that write back what they have read: the driver refuses to store text that it could not decode,
# so no damaged text is written.
LENIENT_FOR_REPAIRS: CodecOptions[Document] = LENIENT.with_options(unicode_decode_error_handler="surrogateescape")
SCHEMA_VERSION: Final = "schema_version"
# In the comment of a command that estimates the size of a collection: the numbers with which the size is compared. What
# is done besides must not depend on it, so that a run that is recorded need not follow each insertion.
COMPARED: Final = "compared"
# Marks a document that could not be upgraded to this version.
UPGRADE_FAILED: Final = "upgrade_failed"
UPGRADE_BATCH = 100
# The size limit of one update: its guard and its changes together.
_MAX_COMMAND_BYTES = 16 * 1024 * 1024


class ReadOnly(Exception):
    """A write to a collection of a database that the gateway only reads. Nothing was sent."""

    def __init__(self, collection: str) -> None:
        super().__init__(f"The gateway is read-only, so it does not write to {collection}.")


class Update(UpdateOne):
    """An update of one document in a bulk. The gateway can send a bulk of these without the driver."""

    __slots__ = ("statement",)

    def __init__(self, query: Mapping[str, Any], change: Any, *, upsert: bool = False) -> None:
        super().__init__(query, change, upsert=upsert)
        # As the command `update` has it.
        self.statement = {"q": query, "u": change, "upsert": upsert}


def document_id(text: str) -> DocumentId:
    """Parses an ObjectId. Raises ValueError."""
    try:
        return ObjectId(text)
    except InvalidId as error:
        raise ValueError(text) from error


class Versioned(TypedDict):
    """What every document can have."""

    # The version of its form; 1 if it is missing.
    schema_version: NotRequired[int]
    # The version to which it could not be upgraded.
    upgrade_failed: NotRequired[int]


class Author(TypedDict):
    """The author of a document: the subject of the token, and the name in it at that time."""

    id: str
    name: str


@dataclass(frozen=True)
class CollectionSpec(Generic[D]):
    """A collection: its documents, its indexes, its shard key, its version and how its documents are upgraded.

    `document` describes a document of the newest version as a TypedDict; a read with a projection gets a part of it.
    `shard_key` is None for a small collection that stays on one shard. `version` is the version of new documents.
    `upgrade` turns a whole document of any older version into the newest, without access to the database.

    Raises ValueError for a unique index with which MongoDB would not shard the collection.
    """

    name: str
    indexes: Sequence[IndexModel] = ()
    shard_key: Mapping[str, int | str] | None = None
    version: int = 1
    upgrade: Callable[[Document], Document] | None = None
    document: type[D] | None = None

    def __post_init__(self) -> None:
        key = list(self.shard_key or ())
        for index in self.indexes:
            # Source: the manual of MongoDB, "Unique Indexes", on sharded collections.
            paths = list(index.document["key"])
            if index.document.get("unique") and paths[0] != "_id" and paths[: len(key)] != key:
                raise ValueError(
                    f"the unique index of {', '.join(paths)} of the collection {self.name} does not begin with the "
                    f"shard key, {', '.join(key)}. MongoDB would not shard the collection."
                )

    def of(self, db: Database) -> AsyncCollection[D]:
        """Returns the collection in this database, for reads and inserts of its documents."""
        collection: AsyncCollection[Any] = db[self.name]
        return collection

    async def change_all(self, db: Database, changes: Sequence[Change]) -> int:
        """Sends updates of single documents in one bulk, in any order. Returns how many documents matched."""
        return (await db[self.name].bulk_write([Update(*change) for change in changes], ordered=False)).matched_count

    async def create_once(self, db: Database, document: D) -> D:
        """Inserts the document, unless an earlier call of the same operation has inserted one with its `_id`.

        Returns:  the document as it is stored now.
        Raises:   DuplicateKeyError if another document has a value that must be unique.
        Writes:   one insert.
        """
        try:
            await self.of(db).insert_one(document)
        except DuplicateKeyError:
            key = {path: document[path] for path in ("_id", *(self.shard_key or ()))}
            earlier = await self.of(db).find_one(key)
            if earlier is None:
                raise
            return earlier
        return document

    async def find_by_keys(
        self, db: Database, keys: Sequence[Any], *, path: str = "_id", projection: Projection | None = None
    ) -> dict[Any, D]:
        """Returns the documents with these keys at the path, by key. Leaves out missing keys. One command."""
        query: Document = {path: keys[0] if len(keys) == 1 else {"$in": list(keys)}}
        wanted = None if projection is None else with_paths(projection, path, SCHEMA_VERSION)
        found = await self.of(db).find(query, wanted, batch_size=len(keys) + 1).to_list()
        return {value_at(document, path): document for document in await upgrade_read(db, self, found, projection)}


class ComparedProjection(dict[str, int]):
    """A projection that also says what an answer shows of a row.

    `shown` returns what to compare of a row: if its `repr` is the same for two rows, the answer shows the same of both.
    Equal functions compare the same.
    """

    def __init__(self, paths: Projection, shown: Callable[[Mapping[str, Any]], Any]) -> None:
        super().__init__(paths)
        self.shown = shown


def projection_name(projection: Projection | None) -> Hashable:
    """Returns the name of a projection. Reads can be shared if the names of their projections are equal.

    A read that is compared by what one field shows would hide changes from another field, which shows more.
    """
    if isinstance(projection, ComparedProjection):
        return tuple(projection), projection.shown
    return None if projection is None else tuple(projection)


def with_paths(projection: Projection, *paths: str) -> Projection:
    """Returns the projection with further paths."""
    found = {**projection, **dict.fromkeys(paths, 1)}
    return ComparedProjection(found, projection.shown) if isinstance(projection, ComparedProjection) else found


def with_version(projection: Projection | None) -> Projection | None:
    """Returns the projection with the version field, which shows whether a document is outdated."""
    return None if projection is None else with_paths(projection, SCHEMA_VERSION)


def key_of(spec: CollectionSpec) -> Document:
    """Returns a projection of the key: `_id` and shard key. It leaves out dates, which can be undecodable."""

    def shown(path: str) -> Document:
        return {"$cond": [{"$eq": [{"$type": f"${path}"}, "date"]}, "$$REMOVE", f"${path}"]}

    return {"_id": 1, **{path: shown(path) for path in spec.shard_key or () if path != "_id"}}


async def in_batches(documents: AsyncIterable[D], size: int = 500) -> AsyncIterator[list[D]]:
    """Yields the documents of a cursor in batches of this size."""
    batch: list[D] = []
    async for document in documents:
        batch.append(document)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def upgrade_read(
    db: Database, spec: CollectionSpec[D], documents: list[D], projection: Projection | None
) -> list[D]:
    """Upgrades the outdated documents among these, and stores the upgraded ones.

    Returns:  the same documents in the same order; upgraded ones whole.
    Writes:   one guarded update for each outdated document, in one command. It skips a document that another process
              has changed or upgraded in the meantime. `db` may read from a secondary that lags.
    """
    if spec.upgrade is None:
        return documents
    version = spec.version
    old = [document for document in documents if document.get(SCHEMA_VERSION, 1) < version]
    if not old:
        return documents
    whole: list[Any] = documents if projection is None else await db[spec.name].find(_filter_of(spec, old)).to_list()
    upgraded, _ = await _store_upgrades(db, spec, [d for d in whole if d.get(SCHEMA_VERSION, 1) < version])
    by_id = {document["_id"]: document for document in (*whole, *upgraded)}
    return [by_id.get(document["_id"], document) for document in documents]


def _filter_of(spec: CollectionSpec, documents: Sequence[Mapping[str, Any]]) -> Document:
    """Returns a filter that matches these documents only, with the shard key fields that all of them have."""
    paths = ("_id", *(path for path in spec.shard_key or () if path != "_id"))
    known = [path for path in paths if all(path in document for document in documents)]
    return {path: {"$in": [document[path] for document in documents]} for path in known}


async def upgrade_batch(db: Database, spec: CollectionSpec) -> int:
    """Upgrades up to 100 outdated documents of the collection. Returns how many it has read; 0 when none is left.

    A document that cannot be upgraded is marked, and later batches skip it. `db` reads from the primary.
    """
    if spec.upgrade is None:
        return 0
    is_old = {"$or": [{SCHEMA_VERSION: None}, {SCHEMA_VERSION: {"$lt": spec.version}}]}
    query = {**is_old, UPGRADE_FAILED: {"$ne": spec.version}}
    found = await db[spec.name].find(query, key_of(spec), limit=UPGRADE_BATCH).to_list()
    if found:
        old = await _read_whole(db, spec, found)
        _, all_matched = await _store_upgrades(db, spec, old)
        if not all_matched:
            # Other writers have changed some of them. If a document is unchanged, its guard can never match it.
            present = {document["_id"]: document for document in await _read_whole(db, spec, old)}
            await _mark_failed(db, spec, [document for document in old if present.get(document["_id"]) == document])
    return len(found)


async def _read_whole(db: Database, spec: CollectionSpec, found: Sequence[Document]) -> list[Document]:
    """Reads the whole documents with these keys. Marks and leaves out those that the driver cannot decode."""
    try:
        return await db[spec.name].find(_filter_of(spec, found)).to_list()
    except BSONError:
        if len(found) == 1:
            await _mark_failed(db, spec, found)
            return []
    # Read one by one to find the document that cannot be decoded.
    return [document for one in found for document in await _read_whole(db, spec, [one])]


async def _store_upgrades(
    db: Database, spec: CollectionSpec, documents: Iterable[Document]
) -> tuple[list[Document], bool]:
    """Upgrades and stores documents. Returns the new documents, and whether each update has matched."""
    upgraded: list[Document] = []
    refused: list[Document] = []
    updates: list[tuple[Document, UpdateOne]] = []
    for document in documents:
        try:
            new, update = _upgrade(spec, document)
        except (ArithmeticError, AttributeError, BSONError, LookupError, TypeError, ValueError):
            # The upgrade does not handle this document. It stays unchanged and must not stop the others.
            refused.append(document)
            continue
        updates.append((document, update))
        upgraded.append(new)
    all_matched = True
    # A gateway that is read-only shows the upgraded documents, and stores nothing.
    with contextlib.suppress(ReadOnly):
        if updates:
            failed, all_matched = await _write(db, spec, updates)
            refused += failed
        await _mark_failed(db, spec, refused)
    return upgraded, all_matched


def _upgrade(spec: CollectionSpec, document: Document) -> tuple[Document, UpdateOne]:
    """Returns the new document, and the update that stores it."""
    assert spec.upgrade is not None
    new = spec.upgrade(document) | {SCHEMA_VERSION: spec.version}
    changed = {key: value for key, value in new.items() if key not in document or document[key] != value}
    gone = {key: "" for key in document if key not in new}
    # The guard is the whole old document: a concurrent edit by an older gateway wins.
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
    """Sends the updates. Returns the documents whose update the server rejected, and whether all others matched."""
    try:
        written = await db[spec.name].bulk_write([update for _, update in updates], ordered=False)
    except BulkWriteError as error:
        failed = {row["index"] for row in error.details["writeErrors"]}
        if not failed or met_election(error):
            raise
        matched = error.details["nMatched"]
    else:
        failed, matched = set(), written.matched_count
    refused = [document for number, (document, _) in enumerate(updates) if number in failed]
    return refused, matched == len(updates) - len(refused)


async def _mark_failed(db: Database, spec: CollectionSpec, documents: Sequence[Document]) -> None:
    """Marks documents that cannot be upgraded, so that later batches skip them. Ignores upgraded documents."""
    if not documents:
        return
    is_old = {SCHEMA_VERSION: {"$not": {"$gte": spec.version}}}
    keys = [{path: {"$eq": document[path]} for path in key_of(spec) if path in document} for document in documents]
    marks = [UpdateOne({**key, **is_old}, {"$set": {UPGRADE_FAILED: spec.version}}) for key in keys]
    await db[spec.name].bulk_write(marks, ordered=False)
