"""Thumbnails: made at the first request, and stored as files.

The `_id` of a thumbnail is derived from the `_id` of its original file and from its width. Therefore, only one of many
concurrent requests makes it, and deleting a file deletes its thumbnails without a search.

A process that makes a thumbnail first inserts its document, then checks that the photo still uses the original file. A
process that deletes the file first removes it from the photo, then deletes the files. Therefore, at least one of the
two sees the other.

The document of an abandoned thumbnail stays for a day, marked as removed, because a stalled process may still write
chunks. A job finds these chunks by the document. A request for the thumbnail restarts it.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.pictures import Pictures

from . import assets
from .assets import FILES, FileDocument
from .nodes import NODES

CONTENT_TYPE = "image/webp"
SUFFIX = "webp"
# Pixels. Requested widths are rounded down to one of these, so that requests cannot fill the disk.
WIDTHS = (16, 40, 80, 160, 320, 640, 1280, 1920)
_NARROW = 80
# A thumbnail that is unfinished after this time was left by a crash.
_STALE_AFTER = timedelta(minutes=3)
# Seconds to wait for another process that makes the thumbnail, before making it without storing it.
_PATIENCE = 5.0


def width_for(asked: int, photo_width: int) -> int:
    """Returns the width of a thumbnail: the largest of `WIDTHS` up to `asked`, which is 16 or more.

    Of the widths above that of the photo, uses only the smallest: all of them would show the photo in its own size.
    """
    largest = max(width for width in WIDTHS if width <= asked)
    # A narrow photo may be tall, and this width also limits the height.
    return next(width for width in WIDTHS if width >= min(largest, max(photo_width, _NARROW)))


def thumbnail_id(file_id: ObjectId, width: int) -> ObjectId:
    return ObjectId(hashlib.blake2b(file_id.binary + width.to_bytes(4, "big"), digest_size=12).digest())


def thumbnail_ids(file_id: ObjectId) -> list[ObjectId]:
    """Returns the ids of all possible thumbnails of this file."""
    return [thumbnail_id(file_id, width) for width in WIDTHS]


async def get_thumbnail(
    db: Database, photo: Mapping[str, Any], width: int, pictures: Pictures, *, now: datetime
) -> bytes:
    """Returns the thumbnail of a photo. Makes and stores it if needed. `width` is one of `WIDTHS`.

    Raises:   PictureBroken, BytesMissing (the photo has been replaced or deleted).
    Writes:   cms.assets.files, cms.assets.chunks; inserts, then an update guarded by this maker's mark.
    """
    waited = 0.0
    while waited < _PATIENCE:
        file = await assets.find_file(db, thumbnail_id(photo["detail"]["file"], width))
        if file is None or "removed" in file["metadata"]:
            made = await _make(db, photo, width, pictures, now, file)
            if made is not None:
                return made
        elif "unsettled" not in file["metadata"]:
            data = await _read_stored(db, file, now)
            if data is not None:
                return data
        pause = (0.02 + waited / 4) * random.uniform(0.5, 1.5)  # noqa: S311 - spreads callers, guards nothing
        await asyncio.sleep(pause)
        waited += pause
    return await pictures.thumbnail(_original(db, photo), width)


async def _read_stored(db: Database, file: FileDocument, now: datetime) -> bytes | None:
    """Returns the bytes of a thumbnail. If some are missing, marks it as removed, and returns None."""
    try:
        return b"".join([piece async for piece in assets.read_bytes(db, file, 0, file["length"])])
    except assets.BytesMissing:
        settled = {**_owned_by(file["_id"], file["metadata"]["maker"]), "metadata.unsettled": None}
        await db[FILES.name].update_one(settled, assets.removal_update(now))
        return None


async def _make(
    db: Database, photo: Mapping[str, Any], width: int, pictures: Pictures, now: datetime, removed: FileDocument | None
) -> bytes | None:
    """Makes and stores the thumbnail, also in place of a removed one. Returns None if another process makes it."""
    original = photo["detail"]["file"]
    file_id = thumbnail_id(original, width)
    mark = uuid4().hex
    facts: assets.Thumbnail = {"of": original, "width": width, "maker": mark}
    if removed is None:
        try:
            await assets.create_file(db, file_id, node_id=photo["_id"], now=now, thumbnail=facts)
        except DuplicateKeyError:
            return None
    elif not await assets.restart_thumbnail(db, removed, now=now, thumbnail=facts):
        return None
    is_stored = False
    try:
        data = await pictures.thumbnail(_original(db, photo), width)
        is_stored = await _store(db, photo, file_id, mark, data)
    finally:
        if not is_stored:
            await _give_up(db, file_id, mark, now)
    return data


async def delete_stale(db: Database, file: Mapping[str, Any], *, now: datetime) -> bool:
    """Deletes a thumbnail that was not finished in time. Its maker can no longer store it."""
    is_stale = file["metadata"]["unsettled"] <= now - _STALE_AFTER
    return is_stale and await _give_up(db, file["_id"], file["metadata"]["maker"], now)


async def _give_up(db: Database, file_id: ObjectId, mark: str, now: datetime) -> bool:
    """Abandons a maker's unfinished thumbnail. Keeps chunks of other makers. Returns False if it has another maker."""
    is_mine = bool(
        (await db[FILES.name].update_one(_unfinished_by(file_id, mark), assets.removal_update(now))).matched_count
    )
    file = None if is_mine else await assets.find_file(db, file_id)
    # A deletion of the photo's file has also removed this file, maybe before its chunks were written.
    if file is None or "removed" in file["metadata"]:
        await assets.delete_chunks(db, file_id)
    return is_mine


def _owned_by(file_id: ObjectId, mark: str) -> Document:
    return {"_id": file_id, "metadata.maker": mark}


def _unfinished_by(file_id: ObjectId, mark: str) -> Document:
    return {**_owned_by(file_id, mark), "metadata.unsettled": {"$ne": None}}


async def _store(db: Database, photo: Mapping[str, Any], file_id: ObjectId, mark: str, data: bytes) -> bool:
    writer = assets.Writer(db, file_id)
    # Deletes chunks of an earlier maker that was stopped.
    await assets.delete_chunks(db, file_id)
    await writer.write(data)
    await writer.end()
    in_use = {"_id": photo["_id"], "parent": photo["parent"], "detail.file": photo["detail"]["file"]}
    if await NODES.of(db).find_one(in_use, {"_id": 1}) is None:
        return False
    facts = {
        "filename": f"{photo['slug']}.{SUFFIX}",
        "contentType": CONTENT_TYPE,
        "length": writer.length,
        "metadata.checksum": writer.checksum,
    }
    settled = {"$set": facts, "$unset": {"metadata.unsettled": ""}}
    return bool((await db[FILES.name].update_one(_unfinished_by(file_id, mark), settled)).matched_count)


async def _original(db: Database, photo: Mapping[str, Any]) -> AsyncIterator[bytes]:
    file = await assets.find_file(db, photo["detail"]["file"])
    if file is None:
        raise assets.BytesMissing
    # Takes the length from the photo: an upload that is just finishing updates the photo before its file.
    async for piece in assets.read_bytes(db, file, 0, photo["detail"]["length"]):
        yield piece
