"""Finishes or undoes what a crash has left of writes to the site."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

from bson import ObjectId

from . import content_creation, content_deletion, intents, revisions
from .content import NODES
from .documents import Database, Document
from .errors import NotFound, SectionNotEmpty

# A mark is removed by the call that left it within milliseconds. One that is older was left by a crash, or by a call
# that sleeps: both may go on, for every step is guarded by its own mark.
STALE_AFTER = timedelta(seconds=5)


async def finish_changes(db: Database, *, now: datetime) -> int:
    """Settles every mark and intent that is older than five seconds. Returns how many."""
    before = now - STALE_AFTER
    settled = 0
    # What may go on or may not is settled before what waits for that.
    for mark in ("deleting", "pending", "unrevised"):
        async for node in db[NODES.name].find({f"{mark}.at": {"$lte": before}}):
            with contextlib.suppress(NotFound, SectionNotEmpty):
                await _settle(db, node, mark)
                settled += 1
    async for intent in intents.left_behind(db, kind=content_deletion.DELETION, before=before):
        keys = [ObjectId(key) for key in intent["keys"]]
        await content_deletion.finish_removal(db, keys, intent["_id"], now=now)
        settled += 1
    return settled


async def _settle(db: Database, node: Document, mark: str) -> None:
    if mark == "pending":
        await content_creation.confirm_created(db, node)
    elif mark == "deleting":
        await content_deletion.finish_section(db, node)
    else:
        await revisions.settle(db, node)
