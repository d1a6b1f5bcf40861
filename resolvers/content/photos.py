"""Photos: the node of each in `cms.nodes`, its bytes in GridFS (`assets`). Which file a photo has, and who writes one.

What the `detail` of a photo has beside what `content` says:

    file      None until the first upload is whole
    upload    {op, file, until}: an upload in progress; the file that it writes; UTC, until when it holds the lock
    replaced  [{file, at}]: files that the photo had, and that are to be deleted

`locked` and `upload` are set and taken off together. `locked` is what clients see; an upload whose `until` has passed,
because it has not put it off, was left by a crash.

A file is never written by two: every attempt at an upload has a file of its own, and names it in the node before it
makes it. So a file that its node does not name is nobody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import PhotoLocked
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.sweeps import each

from . import assets, thumbnails
from .nodes import NODES, PHOTO, find_by_ids
from .pictures import SUFFIXES

# The path below which the bytes are served: the photo's _id, the checksum, a name.
ASSETS = "/assets"
# Nobody uploads into the photo.
UNLOCKED: Document = {"detail.upload": None}
# Who reads the old bytes of a photo that is replaced is given so long to come to their end.
REPLACED_KEPT_FOR = timedelta(minutes=1)


def file_facts(photo: Mapping[str, Any]) -> dict[str, Any]:
    """What is told of a photo's file in the file itself."""
    detail = photo["detail"]
    return {
        "filename": filename(photo),
        "content_type": detail["content_type"],
        "length": detail["length"],
        "checksum": detail["checksum"],
    }


def filename(photo: Mapping[str, Any]) -> str:
    """The name under which the photo's bytes are served."""
    return f"{photo['slug']}.{SUFFIXES[photo['detail']['content_type']]}"


def path_of_bytes(photo: Mapping[str, Any]) -> str:
    """Where the photo's bytes are served; empty as long as there are none."""
    detail = photo["detail"]
    if detail.get("file") is None:
        return ""
    return f"{ASSETS}/{photo['_id']}/{detail['checksum']}/{filename(photo)}"


def path_of_thumbnail(photo: Mapping[str, Any], width: int) -> str:
    """Where a smaller rendering is served; empty as long as there are no bytes."""
    path = path_of_bytes(photo)
    return path and f"{path}?width={thumbnails.width_for(width, photo['detail']['width'])}"


async def find_photo(db: Database, node_id: ObjectId) -> Document | None:
    """The photo, whole; None where there is none, or one whose bytes have never been whole."""
    node = await db[NODES.name].find_one({"_id": node_id, "type": PHOTO})
    return None if node is None or node["detail"].get("file") is None else node


def files_of(node: Mapping[str, Any]) -> list[ObjectId]:
    """The files that a photo names, without their thumbnails: the one in use, the one to come, those that were."""
    detail = node["detail"]
    named = [detail.get("file"), detail.get("upload", {}).get("file")]
    return [key for key in (*named, *(old["file"] for old in detail.get("replaced", ()))) if key is not None]


async def delete_bytes(db: Database, node_id: ObjectId, *, now: datetime) -> None:
    """Deletes the bytes of a photo that is gone. May be repeated.

    A file that is not settled is left to a job: it may be that of an upload that just comes to its end, or of the same
    upload, made again. It is passed by first, so that nobody settles it who has seen the photo before it went.

    Writes:   cms.assets.files, cms.assets.chunks.
    """
    files = await assets.find_files_of(db, node_id)
    unsettled = [file["_id"] for file in files if _is_upload(file)]
    if unsettled:
        await assets.invalidate_settlements(db, unsettled)
        files = await assets.find_files_of(db, node_id)
    # What was found settled was a photo's, and is that of the same upload, made again, where the photo names it now.
    node = (await find_by_ids(db, [node_id], {"detail": 1})).get(node_id) if files else None
    kept = [] if node is None else files_of(node)
    gone = [file for file in files if not _is_upload(file) and _original(file) not in kept]
    await _delete(
        db,
        [file["_id"] for file in gone if _original(file) == file["_id"]],
        [file["_id"] for file in gone if _original(file) != file["_id"]],
        now,
    )


def _original(file: Document) -> ObjectId:
    """The file itself, or of a thumbnail the one that it was made of."""
    found: ObjectId = file["metadata"].get("of", file["_id"])
    return found


def _is_upload(file: Document) -> bool:
    return "unsettled" in file["metadata"] and "of" not in file["metadata"]


async def _delete(db: Database, whole: list[ObjectId], made: list[ObjectId], now: datetime) -> None:
    """Deletes files that photos had, into which nobody writes any more, and thumbnails, into which somebody may."""
    if made:
        await assets.remove_files(db, made, now=now)
    if whole:
        await assets.delete_files(db, whole)


async def delete_replaced(db: Database, node: Mapping[str, Any], *, before: datetime, now: datetime) -> int:
    """Deletes the files that the photo had until `before` or earlier. Returns how many. May be repeated.

    Writes:   cms.assets.chunks, cms.assets.files, then cms.nodes.
    """
    mine = {"_id": node["_id"], "parent": node["parent"]}

    async def delete(old: Document) -> int:
        if old["at"] > before:
            return 0
        await _delete(db, [old["file"]], thumbnails.thumbnail_ids(old["file"]), now)
        await db[NODES.name].update_one(mine, {"$pull": {"detail.replaced": {"file": old["file"]}}})
        return 1

    return await each(node["detail"].get("replaced", ()), delete)


async def require_unlocked(db: Database, node: Mapping[str, Any], *, now: datetime) -> None:
    """Ends an upload to the photo that a crash has left. Raises PhotoLocked where somebody still uploads.

    Writes:   as `abort_upload`.
    """
    upload = node["detail"].get("upload")
    if upload is not None:
        if upload["until"] > now:
            raise PhotoLocked(node["detail"]["locked"])
        await abort_upload(db, node, now=now)


async def abort_upload(db: Database, node: Mapping[str, Any], *, now: datetime) -> bool:
    """Ends the upload that the node was read with, as if it had never begun. False where it has gone on meanwhile.

    A photo that has never been whole goes, and the same call may create it again. Another keeps the bytes that it has.

    Writes:   operations, cms.nodes, cms.assets.files, cms.assets.chunks; one guarded update or removal of the node.
    """
    upload = node["detail"]["upload"]
    mine = {
        "_id": node["_id"],
        "parent": node["parent"],
        "detail.upload.file": upload["file"],
        "detail.upload.until": upload["until"],
    }
    if node["detail"].get("file") is None:
        # A call that stopped right before its last step has noted that the photo is done.
        await idempotency.note(db, upload["op"], done=False)
        ended = (await db[NODES.name].delete_one(mine)).deleted_count
    else:
        unlocked = {"$set": {"detail.locked": None}, "$unset": {"detail.upload": ""}}
        ended = (await db[NODES.name].update_one(mine, unlocked)).matched_count
    if ended:
        await assets.remove_files(db, [upload["file"]], now=now)
    return bool(ended)
