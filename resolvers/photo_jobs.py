"""Finishes or undoes what a crash has left of uploads, and deletes what photos have no more."""

from __future__ import annotations

from datetime import datetime, timedelta

from . import assets, photos, thumbnails
from .content import NODES
from .documents import Database, Document

# A file is named by its photo before it is made; one that is older and not named is nobody's.
STALE_AFTER = timedelta(seconds=5)
# Nobody can be writing to a file any more that was taken from them so long ago.
FORGOTTEN_AFTER = timedelta(days=1)


async def finish_uploads(db: Database, *, now: datetime) -> int:
    """Gives up the uploads whose lock has run out, and deletes files that no photo has.

    Returns:  how much was done.
    """
    done = 0
    async for node in db[NODES.name].find({"detail.upload.until": {"$lte": now}}):
        done += await photos.give_up(db, node, now=now)
    async for node in db[NODES.name].find({"detail.replaced.at": {"$lte": now - photos.READ_ON}}):
        done += await photos.delete_replaced(db, node, before=now - photos.READ_ON, now=now)
    async for file in assets.find_unsettled(db, before=now - STALE_AFTER):
        done += await _settle(db, file, now)
    async for file in assets.find_removed(db, before=now - FORGOTTEN_AFTER):
        await assets.delete_removed(db, file["_id"], before=now - FORGOTTEN_AFTER)
        done += 1
    return done


async def _settle(db: Database, file: Document, now: datetime) -> bool:
    """Settles a file that its photo has; takes away one that no photo has, or is going to have."""
    if "of" in file["metadata"]:
        return await thumbnails.drop_stale(db, file, now=now)
    node = await db[NODES.name].find_one({"_id": file["metadata"]["node"]})
    if node is None or file["_id"] not in photos.files_of(node):
        await assets.remove_files(db, [file["_id"]], now=now)
        return True
    if node["detail"].get("file") != file["_id"]:
        return False
    passed = file["metadata"].get("passed")
    return await assets.settle_file(db, file["_id"], passed=passed, **photos.facts_of(node))
