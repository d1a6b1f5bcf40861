"""Finishes or undoes what a crash has left of posting and removing comments, and of splitting pages; and takes away
the comments of what was deleted.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

from portico.resolvers import attachments
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound
from portico.resolvers.writes.sweeps import each, sweep

from .buckets import BUCKETS, finish_split
from .discussion_removal import remove_comments
from .discussions import DISCUSSIONS, settle_closed
from .storages import STORAGES

# What is under way takes milliseconds. Nobody waits for what is left behind, so a slow call is given time.
STALE_AFTER = timedelta(seconds=30)


async def finish_removals(db: Database, *, now: datetime) -> int:
    """Takes the comments of every discussion away whose subject went more than 30 seconds ago. Returns how many.

    Where it is not known yet what has become of the subject, that is settled first.
    """

    async def finish(discussion: Document) -> int:
        if discussion["closed"]["is_final"]:
            await remove_comments(db, discussion["_id"])
            await db[DISCUSSIONS.name].update_one({"_id": discussion["_id"]}, {"$unset": {"closing_at": ""}})
        else:
            await _settle_closed(db, discussion, now)
        return 1

    return await sweep(db, DISCUSSIONS, {"closing_at": {"$lte": now - STALE_AFTER}}, finish)


async def _settle_closed(db: Database, discussion: Document, now: datetime) -> None:
    kind, key = discussion["subject"]["kind"], discussion["subject"]["key"]
    of, by = discussion["closed"]["of"], discussion["closed"]["by"]
    found = (await attachments.find(db, [(kind, key)])).get((kind, key))
    is_gone = found is None or found["_id"] != of
    # What is still marked may go yet: a job takes the mark off first.
    if found is None or is_gone or found.get("deleting", {}).get("id") != by:
        await settle_closed(db, kind=kind, key=key, of=of, by=by, is_gone=is_gone, now=now)


async def finish_comments(db: Database, *, now: datetime) -> int:
    """Settles every post and removal that was begun more than 30 seconds ago. Returns how many."""
    before = now - STALE_AFTER

    async def settle(discussion: Document) -> int:
        storage = STORAGES[discussion["storage"]]

        async def settle_entry(entry: Document) -> int:
            if entry["at"] > before:
                return 0
            # Its subject may go meanwhile, and all with it.
            with contextlib.suppress(NotFound):
                await storage.settle(db, discussion, entry, now=now)
            return 1

        return await each(discussion["under_way"], settle_entry)

    return await sweep(db, DISCUSSIONS, {"under_way.at": {"$lte": before}}, settle)


async def finish_splits(db: Database, *, now: datetime) -> int:
    """Carries out every split that was begun more than 30 seconds ago. Returns how many."""

    async def finish(bucket: Document) -> int:
        await finish_split(db, bucket)
        return 1

    return await sweep(db, BUCKETS, {"split.since": {"$lte": now - STALE_AFTER}}, finish, fields=())
