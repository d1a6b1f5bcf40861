"""The bytes of photos and thumbnails in GridFS, in the format of all drivers.

A file is in use if it is the `detail.file` of its photo (see `photos`). A thumbnail is in use if the file that it was
made from is. `unsettled` and `removed` are records of intent: after a crash, `photo_jobs` finishes or undoes them. The
document of a file stays as long as a process may be writing to the file: without it, nobody would find late chunks.

This module does not use the driver's GridFS bucket, for three reasons. The bucket buffers 48 MB of a file before it
writes. It does not work with the wrappers of the database (`gateway.mongo.driver`, `gateway.mongo.faults`). And it
writes the document of a file last, so that finding the chunks that a crash left would require a scan of all chunks.

After an upload was given up, a job deletes chunks that were written since: after five seconds, and then at intervals
that double, for a day.

Source: MongoDB Applied Design Patterns, ch. 6; the specification of GridFS.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import NotRequired

from bson import Int64, ObjectId
from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.typed import TypedDict


class Thumbnail(TypedDict):
    """What the metadata of a thumbnail have besides."""

    # The file that it was made from, and pixels.
    of: NotRequired[ObjectId]
    width: NotRequired[int]
    # The mark of the process that makes it.
    maker: NotRequired[str]


class Metadata(Thumbnail):
    """What Portico stores with a file. Times are UTC."""

    # The photo.
    node: ObjectId
    # SHA-256 in hexadecimal.
    checksum: NotRequired[str]
    # It is not certain yet that a photo uses the file.
    unsettled: NotRequired[datetime]
    # How often a deletion of its photo has skipped it, because it was unsettled.
    passed: NotRequired[int]
    # When its chunks were deleted; a writer may still add some.
    removed: NotRequired[datetime]
    # When to delete chunks that were written since.
    sweep: NotRequired[datetime]


class Layout(TypedDict):
    """What a reader of a file's chunks needs."""

    _id: ObjectId
    # Bytes of each chunk but the last.
    chunkSize: int  # noqa: N815 - GridFS defines the name


class FileDocument(Layout, Versioned):
    """A file, inserted before the first of its chunks. GridFS defines the names."""

    # The photo's slug with the suffix of its type.
    filename: NotRequired[str]
    # Bytes; 0 during the upload.
    length: int
    uploadDate: datetime  # noqa: N815 - as above
    contentType: NotRequired[str]  # noqa: N815 - as above
    metadata: Metadata


class ChunkDocument(TypedDict):
    """A chunk of a file; `n` counts from 0."""

    _id: ObjectId
    files_id: ObjectId
    n: int
    data: bytes


# Sharded as in the source: a reader of chunks has read the file's document, and knows its id.
FILES = CollectionSpec(
    "cms.assets.files",
    document=FileDocument,
    shard_key={"_id": "hashed"},
    indexes=[
        IndexModel([("metadata.node", ASCENDING)]),
        IndexModel([("metadata.unsettled", ASCENDING)], sparse=True),
        IndexModel([("metadata.removed", ASCENDING)], sparse=True),
        IndexModel([("metadata.sweep", ASCENDING)], sparse=True),
    ],
)
CHUNKS = CollectionSpec(
    "cms.assets.chunks",
    document=ChunkDocument,
    shard_key={"files_id": 1},
    indexes=[IndexModel([("files_id", ASCENDING), ("n", ASCENDING)], unique=True)],
)

# The default of GridFS.
CHUNK_BYTES = 255 * 1024
# The server may still execute a command of a killed process, right after the file's chunks were deleted.
_SWEPT_AFTER = timedelta(seconds=5)
# Chunks that one command writes or reads. No more of a file is in memory at once.
CHUNKS_AT_ONCE = 4


class BytesMissing(Exception):
    """A chunk of a file is missing: the file was deleted while it was read."""


