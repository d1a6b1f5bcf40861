"""Updates the copies of a member's name in posts and comments after a rename.

The rename leaves `renamed` on the member, {op, at}. A job updates all copies in two passes:

1. The first pass runs at once, and records itself as `renamed.passed`.
2. The second pass runs 30 seconds later, for texts that were written meanwhile by calls that had read the old name.
   Then the mark is removed, unless there is another rename.

Posts with followers to reach, whose author was renamed while they were stored, are also corrected when they are
delivered: see `fan_out`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from datetime import datetime, timedelta

from portico.resolvers.documents import Database, Document, in_batches
from portico.resolvers.writes.sweeps import sweep

from .members import MEMBERS
from .posts import COMMENT_PAGES, POSTS

# Longer than any call that can have read the old name.
SECOND_PASS = timedelta(seconds=30)
_BATCH = 500


async def copy_names(db: Database, *, now: datetime) -> int:
    """Updates the copies of changed names. Returns for how many members."""
    due = {"$or": [{"renamed.at": {"$lte": now - SECOND_PASS}}, {"renamed.at": {"$lte": now}, "renamed.passed": None}]}

    async def copy(member: Document) -> int:
        await copy_name(db, member["_id"], member["name"])
        mine = {"_id": member["_id"], "renamed.op": member["renamed"]["op"]}
        is_last = member["renamed"]["at"] <= now - SECOND_PASS
        update = {"$unset": {"renamed": ""}} if is_last else {"$set": {"renamed.passed": True}}
        await db[MEMBERS.name].update_one(mine, update)
        return 1

    return await sweep(db, MEMBERS, due, copy, fields=("name", "renamed"))


async def copy_name(db: Database, member: str, name: str) -> None:
    """Writes the name of the member into all posts and comments that have another. May be repeated.

    Comments in posts come before those in pages, because they can move to pages meanwhile, but not back.
    """
    posts, pages = db[POSTS.name], db[COMMENT_PAGES.name]
    for side in ("by", "to"):
        other = {f"{side}.id": member, f"{side}.name": {"$ne": name}, "deleted": None}
        async for ids in _keys(posts.find(other, {"_id": 1})):
            await posts.update_many({"_id": {"$in": ids}}, {"$set": {f"{side}.name": name}})
    outdated = {"comments": {"$elemMatch": {"by.id": member, "by.name": {"$ne": name}}}}
    query = {"comments.by.id": member, **outdated}
    renamed = {"comments.$[one].by.name": name}
    mine = [{"one.by.id": member}]
    async for ids in _keys(posts.find(query, {"_id": 1})):
        # The version says that stored comments have changed: see `post_comments`.
        update: Document = {"$set": renamed, "$inc": {"version": 1}}
        await posts.update_many({"_id": {"$in": ids}, **outdated}, update, array_filters=mine)
    async for batch in in_batches(pages.find(query, {"post": 1}), _BATCH):
        keys = {"_id": {"$in": [page["_id"] for page in batch]}, "post": {"$in": [page["post"] for page in batch]}}
        await pages.update_many(keys, {"$set": renamed}, array_filters=mine)


async def _keys(found: AsyncIterable[Document]) -> AsyncIterable[list[object]]:
    async for batch in in_batches(found, _BATCH):
        yield [document["_id"] for document in batch]
