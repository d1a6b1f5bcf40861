"""Delivers posts to news feeds.

A new post carries its pending fan-out as `fan_out`, which is stored by the insert of the post. If nobody follows the
author, there is none (`post_edits.require_poster`).

    after   the last member that has got it; None at the beginning
    due     when a worker may take the post. This is its place in the line, and the end of the lease of a worker
    op      the latest claim

    pending  →  claimed (due = now + lease, op)  →  pending again (after, due = now)  →  …  →  done (no `fan_out`)

1. A worker claims a post that is due by one guarded update, round-robin over the authors: see `fan_out_order`. A
   process that runs the job stores a post as claimed, if it can deliver it itself: see `fresh_posts`.
2. It reads the next 1,000 followers of the author, and inserts an entry for each that the post is for. An entry that
   exists is skipped, so a batch can be repeated.
3. One update, guarded by the claim, stores the progress, and puts the post back behind the author's others that are
   due. After the last batch it removes `fan_out`.

After a crash, the lease expires, and another worker repeats the batch. A deletion of the post removes `fan_out`; see
`post_jobs` for entries that are inserted after it. Several workers can deliver different posts at the same time.

A post is for the members who followed its author when it was stored, even if they have stopped since. By its audience,
they are in circles of the author when it is delivered. If the author has too many followers, see `merged_authors`. A
post that is already old when it is delivered, e.g. of an import, is in the news feeds, and no event for subscribers:
see `deliveries`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from pymongo import ASCENDING, ReturnDocument
from pymongo.errors import BulkWriteError

from portico.resolvers.documents import Database, Document, in_batches
from portico.resolvers.hints import with_hint
from portico.resolvers.import_outcomes import refused_row
from portico.resolvers.writes.timer import Timer

from . import deliveries, merged_authors, relations
from .deliveries import OLD
from .fan_out_order import LEASE, DueBatch, DueBatches
from .fresh_posts import FreshPosts
from .members import MEMBERS
from .news import NEWS
from .posts import CIRCLES, POSTS, PUBLIC
from .relations import RELATIONS

JOB = "deliver-posts"
BATCH = 1_000
# To encode a command with more entries would delay other posts, and everything else in the process.
_ENTRIES_A_COMMAND = 200
_SHOWN = dict.fromkeys(("by", "to", "posted", "created", "audience", "circles", "fan_out"), 1)


@dataclass(frozen=True)
class Limits:
    """Up to how many followers a post is copied, and how old it may be to be news."""

    max_fan_out: int
    news_age: timedelta


async def deliver_posts(
    db: Database,
    limits: Limits,
    *,
    now: datetime,
    woken: asyncio.Event | None = None,
    fresh: FreshPosts | None = None,
) -> int:
    """Delivers the posts that are due, batch by batch: see `fan_out_order`.

    Args:     woken: set when there is another post.  fresh: the posts that this process has stored as claimed.
    Returns:  how many batches.
    Raises:   SweepFailed, after trying every post.
    """
    timer = Timer(now)
    batches = DueBatches(db, timer, woken or asyncio.Event(), fresh or FreshPosts())
    return await batches.run(lambda batch: _deliver_batch(db, batch, timer, limits))


async def _claim(db: Database, batch: DueBatch, now: datetime) -> Document | None:
    """Returns the post, claimed for this batch; None if it is not due any more."""
    claimed = batch.claimed
    if claimed is not None and claimed["fan_out"]["due"] > now + LEASE / 2:
        return claimed
    claim = {"fan_out.due": now + LEASE, "fan_out.op": uuid4().hex}
    guard = {"_id": batch.post, "fan_out.due": {"$lte": now}}
    return await db[POSTS.name].find_one_and_update(
        guard, {"$set": claim}, _SHOWN, return_document=ReturnDocument.AFTER
    )


async def _deliver_batch(db: Database, batch: DueBatch, timer: Timer, limits: Limits) -> int:
    now = timer.now()
    post = await _claim(db, batch, now)
    if post is None:
        return 0
    author = await _current_author(db, post)
    is_old = now - post["posted"] > limits.news_age
    followers = [] if author.get("is_merged") else await recipients(db, post, after=post["fan_out"]["after"])
    # If the batch has all followers, they need not be counted.
    has_all = not author.get("is_merged") and len(followers) <= min(BATCH - 1, limits.max_fan_out)
    if not has_all and await merged_authors.must_merge(db, author, post, max_fan_out=limits.max_fan_out):
        after = None
        is_done = await merged_authors.mark_batch(db, author["_id"])
        end = {"$set": {**deliveries.MERGED, **(OLD if is_old else {})}}
    else:
        after = await _insert_entries(db, post, followers, is_old=is_old)
        is_done, end = after is None, {}
    mine = {"_id": post["_id"], "fan_out.op": post["fan_out"]["op"]}
    progress = {"fan_out.after": after, "fan_out.due": timer.now()}
    update = {"$unset": {"fan_out": ""}, **end} if is_done else {"$set": progress, "$unset": {"fan_out.op": ""}}
    await db[POSTS.name].update_one(mine, update)
    return 1


async def _current_author(db: Database, post: Document) -> Document:
    """Returns the author as a member, and corrects names that were outdated when the post was stored.

    A member can be renamed while a post is being stored. The job for names may miss this post, so this looks after it.
    """
    named = {post["by"]["id"]: "by", post["to"]["id"]: "to"}
    found = (
        await db[MEMBERS.name].find({"_id": {"$in": list(named)}}, {"name": 1, "is_merged": 1, "merging": 1}).to_list()
    )
    members = {member["_id"]: member for member in found}
    for side in ("by", "to"):
        member = members.get(post[side]["id"])
        if member is not None and member["name"] != post[side]["name"]:
            guard = {"_id": post["_id"], f"{side}.name": post[side]["name"]}
            await db[POSTS.name].update_one(guard, {"$set": {f"{side}.name": member["name"]}})
    return members.get(post["by"]["id"], {"_id": post["by"]["id"]})


async def _insert_entries(db: Database, post: Document, followers: Sequence[Document], *, is_old: bool) -> str | None:
    """Inserts the entries of a batch. Returns the last follower of the batch; None if there are no more.

    After the last batch, those get the post who have stopped following its author since. If they follow the author
    again, it is in their news feeds. They are read last: a follower who stops meanwhile is in one of both reads.
    """
    age = OLD if is_old else {}

    async def insert(followers: Sequence[Document]) -> None:
        entries = [{**entry_of(post, follower["to"]), **age} for follower in followers if is_for(post, follower)]
        await insert_entries(db, entries)

    await insert(followers)
    if len(followers) == BATCH:
        after: str = followers[-1]["to"]
        return after
    async for batch in in_batches(_former_followers(db, post), BATCH):
        await insert(batch)
    return None


def _former_followers(db: Database, post: Document) -> AsyncIterable[Document]:
    """Yields those who followed the author when the post was stored, and stopped since then, as {to, circles}."""
    at = post["created"]
    then = {"$elemMatch": {"until": {"$gte": at}, "since": {"$lte": at}}}
    query = {"of": post["by"]["id"], "follower_before": then}
    return db[RELATIONS.name].find(query, {"_id": 0, "to": 1, "circles": 1}, hint=relations.FOLLOWERS_BEFORE)


async def recipients(db: Database, post: Document, *, after: str | None) -> list[Document]:
    """Returns the next followers of the author when the post was stored, as {to, circles}. Up to 1,000, by `to`."""
    query = {"of": post["by"]["id"], "follower": {"$lte": post["created"]}, **relations.behind(after)}
    shown = {"_id": 0, "to": 1, "circles": 1}
    sort = [("to", ASCENDING)]

    async def read(**options: Any) -> list[Document]:
        return await db[RELATIONS.name].find(query, shown, sort=sort, limit=BATCH, **options).to_list()

    return await with_hint(relations.FOLLOWERS, read)


def is_for(post: Document, follower: Document) -> bool:
    """Returns whether the post is for this follower, by its audience. `follower` has {circles}."""
    if post["audience"] == PUBLIC:
        return True
    circles: Sequence[str] = follower.get("circles", ())
    return bool(circles) if post["audience"] == CIRCLES else not set(post["circles"]).isdisjoint(circles)


def entry_of(post: Document, member: str) -> Document:
    """Returns the entry of the post in the news feed of this member."""
    return {
        "_id": {"post": post["_id"], "of": member},
        "of": member,
        "posted": post["posted"],
        "post": post["_id"],
        "by": post["by"]["id"],
    }


async def insert_entries(db: Database, entries: Sequence[Document]) -> None:
    """Inserts entries, except those that exist. Raises BulkWriteError."""
    for start in range(0, len(entries), _ENTRIES_A_COMMAND):
        try:
            await db[NEWS.name].insert_many(entries[start : start + _ENTRIES_A_COMMAND], ordered=False)
        except BulkWriteError as error:
            if error.details.get("writeConcernErrors") or any(map(refused_row, error.details["writeErrors"])):
                raise


async def oldest_pending(db: Database, now: datetime) -> float:
    """Returns the age of the oldest post that some news feeds may lack, in seconds; 0 if there is none."""
    query = {"fan_out.due": {"$exists": True}}
    found = await db[POSTS.name].find(query, {"created": 1}, sort=[("created", ASCENDING)], limit=1).to_list()
    return max(0.0, (now - found[0]["created"]).total_seconds()) if found else 0.0