async def create_file(
    db: Database, file_id: ObjectId, *, node_id: ObjectId, now: datetime, thumbnail: Thumbnail | None = None
) -> None:
    """Creates an empty, unsettled file. Raises DuplicateKeyError if it exists."""
    metadata: Document = {"node": node_id, "unsettled": now, **(thumbnail or {})}
    empty = {"_id": file_id, "length": Int64(0), "chunkSize": CHUNK_BYTES, "uploadDate": now, "metadata": metadata}
    await db[FILES.name].insert_one(empty)


async def restart_thumbnail(db: Database, removed: FileDocument, *, now: datetime, thumbnail: Thumbnail) -> bool:
    """Turns a removed thumbnail into an empty, unsettled one. Returns False if another process was faster."""
    facts = {"node": removed["metadata"]["node"], "unsettled": now, **thumbnail}
    as_it_was = {"_id": removed["_id"], "metadata": removed["metadata"]}
    again = {"$set": {"length": Int64(0), "uploadDate": now, "metadata": facts}}
    return bool((await db[FILES.name].update_one(as_it_was, again)).matched_count)


async def settle_file(
    db: Database,
    file_id: ObjectId,
    *,
    passed: int | None,
    filename: str,
    content_type: str,
    length: int,
    checksum: str,
) -> bool:
    """Marks the file as complete and in use. Returns False if it was removed, or `passed` has changed. May be repeated.

    Args:     passed: the file's `metadata.passed`, read before the photo. A deletion of the photo increments it for
              unsettled files. If it has changed, the photo may be gone, and the file stays unsettled.
    """
    facts = {
        "filename": filename,
        "contentType": content_type,
        "length": Int64(length),
        "metadata.checksum": checksum,
    }
    kept = {"_id": file_id, "metadata.removed": None, "metadata.passed": passed}
    update = {"$set": facts, "$unset": {"metadata.unsettled": ""}}
    return bool((await db[FILES.name].update_one(kept, update)).matched_count)


class Writer:
    """Writes one file, a few chunks at a time, and computes its length and checksum."""

    def __init__(self, db: Database, file_id: ObjectId) -> None:
        self._db = db
        self._file_id = file_id
        self._buffer = bytearray()
        self._digest = hashlib.sha256()
        self._chunks = 0
        self.length = 0

    @property
    def checksum(self) -> str:
        """The SHA-256 of the bytes so far, in hexadecimal."""
        return self._digest.hexdigest()

    async def write(self, data: bytes) -> None:
        self._digest.update(data)
        self.length += len(data)
        self._buffer += data
        at_once = CHUNKS_AT_ONCE * CHUNK_BYTES
        while len(self._buffer) >= at_once:
            await self._flush(at_once)

    async def end(self) -> None:
        """Writes the remaining bytes."""
        if self._buffer:
            await self._flush(len(self._buffer))

    async def _flush(self, size: int) -> None:
        chunks: list[Document] = []
        for start in range(0, size, CHUNK_BYTES):
            data = bytes(self._buffer[start : min(start + CHUNK_BYTES, size)])
            chunks.append({"files_id": self._file_id, "n": self._chunks + len(chunks), "data": data})
        del self._buffer[:size]
        self._chunks += len(chunks)
        await self._db[CHUNKS.name].insert_many(chunks)


async def find_file(db: Database, file_id: ObjectId) -> FileDocument | None:
    return await FILES.of(db).find_one({"_id": file_id})


async def find_files_of(db: Database, node_id: ObjectId) -> list[FileDocument]:
    """Finds all files of a photo, including thumbnails, without removed ones: `_id` and `metadata`."""
    return await FILES.of(db).find({"metadata.node": node_id, "metadata.removed": None}, {"metadata": 1}).to_list()


async def invalidate_settlements(db: Database, file_ids: Sequence[ObjectId]) -> None:
    """Increments `passed` of the unsettled files, so that nobody settles them by an earlier read of the photo."""
    unsettled = {"_id": {"$in": list(file_ids)}, "metadata.unsettled": {"$ne": None}}
    await db[FILES.name].update_many(unsettled, {"$inc": {"metadata.passed": 1}})


