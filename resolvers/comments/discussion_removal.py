"""Taking away the comments of a discussion whose subject is gone.

Nothing is ever posted into it again, for its `_id` is given to no other; so what is found of it may go at any time, and
whoever finds something late takes it away.
"""

from __future__ import annotations

from bson import ObjectId

from portico.resolvers.documents import Database
from portico.resolvers.errors import NotFound

from .discussions import DISCUSSIONS
from .posted import COMMENTS_COLLECTION, EMBEDDED_COLLECTION, KEYS_COLLECTION, PAGES_COLLECTION

# Documents that one command takes away. A page has a hundred comments.
_BATCHES = {COMMENTS_COLLECTION: 1000, KEYS_COLLECTION: 1000, PAGES_COLLECTION: 20}


async def remove_comments(db: Database, discussion: ObjectId) -> None:
    """Removes all that is kept of a discussion beside itself. May be repeated."""
    for name, size in _BATCHES.items():
        here = {"discussion": discussion}
        while found := await db[name].find(here, {"_id": 1}, limit=size).to_list():
            await db[name].delete_many({**here, "_id": {"$in": [row["_id"] for row in found]}})
    await db[EMBEDDED_COLLECTION].delete_one({"_id": discussion})


async def require_subject(db: Database, discussion: ObjectId) -> None:
    """Raises NotFound where the subject of the discussion is gone, and removes what has come too late.

    For a write that finds the discussion changed after it has written.
    """
    gone = {"_id": discussion, "closed.is_final": True}
    if await db[DISCUSSIONS.name].find_one(gone, {"_id": 1}) is not None:
        await remove_comments(db, discussion)
        raise NotFound("Discussion", str(discussion))
