"""Jobs: finish removals of comments, and remove what belongs to deleted posts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

from bson import ObjectId

from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import each, sweep

from .news import NEWS
from .post_comments import finish_removal
from .posts import COMMENT_PAGES, POSTS, VOTES

# What is written for a post after its deletion, by a process that was paused, is removed after this time.
KEPT = timedelta(days=1)
# The documents of a post that one command removes, by collection, and the field that leads to their shard.
_BATCHES: Mapping[str, tuple[int, str]] = {
    NEWS.name: (1_000, "of"),
    COMMENT_PAGES.name: (20, "post"),
    VOTES.name: (20, "post"),
}


async def finish_posts(db: Database, *, now: datetime, kept: timedelta = KEPT) -> int:
    """Removes what belongs to deleted posts, and finishes removals of comments. Returns how many of them.

    The document of a deleted post stays for `kept`. Then everything that belongs to it is removed once more, and the
    document itself.

    Raises:   SweepFailed, after trying every post.
    """
    return await Job.in_sequence(partial(_remove_posts, db, now, kept), partial(_finish_comments, db))


async def _remove_posts(db: Database, now: datetime, kept: timedelta) -> int:
    async def remove(post: Document) -> int:
        await remove_belongings(db, post["_id"])
        mine = {"_id": post["_id"], "remove_at": post["remove_at"]}
        until = post["deleted"] + kept
        if until <= now:
            await db[POSTS.name].delete_one(mine)
        else:
            await db[POSTS.name].update_one(mine, {"$set": {"remove_at": until}})
        return 1

    return await sweep(db, POSTS, {"remove_at": {"$lte": now}}, remove, fields=("deleted", "remove_at"))


async def remove_belongings(db: Database, post_id: ObjectId) -> None:
    """Removes the entries, the comment pages and the votes of a post. May be repeated."""
    for name, (size, path) in _BATCHES.items():
        here = {"post": post_id}
        while found := await db[name].find(here, {path: 1}, limit=size).to_list():
            keys = {key: {"$in": [row[key] for row in found]} for key in ("_id", path)}
            await db[name].delete_many({**here, **keys})


async def _finish_comments(db: Database) -> int:
    async def finish(post: Document) -> int:
        async def one(comment_id: ObjectId) -> int:
            await finish_removal(db, post["_id"], comment_id)
            return 1

        return await each(post["removing"], one)

    return await sweep(db, POSTS, {"removing": {"$exists": True}}, finish, fields=("removing",))
