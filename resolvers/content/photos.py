"""Photos: nodes in `cms.nodes` with bytes in GridFS (`assets`). The files of a photo, and their deletion.

If `detail.upload.until` has passed without a renewal, the upload was left by a crash.

A file has only one writer: each attempt at an upload has its own file, and names it in the node before it creates it.
Therefore, a file that its node does not name is not in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from portico.resolvers.content.refusals import PhotoLocked
from portico.resolvers.documents import Database, Document
from portico.resolvers.pictures import SUFFIXES, width_for
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.sweeps import each

from . import assets, thumbnails
from .assets import FileDocument
from .nodes import NODES, PHOTO, NodeDocument, find_by_ids

# Bytes are served below this path, by the photo's _id, the checksum and a file name.
ASSETS = "/assets"
# Matches photos without an upload in progress.
UNLOCKED: Document = {"detail.upload": None}
# After a replacement, the old bytes stay for this time, so that readers can finish.
REPLACED_KEPT_FOR = timedelta(minutes=1)


def file_facts(photo: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the facts about a photo's file that the file's document holds."""
    detail = photo["detail"]
    return {
        "filename": filename(photo),
        "content_type": detail["content_type"],
        "length": detail["length"],
        "checksum": detail["checksum"],
    }


def filename(photo: Mapping[str, Any]) -> str:
    """Returns the file name of the photo's bytes."""
    return f"{photo['slug']}.{SUFFIXES[photo['detail']['content_type']]}"


def path_of_bytes(photo: Mapping[str, Any]) -> str:
    """Returns the URL path of the photo's bytes; empty if there are none yet."""
    detail = photo["detail"]
    if detail.get("file") is None:
        return ""
    return f"{ASSETS}/{photo['_id']}/{detail['checksum']}/{filename(photo)}"


def path_of_thumbnail(photo: Mapping[str, Any], width: int) -> str:
    """Returns the URL path of a thumbnail; empty if the photo has no bytes yet."""
    path = path_of_bytes(photo)
    return path and f"{path}?width={width_for(width, photo['detail']['width'])}"


async def find_photo(db: Database, node_id: ObjectId) -> NodeDocument | None:
    """Finds a photo, with all fields. Returns None if there is none, or no upload to it was ever complete."""
    node = await NODES.of(db).find_one({"_id": node_id, "type": PHOTO})
    return None if node is None or node["detail"].get("file") is None else node


def files_of(node: Mapping[str, Any]) -> list[ObjectId]:
    """Returns the files that a photo names, without thumbnails: the current, the uploading, and the replaced ones."""
    detail = node["detail"]
    named = [detail.get("file"), detail.get("upload", {}).get("file")]
    return [key for key in (*named, *(old["file"] for old in detail.get("replaced", ()))) if key is not None]


async def delete_bytes(db: Database, node_id: ObjectId, *, now: datetime) -> None:
    """Deletes the bytes of a photo that is gone. May be repeated.

    Leaves unsettled files to a job: they may belong to an upload that is just finishing, or to a retry of the upload
    that created the photo. Invalidates their settlements first, so that nobody settles them by an earlier read of the
    photo.

    Writes:   cms.assets.files, cms.assets.chunks.
    """
    files = await assets.find_files_of(db, node_id)
    unsettled = [file["_id"] for file in files if _is_upload(file)]
    if unsettled:
        await assets.invalidate_settlements(db, unsettled)
        files = await assets.find_files_of(db, node_id)
    # A settled file that the photo names now belongs to a retry of the upload, which has created the photo again.
    node = (await find_by_ids(db, [node_id], {"detail": 1})).get(node_id) if files else None
    kept = [] if node is None else files_of(node)
    gone = [file for file in files if not _is_upload(file) and _original(file) not in kept]
    await _delete(
        db,
        [file["_id"] for file in gone if _original(file) == file["_id"]],
        [file["_id"] for file in gone if _original(file) != file["_id"]],
        now,
    )


def _original(file: FileDocument) -> ObjectId:
    """Returns the _id of the file, or, for a thumbnail, of the file that it was made from."""
    found: ObjectId = file["metadata"].get("of", file["_id"])
    return found


def _is_upload(file: FileDocument) -> bool:
    return "unsettled" in file["metadata"] and "of" not in file["metadata"]


async def _delete(db: Database, whole: list[ObjectId], made: list[ObjectId], now: datetime) -> None:
    """Deletes complete files of photos, which have no writers, and thumbnails, which may have writers."""
    if made:
        await assets.remove_files(db, made, now=now)
    if whole:
        await assets.delete_files(db, whole)


async def delete_replaced(db: Database, node: Mapping[str, Any], *, before: datetime, now: datetime) -> int:
    """Deletes the files that were replaced at `before` or earlier. Returns how many. May be repeated.

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
    """Aborts an upload to the photo whose lock has expired. Raises PhotoLocked if an upload is in progress.

    Writes:   as `abort_upload`.
    """
    upload = node["detail"].get("upload")
    if upload is not None:
        if upload["until"] > now:
            raise PhotoLocked(node["detail"]["locked"])
        await abort_upload(db, node, now=now)


async def abort_upload(db: Database, node: Mapping[str, Any], *, now: datetime, is_own: bool = False) -> bool:
    """Aborts the upload that the node was read with. Returns False if that upload has made progress since.

    Removes a photo without a complete upload; the same call may create it again. Other photos keep their bytes.

    Args:     is_own: whether the caller carries out the upload. Then a renewed lock is no progress: the database may
              carry out a cancelled renewal late.
    Writes:   operations, cms.nodes, cms.assets.files, cms.assets.chunks; one guarded update or removal of the node.
    """
    upload = node["detail"]["upload"]
    mine = {"_id": node["_id"], "parent": node["parent"], "detail.upload.file": upload["file"]}
    if not is_own:
        mine["detail.upload.until"] = upload["until"]
    if node["detail"].get("file") is None:
        # A call that stopped right before its last step has noted that the operation is done.
        await idempotency.note(db, upload["op"], done=False)
        ended = (await db[NODES.name].delete_one(mine)).deleted_count
    else:
        unlocked = {"$set": {"detail.locked": None}, "$unset": {"detail.upload": ""}}
        ended = (await db[NODES.name].update_one(mine, unlocked)).matched_count
    if ended:
        await assets.remove_files(db, [upload["file"]], now=now)
    return bool(ended)
