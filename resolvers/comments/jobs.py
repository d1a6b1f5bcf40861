"""Jobs: finish or undo posts, removals and splits after a crash, and remove the comments of deleted subjects."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

from portico.resolvers.attachments import Hosts
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound
from portico.resolvers.writes.sweeps import each, sweep

from .buckets import BUCKETS, finish_split
from .discussion_removal import remove_comments
from .discussions import DISCUSSIONS, settle_closed
from .storages import STORAGES

# Writes take milliseconds. Nobody waits for the remains of a crash, so slow calls get much more time.
_STALE_AFTER = timedelta(seconds=30)


async def finish_removals(db: Database, hosts: Hosts, *, now: datetime) -> int:
    """Removes the comments of discussions whose subject was deleted more than 30 seconds ago. Returns how many.

    If it is not known whether the subject was deleted, finds that out first.
    """

    async def finish(discussion: Document) -> int:
        if discussion["closed"]["is_final"]:
            await remove_comments(db, discussion["_id"])
            await db[DISCUSSIONS.name].update_one({"_id": discussion["_id"]}, {"$unset": {"closing_at": ""}})
        else:
            await _settle_closed(db, hosts, discussion, now)
        return 1

    return await sweep(db, DISCUSSIONS, {"closing_at": {"$lte": now - _STALE_AFTER}}, finish)


async def _settle_closed(db: Database, hosts: Hosts, discussion: Document, now: datetime) -> None:
    kind, key = discussion["subject"]["kind"], discussion["subject"]["key"]
    of, by = discussion["closed"]["of"], discussion["closed"]["by"]
    found = await hosts.find_one(db, kind, key)
    is_gone = found is None or found["_id"] != of
    # While the subject is marked by this deletion, it may still go. Another job clears the mark first.
    if found is None or is_gone or found.get("deleting", {}).get("id") != by:
        await settle_closed(db, kind=kind, key=key, of=of, by=by, is_gone=is_gone, now=now)


async def finish_comments(db: Database, *, now: datetime) -> int:
    """Finishes or undoes every post and removal that began more than 30 seconds ago. Returns how many."""
    before = now - _STALE_AFTER

    async def settle(discussion: Document) -> int:
        storage = STORAGES[discussion["storage"]]

        async def settle_entry(entry: Document) -> int:
            if entry["at"] > before:
                return 0
            # The subject may be deleted in the meantime, with its comments.
            with contextlib.suppress(NotFound):
                await storage.settle(db, discussion, entry, now=now)
            return 1

        return await each(discussion["under_way"], settle_entry)

    return await sweep(db, DISCUSSIONS, {"under_way.at": {"$lte": before}}, settle)


async def finish_splits(db: Database, *, now: datetime) -> int:
    """Finishes every split that began more than 30 seconds ago. Returns how many."""

    async def finish(bucket: Document) -> int:
        await finish_split(db, bucket)
        return 1

    return await sweep(db, BUCKETS, {"split.since": {"$lte": now - _STALE_AFTER}}, finish, fields=())
