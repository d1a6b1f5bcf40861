"""Authors with too many followers for fan-out: their posts have no entries, and news feeds read them with each page.

An author becomes merged when a post is about to be delivered to more than `PORTICO_MAX_FAN_OUT` followers:

1. One update of the member sets `is_merged`, and `merging`, the progress of the next step.
2. The relations of all followers are marked `is_merged`, in batches. Each batch belongs to a batch of a post of the
   author, so no post counts as delivered before all followers are marked.
3. The last batch removes `merging`.

A member who begins to follow the author meanwhile writes the relation first, and then looks at `is_merged` of the
author. So the batch finds the new follower, or the follower finds the author merged.

An author stays merged, because news feeds lack the entries of the posts since then.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.hints import with_hint

from . import relations
from .members import MEMBERS
from .relations import RELATIONS

_BATCH = 1_000


async def must_merge(db: Database, author: Document, post: Document, *, max_fan_out: int) -> bool:
    """Returns whether the followers of an author must be marked before this post counts as delivered.

    Args:     author: the member, with `is_merged`.
    Writes:   social.members, if the author has too many followers; one guarded update.
    """
    if author.get("is_merged"):
        return True
    if post["fan_out"]["after"] is not None:
        return False
    followers = {"of": author["_id"], "follower": {"$exists": True}}
    most = max_fan_out + 1
    count = partial(db[RELATIONS.name].count_documents, followers, limit=most)
    if await with_hint(relations.FOLLOWERS, count) < most:
        return False
    guard = {"_id": author["_id"], "is_merged": {"$ne": True}}
    await db[MEMBERS.name].update_one(guard, {"$set": {"is_merged": True, "merging": {"after": None}}})
    return True


async def mark_batch(db: Database, author: str) -> bool:
    """Marks the next followers of a merged author. Returns whether all followers are marked.

    Writes:   social.relations, then the progress of the member, guarded. May be repeated and run concurrently.
    """
    member = await db[MEMBERS.name].find_one({"_id": author}, {"merging": 1})
    if member is None or "merging" not in member:
        return True
    after = member["merging"]["after"]
    query = {"of": author, "follower": {"$exists": True}, **relations.behind(after)}
    sort = [("to", ASCENDING)]

    async def read(**options: Any) -> list[Document]:
        return await db[RELATIONS.name].find(query, {"to": 1}, sort=sort, limit=_BATCH, **options).to_list()

    found = await with_hint(relations.FOLLOWERS, read)
    followers = [relation["to"] for relation in found]
    still = {"of": {"$in": followers}, "to": author, "since": {"$exists": True}}
    await db[RELATIONS.name].update_many(still, {"$set": {"is_merged": True}})
    is_last = len(followers) < _BATCH
    update = {"$unset": {"merging": ""}} if is_last else {"$set": {"merging.after": followers[-1]}}
    stored = await db[MEMBERS.name].update_one({"_id": author, "merging.after": after}, update)
    return is_last and bool(stored.matched_count)
