"""Finishes or undoes what a crash has left of posting and removing comments, and of splitting pages; and takes away
the comments of what was deleted.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

from .comment_buckets import BUCKETS, finish_split
from .comment_storages import STORAGES
from .discussion_removal import remove_comments
from .discussion_subjects import find_subjects
from .discussions import DISCUSSIONS, settle_closed
from .documents import Database, Document
from .errors import NotFound

# What is under way takes milliseconds. Nobody waits for what is left behind, so a slow call is given time.
STALE_AFTER = timedelta(seconds=30)


async def finish_removals(db: Database, *, now: datetime) -> int:
    """Takes the comments of every discussion away whose subject went more than 30 seconds ago. Returns how many.

    Where it is not known yet what has become of the subject, that is settled first.
    """
    finished = 0
    async for discussion in db[DISCUSSIONS.name].find({"closing_at": {"$lte": now - STALE_AFTER}}):
        if discussion["closed"]["is_final"]:
            await remove_comments(db, discussion["_id"])
            await db[DISCUSSIONS.name].update_one({"_id": discussion["_id"]}, {"$unset": {"closing_at": ""}})
        else:
            await _settle_closed(db, discussion, now)
        finished += 1
    return finished


async def _settle_closed(db: Database, discussion: Document, now: datetime) -> None:
    kind, key = discussion["subject"]["kind"], discussion["subject"]["key"]
    of, by = discussion["closed"]["of"], discussion["closed"]["by"]
    found = (await find_subjects(db, [(kind, key)])).get((kind, key))
    is_gone = found is None or found["_id"] != of
    # What is still marked may go yet: a job takes the mark off first.
    if found is None or is_gone or found.get("deleting", {}).get("id") != by:
        await settle_closed(db, kind=kind, key=key, of=of, by=by, is_gone=is_gone, now=now)


async def finish_comments(db: Database, *, now: datetime) -> int:
    """Settles every post and removal that was begun more than 30 seconds ago. Returns how many."""
    before = now - STALE_AFTER
    settled = 0
    async for discussion in db[DISCUSSIONS.name].find({"under_way.at": {"$lte": before}}):
        for entry in discussion["under_way"]:
            if entry["at"] <= before:
                # Its subject may go meanwhile, and all with it.
                with contextlib.suppress(NotFound):
                    await STORAGES[discussion["storage"]].settle(db, discussion, entry, now=now)
                settled += 1
    return settled


async def finish_splits(db: Database, *, now: datetime) -> int:
    """Carries out every split that was begun more than 30 seconds ago. Returns how many."""
    split = 0
    async for bucket in db[BUCKETS.name].find({"split.since": {"$lte": now - STALE_AFTER}}, {"discussion": 1}):
        await finish_split(db, bucket)
        split += 1
    return split
