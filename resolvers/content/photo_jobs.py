"""Jobs: finish or undo uploads after a crash, and delete files that photos no longer use."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database
from portico.resolvers.writes.sweeps import sweep

from . import assets, photos, thumbnails
from .assets import FileDocument
from .nodes import NODES, NodeDocument

# After this time, nobody can still be writing to a removed file.
FORGOTTEN_AFTER = timedelta(days=1)


async def finish_uploads(db: Database, *, now: datetime) -> int:
    """Aborts uploads whose lock has expired, and deletes files that no photo uses, including late chunks.

    Returns:  the number of uploads and files.
    Raises:   SweepFailed, after trying every photo and file.
    """
    read, forgotten = now - photos.REPLACED_KEPT_FOR, now - FORGOTTEN_AFTER

    async def give_up(node: NodeDocument) -> int:
        return await photos.abort_upload(db, node, now=now)

    async def delete_replaced(node: NodeDocument) -> int:
        return await photos.delete_replaced(db, node, before=read, now=now)

    async def settle(file: FileDocument) -> int:
        return await _settle(db, file, now)

    async def delete_late(file: FileDocument) -> int:
        return await assets.delete_late_chunks(db, file, now=now)

    async def delete_removed(file: FileDocument) -> int:
        await assets.delete_removed(db, file["_id"], before=forgotten)
        return 1

    return await Job.in_sequence(
        partial(sweep, db, NODES, {"detail.upload.until": {"$lte": now}}, give_up),
        partial(sweep, db, NODES, {"detail.replaced.at": {"$lte": read}}, delete_replaced),
        # A photo names a file before the file is created. An older file that no photo names is not in use.
        partial(sweep, db, assets.FILES, {"metadata.unsettled": {"$lte": now - Job.STALE_AFTER}}, settle),
        partial(sweep, db, assets.FILES, {"metadata.sweep": {"$lte": now}}, delete_late),
        partial(sweep, db, assets.FILES, {"metadata.removed": {"$lte": forgotten}}, delete_removed, fields=()),
    )


async def _settle(db: Database, file: FileDocument, now: datetime) -> bool:
    """Settles a file that its photo uses. Removes a file that no photo uses or is about to use."""
    if "of" in file["metadata"]:
        return await thumbnails.delete_stale(db, file, now=now)
    node = await NODES.of(db).find_one({"_id": file["metadata"]["node"]})
    if node is None or file["_id"] not in photos.files_of(node):
        await assets.remove_files(db, [file["_id"]], now=now)
        return True
    if node["detail"].get("file") != file["_id"]:
        return False
    passed = file["metadata"].get("passed")
    return await assets.settle_file(db, file["_id"], passed=passed, **photos.file_facts(node))
