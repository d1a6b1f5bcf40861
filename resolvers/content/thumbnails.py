"""Thumbnails: made when somebody first asks for one, and kept as files beside the photo's.

A thumbnail's `_id` follows from that of the file that it is made of and from its width. So of many who ask at once one
makes it; and whoever deletes a file deletes its thumbnails without having to find them.

Whoever makes one inserts its document first, then looks whether its photo still has the file; whoever deletes the file
takes it out of the photo first, then deletes. At least one of the two sees the other.

The document of one that is given up stays for a day as a removed one, for who sleeps may still write chunks, and is
stopped then. Until it goes a job finds them by it; and who needs the thumbnail begins it again.
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

from . import assets
from .assets import FILES
from .nodes import NODES
from .pictures import Pictures

CONTENT_TYPE = "image/webp"
SUFFIX = "webp"
# Pixels. A width that is asked for is rounded down to one of these, so that nobody can fill the disk.
WIDTHS = (16, 40, 80, 160, 320, 640, 1280, 1920)
_NARROW = 80
# One that is not finished by then was left by a crash.
STALE_AFTER = timedelta(minutes=3)
# Whoever finds that another makes it waits so long, and then makes it for themselves.
_PATIENCE = 5.0


def width_for(asked: int, photo_width: int) -> int:
    """Which of the widths a thumbnail has: the largest up to the one asked for, which is 16 or more. Of those wider
    than the photo one is enough, for they all show it in its own size.
    """
    largest = max(width for width in WIDTHS if width <= asked)
    # A narrow photo may be a high one, and the height is bounded by this width.
    return next(width for width in WIDTHS if width >= min(largest, max(photo_width, _NARROW)))


def thumbnail_id(file_id: ObjectId, width: int) -> ObjectId:
    return ObjectId(hashlib.blake2b(file_id.binary + width.to_bytes(4, "big"), digest_size=12).digest())


def thumbnail_ids(file_id: ObjectId) -> list[ObjectId]:
    """The ids of all thumbnails that there can be of this file."""
    return [thumbnail_id(file_id, width) for width in WIDTHS]


async def get_thumbnail(
    db: Database, photo: Mapping[str, Any], width: int, pictures: Pictures, *, now: datetime
) -> bytes:
    """The thumbnail of a photo, which is made where it is not there yet. `width` is one of `WIDTHS`.

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


async def _read_stored(db: Database, file: Document, now: datetime) -> bytes | None:
    """The bytes of a thumbnail. None where there are none, so that it has to be made anew."""
    try:
        return b"".join([piece async for piece in assets.read_bytes(db, file, 0, file["length"])])
    except assets.BytesMissing:
        settled = {**_owned_by(file["_id"], file["metadata"]["maker"]), "metadata.unsettled": None}
        await db[FILES.name].update_one(settled, assets.removal_update(now))
        return None


async def _make(
    db: Database, photo: Mapping[str, Any], width: int, pictures: Pictures, now: datetime, removed: Document | None
) -> bytes | None:
    """Makes and keeps the thumbnail, in place of one that was removed. None where somebody else has begun to."""
    original = photo["detail"]["file"]
    file_id = thumbnail_id(original, width)
    mark = uuid4().hex
    facts = {"of": original, "width": width, "maker": mark}
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
    """Deletes a thumbnail that was not finished in time. Whoever still makes it does not keep it."""
    is_stale = file["metadata"]["unsettled"] <= now - STALE_AFTER
    return is_stale and await _give_up(db, file["_id"], file["metadata"]["maker"], now)


async def _give_up(db: Database, file_id: ObjectId, mark: str, now: datetime) -> bool:
    """Gives up what this maker has begun; the chunks of others stay. False where it was not theirs any more."""
    is_mine = bool(
        (await db[FILES.name].update_one(_unfinished_by(file_id, mark), assets.removal_update(now))).matched_count
    )
    file = None if is_mine else await assets.find_file(db, file_id)
    # Whoever deleted the photo's file has removed this one, too, maybe before its chunks were written.
    if file is None or "removed" in file["metadata"]:
        await assets.delete_chunks(db, file_id)
    return is_mine


def _owned_by(file_id: ObjectId, mark: str) -> Document:
    return {"_id": file_id, "metadata.maker": mark}


def _unfinished_by(file_id: ObjectId, mark: str) -> Document:
    return {**_owned_by(file_id, mark), "metadata.unsettled": {"$ne": None}}


async def _store(db: Database, photo: Mapping[str, Any], file_id: ObjectId, mark: str, data: bytes) -> bool:
    writer = assets.Writer(db, file_id)
    # What a maker has left that was stopped before.
    await assets.delete_chunks(db, file_id)
    await writer.write(data)
    await writer.end()
    in_use = {"_id": photo["_id"], "parent": photo["parent"], "detail.file": photo["detail"]["file"]}
    if await db[NODES.name].find_one(in_use, {"_id": 1}) is None:
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
    # An upload that just comes to its end has told the photo, and its file not yet.
    async for piece in assets.read_bytes(db, file, 0, photo["detail"]["length"]):
        yield piece
