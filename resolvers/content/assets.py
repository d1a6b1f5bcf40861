"""The bytes of photos and thumbnails, in GridFS: any driver's GridFS reads them, and this reads what one wrote.

A document of `cms.assets.files`, which is there before the first of its chunks:

    _id         ObjectId
    filename    the photo's slug with the ending of its type
    length      bytes; 0 while they come
    chunkSize   bytes of each chunk but the last
    uploadDate  UTC
    contentType
    metadata    {node: the photo's _id, checksum: SHA-256 in hexadecimal,
                 of: of a thumbnail the _id of the file that it was made of, width: pixels,
                 maker: of a thumbnail the mark of whoever makes it,
                 unsettled: UTC; nobody can be sure yet that a photo has it,
                 passed: how often somebody who deleted its photo has passed it by, for it was unsettled,
                 removed: UTC; its chunks were deleted, and who may still write some is waited for,
                 sweep: UTC; when chunks that were written since are deleted}

A document of `cms.assets.chunks`:

    _id, files_id, n from 0, data

A file is in use where its photo's `detail.file` says so (`photos`), a thumbnail where its file is. `unsettled` and
`removed` are records of intent: whatever a crash leaves of them, `photo_jobs` settles. The document of a file into
which somebody may be writing is not deleted: without it nobody would find the chunks of a writer that is stopped.

The driver's own bucket is not used. It holds 48 MB of a file before it writes any of it. It knows none of the stand-ins
for a database (`gateway.driver`, `gateway.faults`). And it writes a file's document last, so that what a crash leaves
of its chunks could only be found by reading all there are.

Source: MongoDB Applied Design Patterns, ch. 6; the specification of GridFS.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

from bson import Int64, ObjectId
from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document

# Sharded as in the source: whoever reads a chunk has read the file's document, and knows its id.
FILES = CollectionSpec(
    "cms.assets.files",
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
    shard_key={"files_id": 1},
    indexes=[IndexModel([("files_id", ASCENDING), ("n", ASCENDING)], unique=True)],
)

# The default of GridFS.
CHUNK_BYTES = 255 * 1024
# A command of a process that was killed may still be carried out by the server, right after its chunks were deleted.
_SWEPT_AFTER = timedelta(seconds=5)
# So many are written or read by one command: of a file no more is held at once.
CHUNKS_AT_ONCE = 4


class BytesMissing(Exception):
    """A chunk of a file is not there: the file was deleted while it was read."""


async def create_file(
    db: Database, file_id: ObjectId, *, node_id: ObjectId, now: datetime, thumbnail: Document | None = None
) -> None:
    """Makes an empty file that is unsettled. Raises DuplicateKeyError where it is there already."""
    await db[FILES.name].insert_one(
        {
            "_id": file_id,
            "length": Int64(0),
            "chunkSize": CHUNK_BYTES,
            "uploadDate": now,
            "metadata": {"node": node_id, "unsettled": now, **(thumbnail or {})},
        }
    )


async def restart_thumbnail(db: Database, removed: Document, *, now: datetime, thumbnail: Document) -> bool:
    """Makes a removed thumbnail an empty one that is unsettled. False where somebody else has done so."""
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
    """Says that the file is whole and in use. False where somebody has given it up. May be repeated.

    Args:     passed: what the file said before its photo was read. Who deletes a photo passes by what is unsettled, so
              what has another number now may have lost its photo, and stays unsettled.
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
    """Writes one file, a few chunks at a time, and counts and digests what it has written."""

    def __init__(self, db: Database, file_id: ObjectId) -> None:
        self._db = db
        self._file_id = file_id
        self._buffer = bytearray()
        self._digest = hashlib.sha256()
        self._chunks = 0
        self.length = 0

    @property
    def checksum(self) -> str:
        """SHA-256 of what has been given to it, in hexadecimal."""
        return self._digest.hexdigest()

    async def write(self, data: bytes) -> None:
        self._digest.update(data)
        self.length += len(data)
        self._buffer += data
        at_once = CHUNKS_AT_ONCE * CHUNK_BYTES
        while len(self._buffer) >= at_once:
            await self._flush(at_once)

    async def end(self) -> None:
        """Writes what is left."""
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


async def find_file(db: Database, file_id: ObjectId) -> Document | None:
    return await db[FILES.name].find_one({"_id": file_id})