async def read_bytes(db: Database, file: Layout, start: int, end: int) -> AsyncIterator[bytes]:
    """Reads the bytes of a file from `start` up to but not including `end`. Reads only the chunks that hold them.

    Raises:   BytesMissing.
    """
    size = file["chunkSize"]
    last = (end - 1) // size
    for first in range(start // size, last + 1, CHUNKS_AT_ONCE):
        wanted = {"$gte": first, "$lt": min(first + CHUNKS_AT_ONCE, last + 1)}
        found = await CHUNKS.of(db).find({"files_id": file["_id"], "n": wanted}, sort=[("n", ASCENDING)]).to_list()
        if [chunk["n"] for chunk in found] != list(range(wanted["$gte"], wanted["$lt"])):
            raise BytesMissing
        for chunk in found:
            offset = chunk["n"] * size
            yield bytes(chunk["data"][max(start - offset, 0) : end - offset])


async def delete_chunks(db: Database, file_id: ObjectId) -> None:
    """Deletes the bytes of a file, but not its document."""
    await db[CHUNKS.name].delete_many({"files_id": file_id})


async def remove_files(db: Database, file_ids: Sequence[ObjectId], *, now: datetime) -> None:
    """Deletes the bytes of files that a process may still be writing, and marks the files as removed.

    A job deletes the documents when nobody can be writing any more. May be repeated.

    Writes:   cms.assets.chunks, then cms.assets.files: after a crash, the files are not yet marked.
    """
    named = _any_of(file_ids)
    await db[CHUNKS.name].delete_many({"files_id": named})
    await db[FILES.name].update_many({"_id": named}, removal_update(now))


def _any_of(file_ids: Sequence[ObjectId]) -> Document | ObjectId:
    return {"$in": list(file_ids)} if len(file_ids) > 1 else file_ids[0]


def removal_update(now: datetime) -> Document:
    """Returns the update that marks a file as removed."""
    removed = {"metadata.removed": now, "metadata.sweep": now + _SWEPT_AFTER}
    return {"$set": removed, "$unset": {"metadata.unsettled": ""}}


async def delete_removed(db: Database, file_id: ObjectId, *, before: datetime) -> None:
    """Deletes a file that was removed at this time or earlier, with chunks that were written since.

    Writes:   cms.assets.chunks, then cms.assets.files.
    """
    await delete_chunks(db, file_id)
    await db[FILES.name].delete_one({"_id": file_id, "metadata.removed": {"$lte": before}})


async def delete_files(db: Database, file_ids: Sequence[ObjectId]) -> None:
    """Deletes files that nobody is writing. May be repeated.

    Writes:   cms.assets.chunks, then cms.assets.files: after a crash, the documents still lead to remaining chunks.
    """
    named = _any_of(file_ids)
    await db[CHUNKS.name].delete_many({"files_id": named})
    await db[FILES.name].delete_many({"_id": named})


async def delete_late_chunks(db: Database, file: FileDocument, *, now: datetime) -> bool:
    """Deletes chunks that were written to a file after its removal. Returns whether there were any.

    Also returns False if another process does this, or has restarted the thumbnail. The time until the next sweep is
    the age of the removal: late chunks stay no longer than they took to arrive.

    The guarded update comes before the deletion and does not cover it. If a process stalls between the two, it can
    delete chunks of a thumbnail that was restarted meanwhile. Then the next read raises BytesMissing, and the thumbnail
    is made again.

    Writes:   cms.assets.files, then cms.assets.chunks; one guarded update.
    """
    removed = file["metadata"]["removed"]
    as_it_was = {"_id": file["_id"], "metadata.removed": removed, "metadata.sweep": file["metadata"]["sweep"]}
    later = {"$set": {"metadata.sweep": now + max(now - removed, _SWEPT_AFTER)}}
    if not (await db[FILES.name].update_one(as_it_was, later)).matched_count:
        return False
    return bool((await db[CHUNKS.name].delete_many({"files_id": file["_id"]})).deleted_count)
