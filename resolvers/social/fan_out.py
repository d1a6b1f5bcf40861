"""Delivers posts to news feeds.

A new post carries its pending fan-out as `fan_out`, which is stored by the insert of the post:

    after   the last member that has got it; None at the beginning
    due     when a worker may take the post. This is its place in the line, and the end of the lease of a worker
    op      the latest claim

    pending  →  claimed (due = now + lease, op)  →  pending again (after, due = now)  →  …  →  done (no `fan_out`)

1. A worker claims a post that is due by one guarded update.
2. It reads the next 1,000 followers of the author, and inserts an entry for each that the post is for. An entry that
   exists is skipped, so a batch can be repeated.
3. One update, guarded by the claim, stores the progress, and puts the post back behind the others that are due. So an
   author with many followers delays nobody. After the last batch it removes `fan_out`.

After a crash, the lease expires, and another worker repeats the batch. A deletion of the post removes `fan_out`; see
`post_jobs` for entries that are inserted after it. Several workers can deliver different posts at the same time.

A post is for the members who followed its author when it was stored, and, by its audience, are in circles of the author
when it is delivered. If the author has too many followers, see `merging`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from pymongo import ASCENDING, ReturnDocument
from pymongo.errors import BulkWriteError

from portico.resolvers.documents import Database, Document
from portico.resolvers.import_outcomes import refused_row
from portico.resolvers.writes.sweeps import sweep
from portico.resolvers.writes.timer import Timer

from . import deliveries, merging, relations
from .members import MEMBERS
from .news import NEWS
from .posts import CIRCLES, POSTS, PUBLIC
from .relations import RELATIONS

JOB = "deliver-posts"
# A batch takes less than a second.
LEASE = timedelta(seconds=10)
BATCH = 1_000
# Posts that a worker delivers concurrently.
_AT_ONCE = 4
# The most rounds of one run of the job, and the most posts of a round.
_ROUNDS, _MOST = 50, 200
_SHOWN = dict.fromkeys(("by", "to", "posted", "created", "audience", "circles", "fan_out"), 1)


async def deliver_posts(db: Database, *, now: datetime, max_fan_out: int) -> int:
    """Delivers the posts that are due, in rounds: one batch of each post, the longest due first.

    Returns:  how many batches.
    Raises:   SweepFailed, after trying every post of a round.
    """
    timer, done = Timer(now), 0

    async def deliver(key: Document) -> int:
        return await _deliver_batch(db, key, timer, max_fan_out)

    for _ in range(_ROUNDS):
        due = {"fan_out.due": {"$lte": timer.now()}}
        batches = await sweep(db, POSTS, due, deliver, fields=(), at_once=_AT_ONCE, most=_MOST)
        done += batches
        if not batches:
            break
    return done


async def _deliver_batch(db: Database, key: Document, timer: Timer, max_fan_out: int) -> int:
    now, op = timer.now(), uuid4().hex
    claim = {"fan_out.due": now + LEASE, "fan_out.op": op}
    guard = {"_id": key["_id"], "fan_out.due": {"$lte": now}}
    post = await db[POSTS.name].find_one_and_update(
        guard, {"$set": claim}, _SHOWN, return_document=ReturnDocument.AFTER
    )
    if post is None:
        return 0
    author = await _current_author(db, post)
    if await merging.must_merge(db, author, post, max_fan_out=max_fan_out):
        after = None
        is_done, end = await merging.mark_batch(db, author["_id"]), {"$set": deliveries.MERGED}
    else:
        after = await _insert_entries(db, post)
        is_done, end = after is None, {}
    mine = {"_id": post["_id"], "fan_out.op": op}
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


async def _insert_entries(db: Database, post: Document) -> str | None:
    """Inserts the entries of the next batch. Returns the last follower of the batch; None if there are no more."""
    followers = await recipients(db, post, after=post["fan_out"]["after"])
    entries = [entry_of(post, follower["to"]) for follower in followers if is_for(post, follower)]
    await insert_entries(db, entries)
    return followers[-1]["to"] if len(followers) == BATCH else None


async def recipients(db: Database, post: Document, *, after: str | None) -> list[Document]:
    """Returns the next followers of the author when the post was stored, as {to, circles}. Up to 1,000, by `to`."""
    query = {"of": post["by"]["id"], "follower": {"$lte": post["created"]}, **relations.behind(after)}
    shown = {"_id": 0, "to": 1, "circles": 1}
    sort = [("to", ASCENDING)]
    return await db[RELATIONS.name].find(query, shown, sort=sort, limit=BATCH, hint=relations.FOLLOWERS).to_list()


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
    if not entries:
        return
    try:
        await db[NEWS.name].insert_many(entries, ordered=False)
    except BulkWriteError as error:
        if error.details.get("writeConcernErrors") or any(map(refused_row, error.details["writeErrors"])):
            raise


async def oldest_pending(db: Database, now: datetime) -> float:
    """Returns the age of the oldest post that some news feeds may lack, in seconds; 0 if there is none."""
    query = {"fan_out.due": {"$exists": True}}
    found = await db[POSTS.name].find(query, {"created": 1}, sort=[("created", ASCENDING)], limit=1).to_list()
    return max(0.0, (now - found[0]["created"]).total_seconds()) if found else 0.0
