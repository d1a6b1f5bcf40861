"""Removes the comments of a discussion whose subject is gone.

The `_id` of such a discussion is never reused. Therefore, its comments can be removed at any time, and a writer whose
comment arrives late removes it again.

A closed discussion accepts no comments. A post that was in flight finds that its entry is missing, and deletes its
comment.
"""

from __future__ import annotations

from datetime import datetime

from bson import ObjectId

from portico.resolvers.documents import Database
from portico.resolvers.errors import NotFound

from .discussions import DISCUSSIONS
from .posted import COMMENTS_COLLECTION, EMBEDDED_COLLECTION, KEYS_COLLECTION, PAGES_COLLECTION

# Documents that one command deletes. A page has up to a hundred comments.
_BATCHES = {COMMENTS_COLLECTION: 1000, KEYS_COLLECTION: 1000, PAGES_COLLECTION: 20}


async def remove_comments(db: Database, discussion: ObjectId) -> None:
    """Removes everything that belongs to a discussion, but not its own document. May be repeated."""
    for name, size in _BATCHES.items():
        here = {"discussion": discussion}
        while found := await db[name].find(here, {"_id": 1}, limit=size).to_list():
            await db[name].delete_many({**here, "_id": {"$in": [row["_id"] for row in found]}})
    await db[EMBEDDED_COLLECTION].delete_one({"_id": discussion})


async def remove_late(db: Database, discussion: ObjectId, *, now: datetime) -> None:
    """Removes the comments of a discussion whose subject is gone. If that is interrupted, a job goes on with it."""
    gone = {"_id": discussion, "closed.is_final": True}
    if (await db[DISCUSSIONS.name].update_one(gone, {"$set": {"closing_at": now}})).matched_count:
        await remove_comments(db, discussion)


async def require_subject(db: Database, discussion: ObjectId) -> None:
    """Raises NotFound if the subject of the discussion is gone, after removing comments that arrived too late.

    Call this if a write finds, after writing, that the discussion has changed.
    """
    gone = {"_id": discussion, "closed.is_final": True}
    if await db[DISCUSSIONS.name].find_one(gone, {"_id": 1}) is not None:
        await remove_comments(db, discussion)
        raise NotFound("Discussion", str(discussion))