async def find_files_of(db: Database, node_id: ObjectId) -> list[Document]:
    """All files of a photo that were not removed, thumbnails too: `_id` and `metadata`."""
    return await db[FILES.name].find({"metadata.node": node_id, "metadata.removed": None}, {"metadata": 1}).to_list()


async def invalidate_settlements(db: Database, file_ids: Sequence[ObjectId]) -> None:
    """Whoever has looked for the photos of these unsettled files must look again before they settle one."""
    unsettled = {"_id": {"$in": list(file_ids)}, "metadata.unsettled": {"$ne": None}}
    await db[FILES.name].update_many(unsettled, {"$inc": {"metadata.passed": 1}})


async def read_bytes(db: Database, file: Document, start: int, end: int) -> AsyncIterator[bytes]:
    """The bytes of a file from `start` up to and without `end`, of which no chunk is read that holds none of them.

    Raises:   BytesMissing.
    """
    size = file["chunkSize"]
    last = (end - 1) // size
    for first in range(start // size, last + 1, CHUNKS_AT_ONCE):
        wanted = {"$gte": first, "$lt": min(first + CHUNKS_AT_ONCE, last + 1)}
        found = await db[CHUNKS.name].find({"files_id": file["_id"], "n": wanted}, sort=[("n", ASCENDING)]).to_list()
        if [chunk["n"] for chunk in found] != list(range(wanted["$gte"], wanted["$lt"])):
            raise BytesMissing
        for chunk in found:
            offset = chunk["n"] * size
            yield bytes(chunk["data"][max(start - offset, 0) : end - offset])


async def delete_chunks(db: Database, file_id: ObjectId) -> None:
    """Deletes the bytes of a file alone."""
    await db[CHUNKS.name].delete_many({"files_id": file_id})


async def remove_files(db: Database, file_ids: Sequence[ObjectId], *, now: datetime) -> None:
    """Deletes the bytes of files that somebody may still be writing; their documents go when nobody can be any more.

    May be repeated.

    Writes:   cms.assets.chunks, then cms.assets.files, so that a crash leaves the files as they were.
    """
    named = _any_of(file_ids)
    await db[CHUNKS.name].delete_many({"files_id": named})
    await db[FILES.name].update_many({"_id": named}, removal_update(now))


def _any_of(file_ids: Sequence[ObjectId]) -> Document | ObjectId:
    return {"$in": list(file_ids)} if len(file_ids) > 1 else file_ids[0]


def removal_update(now: datetime) -> Document:
    """The update that makes a file a removed one."""
    removed = {"metadata.removed": now, "metadata.sweep": now + _SWEPT_AFTER}
    return {"$set": removed, "$unset": {"metadata.unsettled": ""}}


async def delete_removed(db: Database, file_id: ObjectId, *, before: datetime) -> None:
    """Deletes a file that was removed at this time or earlier, with what was written into it since.

    Writes:   cms.assets.chunks, then cms.assets.files.
    """
    await delete_chunks(db, file_id)
    await db[FILES.name].delete_one({"_id": file_id, "metadata.removed": {"$lte": before}})


async def delete_files(db: Database, file_ids: Sequence[ObjectId]) -> None:
    """Deletes files that nobody writes. May be repeated.

    Writes:   cms.assets.chunks, then cms.assets.files, so that what a crash leaves is found by the file's document.
    """
    named = _any_of(file_ids)
    await db[CHUNKS.name].delete_many({"files_id": named})
    await db[FILES.name].delete_many({"_id": named})


async def delete_late_chunks(db: Database, file: Document, *, now: datetime) -> bool:
    """Deletes what was written into a removed file since. False where somebody else does, or has begun it again.

    The next time comes after as long again: bytes that come late stay for no longer than they took to come.

    The guard comes before the deletion and does not cover it. A process that sleeps between the two can delete bytes of
    a thumbnail that was begun again meanwhile. The next read of it raises BytesMissing, and it is made anew.

    Writes:   cms.assets.files, then cms.assets.chunks; one guarded update.
    """
    removed = file["metadata"]["removed"]
    as_it_was = {"_id": file["_id"], "metadata.removed": removed, "metadata.sweep": file["metadata"]["sweep"]}
    later = {"$set": {"metadata.sweep": now + max(now - removed, _SWEPT_AFTER)}}
    if not (await db[FILES.name].update_one(as_it_was, later)).matched_count:
        return False
    return bool((await db[CHUNKS.name].delete_many({"files_id": file["_id"]})).deleted_count)
