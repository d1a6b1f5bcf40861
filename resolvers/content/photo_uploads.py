"""Uploads of photos: lock the node, write the bytes to a new file, make it the photo's file by one guarded update.

While a photo is replaced, the old bytes stay until the new ones are complete. An upload renews its lock every few
seconds. If the lock expires, the upload was left by a crash. Then a job, or the next upload to the photo, aborts it. An
upload that resumes after that can no longer finish or undo anything.

A photo counts as created when its bytes are complete. If an upload is abandoned before that, a call with the same key
starts again; the key does not keep a `NotFound`. Before a stored file becomes current, the gateway reads it back and
decodes it in a process with limited memory and time, so the check covers the bytes that are served. No temporary file
is needed, and at most one megabyte of the bytes is in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import PyMongoError

from portico.resolvers.content.refusals import EditConflict, PhotoLocked
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, NotFound, OperationKeyReused, UnacceptableFile
from portico.resolvers.pictures import SIGNATURE_BYTES, SUFFIXES, Picture, Pictures
from portico.resolvers.tasks import complete, end
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.marks import derived_id, derived_nonce, mark_applied, not_applied, trim_marks, was_applied
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.timer import Timer

from . import assets, photos
from .creation import NewNode, create_node
from .edits import SETTLED
from .nodes import KIND, NODES, PHOTO, Detail, NodeDocument, Upload, require_settled

# The longest interval between two renewals of a lock.
_RENEW_AT_LEAST = timedelta(seconds=5)
_LOCKING_ATTEMPTS = 5


@dataclass(frozen=True)
class UploadRules:
    """The limits of uploads: `max_bytes` of a file, and `lock_lasts`, after which an unrenewed lock expires."""

    max_bytes: int
    lock_lasts: timedelta
    pictures: Pictures


@dataclass
class _Upload:
    """One attempt at an upload. Each attempt writes to its own file."""

    db: Database
    node: NodeDocument
    file_id: ObjectId
    rules: UploadRules
    timer: Timer
    operation_id: str
    is_lost: bool = False

    @property
    def mine(self) -> Document:
        """The filter of the node while this attempt holds its lock."""
        return {
            "_id": self.node["_id"],
            "parent": self.node["parent"],
            "detail.upload.file": self.file_id,
        }


async def upload_photo(
    db: Database, *, node: NewNode, file: AsyncIterator[bytes], rules: UploadRules, now: datetime, operation_id: str
) -> NodeDocument:
    """Creates a photo in a gallery. Until the upload is complete, only EDITORs see it.

    Returns:  the photo.
    Raises:   InvalidInput, SlugTaken, NotFound (the gallery), UnacceptableFile, OperationKeyReused (another file),
              Conflict (the upload was aborted); and the errors of `file`, after undoing the upload.
    Writes:   cms.nodes, cms.assets.files, cms.assets.chunks; compensating.
    """
    file_id, timer = _new_file_id(operation_id), Timer(now)
    detail: Detail = {"file": None, "locked": now, "upload": _new_lock(operation_id, file_id, timer, rules)}
    created = await create_node(db, type_=PHOTO, node=node, detail=detail, now=now, operation_id=operation_id)
    if "upload" not in created["detail"]:
        return await _require_same_file(db, created, file, rules, operation_id)
    if created["detail"]["upload"]["file"] != file_id:
        await _take_over(db, created, file_id, rules, timer, operation_id)
    return await _carry_out(_Upload(db, created, file_id, rules, timer, operation_id), file)


async def replace_photo(
    db: Database,
    *,
    photo_id: ObjectId,
    nonce: str,
    file: AsyncIterator[bytes],
    rules: UploadRules,
    now: datetime,
    operation_id: str,
) -> NodeDocument:
    """Replaces the bytes of a photo. The photo keeps the old bytes until the upload is complete, or if it fails.

    The nonce is checked when the upload begins. Edits during the upload, e.g. of the title, stay.

    Returns:  the photo.
    Raises:   NotFound, EditConflict, PhotoLocked, UnacceptableFile, OperationKeyReused (another file),
              Conflict (the upload was aborted); and the errors of `file`, after undoing the upload.
    Writes:   cms.nodes, cms.assets.files, cms.assets.chunks; nonce-guarded, then compensating.
    """
    file_id, timer = _new_file_id(operation_id), Timer(now)
    locked = await _lock_photo(db, photo_id, nonce, file_id, rules, timer, operation_id)
    if was_applied(locked, operation_id):
        return await _require_same_file(db, locked, file, rules, operation_id)
    return await _carry_out(_Upload(db, locked, file_id, rules, timer, operation_id), file)


def _new_file_id(operation_id: str) -> ObjectId:
    return derived_id(operation_id, f"file/{uuid4().hex}")


def _new_lock(operation_id: str, file_id: ObjectId, timer: Timer, rules: UploadRules) -> Upload:
    return {"op": operation_id, "file": file_id, "until": timer.now() + rules.lock_lasts}


async def _lock_photo(
    db: Database,
    photo_id: ObjectId,
    nonce: str,
    file_id: ObjectId,
    rules: UploadRules,
    timer: Timer,
    operation_id: str,
) -> NodeDocument:
    """Locks the photo for this upload. Returns the photo; unlocked if the operation is already done."""
    async for _ in attempts(_LOCKING_ATTEMPTS):
        node = await require_settled(db, photo_id)
        if node["type"] != PHOTO:
            raise NotFound(KIND, str(photo_id), message="The id is not the id of a photo.")
        if was_applied(node, operation_id):
            return node
        upload = node["detail"].get("upload")
        if upload is not None and upload["op"] == operation_id:
            await _take_over(db, node, file_id, rules, timer, operation_id)
            return node
        if node["nonce"] != nonce:
            raise EditConflict(node)
        await photos.require_unlocked(db, node, now=timer.now())
        free = {
            "_id": photo_id,
            "parent": node["parent"],
            "nonce": nonce,
            **SETTLED,
            **photos.UNLOCKED,
            **not_applied(operation_id),
        }
        lock = {"detail.locked": timer.now(), "detail.upload": _new_lock(operation_id, file_id, timer, rules)}
        if (await db[NODES.name].update_one(free, {"$set": lock})).matched_count:
            return node
    raise PhotoLocked(timer.now())


async def _take_over(
    db: Database, node: NodeDocument, file_id: ObjectId, rules: UploadRules, timer: Timer, operation_id: str
) -> None:
    """Takes over the lock of an earlier call of the same operation. The upload restarts from the beginning."""
    earlier = node["detail"]["upload"]["file"]
    mine = {"_id": node["_id"], "parent": node["parent"], "detail.upload.file": earlier}
    taken = {"$set": {"detail.upload": _new_lock(operation_id, file_id, timer, rules)}}
    if not (await db[NODES.name].update_one(mine, taken)).matched_count:
        raise _upload_aborted()
    await assets.remove_files(db, [earlier], now=timer.now())


def _upload_aborted() -> Conflict:
    return Conflict(
        "The upload was aborted, because its lock expired. Send the call again with the same idempotency key."
    )


async def _carry_out(upload: _Upload, file: AsyncIterator[bytes]) -> NodeDocument:
    try:
        async with _renewing_lock(upload):
            writer = await _receive(upload, file)
            picture = await _examine(upload, writer)
            done = await _finish(upload, writer, picture)
    except BaseException:
        # A gateway that stops can cancel the call also meanwhile. If the database does not respond, a job undoes it.
        with contextlib.suppress(PyMongoError):
            await complete(_undo(upload))
        raise
    # If the photo was deleted in the meantime, the file stays unsettled, and a job deletes it.
    await assets.settle_file(upload.db, upload.file_id, passed=None, **photos.file_facts(done))
    await trim_marks(upload.db, NODES, done)
    return done


@contextlib.asynccontextmanager
async def _renewing_lock(upload: _Upload) -> AsyncIterator[None]:
    """Renews the lock periodically while the context is open."""
    pause = min(_RENEW_AT_LEAST, upload.rules.lock_lasts / 4).total_seconds()

    async def renew() -> None:
        while not upload.is_lost:
            await asyncio.sleep(pause)
            at = upload.timer.now()
            with contextlib.suppress(PyMongoError):
                longer = {"$set": {"detail.upload.until": at + upload.rules.lock_lasts}}
                upload.is_lost = not (await upload.db[NODES.name].update_one(upload.mine, longer)).matched_count
                await idempotency.renew(upload.db, upload.operation_id, now=at)

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        await end(renewing)


async def _receive(upload: _Upload, file: AsyncIterator[bytes]) -> assets.Writer:
    """Writes the bytes as they arrive. Refuses files that are too large, or are not pictures by their first bytes."""
    await assets.create_file(upload.db, upload.file_id, node_id=upload.node["_id"], now=upload.timer.now())
    writer = assets.Writer(upload.db, upload.file_id)
    beginning = b""
    async for piece in file:
        if upload.is_lost:
            raise _upload_aborted()
        if writer.length + len(piece) > upload.rules.max_bytes:
            raise _too_large(upload.rules)
        if len(beginning) < SIGNATURE_BYTES:
            beginning = (beginning + piece)[:SIGNATURE_BYTES]
            if len(beginning) == SIGNATURE_BYTES:
                _require_picture(upload.rules, beginning)
        await writer.write(piece)
    if len(beginning) < SIGNATURE_BYTES:
        _require_picture(upload.rules, beginning)
    await writer.end()
    await idempotency.note(upload.db, upload.operation_id, checksum=writer.checksum)
    return writer


def _too_large(rules: UploadRules) -> UnacceptableFile:
    return UnacceptableFile(f"The file has more than {rules.max_bytes:,} bytes.")


def _require_picture(rules: UploadRules, beginning: bytes) -> None:
    if not rules.pictures.recognizes(beginning):
        raise UnacceptableFile(f"The file must have one of these types: {', '.join(SUFFIXES)}.")


async def _examine(upload: _Upload, writer: assets.Writer) -> Picture:
    """Decodes the stored bytes, because these are the bytes that are served. Raises Conflict, UnacceptableFile."""
    try:
        return await _decode(upload, writer)
    except assets.BytesMissing:
        # Aborting an upload deletes its bytes.
        if await NODES.of(upload.db).find_one(upload.mine, {"_id": 1}) is None:
            raise _upload_aborted() from None
        raise


async def _decode(upload: _Upload, writer: assets.Writer) -> Picture:
    digest = hashlib.sha256()

    async def stored() -> AsyncIterator[bytes]:
        file: assets.Layout = {"_id": upload.file_id, "chunkSize": assets.CHUNK_BYTES}
        async for piece in assets.read_bytes(upload.db, file, 0, writer.length):
            digest.update(piece)
            yield piece

    picture = await upload.rules.pictures.examine(stored())
    if digest.hexdigest() != writer.checksum:
        raise assets.BytesMissing
    return picture


async def _finish(upload: _Upload, writer: assets.Writer, picture: Picture) -> NodeDocument:
    """Makes the file the photo's, and marks the previous file for deletion, by one update.

    For a new photo, first notes that the operation is done, so that a repeated call does not upload it again after
    somebody has deleted it. If the upload is aborted, the note is undone: here, or in `photos.abort_upload`.
    """
    old = upload.node["detail"].get("file")
    # The upload may have taken long. Readers of the old bytes have a minute from now.
    now = upload.timer.now()
    changes: dict[str, Any] = {
        "detail.file": upload.file_id,
        "detail.content_type": picture.content_type,
        "detail.length": writer.length,
        "detail.width": picture.width,
        "detail.height": picture.height,
        "detail.checksum": writer.checksum,
        "detail.locked": None,
    }
    update: Document = {
        "$set": changes,
        "$max": {"updated": now},
        "$unset": {"detail.upload": ""},
        **mark_applied(upload.operation_id),
    }
    if old is None:
        changes["visible_from"] = upload.node["created"]
    else:
        changes["nonce"] = derived_nonce(upload.operation_id, "replaced")
        update["$inc"] = {"revision": 1}
        update.setdefault("$push", {})["detail.replaced"] = {"file": old, "at": now}
    if old is None:
        await idempotency.note(upload.db, upload.operation_id, done=True)
    done = await NODES.of(upload.db).find_one_and_update(upload.mine, update, return_document=ReturnDocument.AFTER)
    if done is None:
        if old is None:
            await idempotency.note(upload.db, upload.operation_id, done=False)
        raise _upload_aborted()
    return done


async def _undo(upload: _Upload) -> None:
    """Undoes the upload, unless the last update succeeded without its answer arriving."""
    node = await NODES.of(upload.db).find_one({"_id": upload.node["_id"], "parent": upload.node["parent"]})
    if node is None or upload.file_id not in photos.files_of(node):
        await assets.remove_files(upload.db, [upload.file_id], now=upload.timer.now())
    elif node["detail"]["file"] != upload.file_id:
        await photos.abort_upload(upload.db, node, now=upload.timer.now(), is_own=True)


async def _require_same_file(
    db: Database, node: NodeDocument, file: AsyncIterator[bytes], rules: UploadRules, operation_id: str
) -> NodeDocument:
    """Returns the photo of an operation that is done, if this call has the same file.

    Raises:   OperationKeyReused, UnacceptableFile.
    """
    digest = hashlib.sha256()
    size = 0
    async for piece in file:
        digest.update(piece)
        size += len(piece)
        if size > rules.max_bytes:
            raise _too_large(rules)
    if (await idempotency.notes(db, operation_id)).get("checksum") != digest.hexdigest():
        raise OperationKeyReused
    return node
