"""Finishes or undoes what a crash has left of posting and removing comments, and of splitting pages."""

from __future__ import annotations

from datetime import datetime, timedelta

from .comment_buckets import BUCKETS, finish_split
from .comment_storages import STORAGES
from .discussions import DISCUSSIONS
from .documents import Database

# What is under way takes milliseconds. Nobody waits for what is left behind, so a slow call is given time.
STALE_AFTER = timedelta(seconds=30)


async def finish_comments(db: Database, *, now: datetime) -> int:
    """Settles every post and removal that was begun more than 30 seconds ago. Returns how many."""
    before = now - STALE_AFTER
    settled = 0
    async for discussion in db[DISCUSSIONS.name].find({"under_way.at": {"$lte": before}}):
        for entry in discussion["under_way"]:
            if entry["at"] <= before:
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
