"""Pages of about a hundred comments: which comments are on which page, and how a full one is split.

A page of `comment_pages`:

    _id         ObjectId, derived from the discussion and from `low`
    discussion
    low, high   it holds the comments whose keys are from `low` up to, and without, `high`. The pages of a discussion
                leave nothing out between them
    comments    in the order in which they came; without `discussion`
    count       how many these are: at most 100
    fenced      ids of comments that can never come here
    split       {at, since}: it is full, and what has a key from `at` on goes to a page of its own
    newest      the name of the comment that was posted here last: see `comment_changes`

A page is **split** in three steps, each of which may be repeated by anybody:

1. it is marked with the key where it is to be split. From now on no comment is posted here, and none behind that key is
   changed
2. what is behind the key is copied to a new page. From now on changes go there
3. what was copied is taken off the old page, which ends at the key now, and the mark with it

Between the last two steps, a comment stands on two pages, and the one on the page with the higher `low` counts. The new
page can be split before the old one is finished, so pages are in order by `low`, and not by `high`.

Whoever wants to write and meets a mark finishes the split first; so does a job. A page is split in the middle; where a
comment comes behind all others it is split there, so that a discussion without replies fills its pages one after the
other.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import SCHEMA_VERSION, CollectionSpec, Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.writes.retries import attempts

from .comments import END
from .posted import PAGES_COLLECTION
from .storage import CONTESTED

BUCKETS = CollectionSpec(
    PAGES_COLLECTION,
    indexes=[
        # Where a comment is read or written: the last page that begins before it, and the pages behind that one.
        IndexModel([("discussion", ASCENDING), ("low", ASCENDING)], unique=True),
        IndexModel([("discussion", ASCENDING), ("comments._id", ASCENDING)]),
        IndexModel([("split.since", ASCENDING)], sparse=True),
    ],
    shard_key={"discussion": 1},
)
FULL = 100


def _bucket_id(discussion: ObjectId, low: str) -> ObjectId:
    return ObjectId(hashlib.blake2b(discussion.binary + low.encode(), digest_size=12).digest())


def _new_bucket(discussion: ObjectId, low: str, high: str, comments: list[Document]) -> Document:
    return {
        "_id": _bucket_id(discussion, low),
        "discussion": discussion,
        "low": low,
        "high": high,
        "comments": comments,
        "count": len(comments),
        "fenced": [],
        SCHEMA_VERSION: BUCKETS.version,
    }


async def find_open_page(db: Database, discussion: ObjectId, key: str, *, now: datetime) -> Document:
    """The page where a comment with this key is or is to be, without its comments, and not about to be split."""
    fields = {"discussion": 1, "low": 1, "high": 1, "count": 1, "split": 1}
    async for _ in attempts(steps=5):
        query = {"discussion": discussion, "low": {"$lte": key}}
        found = await db[BUCKETS.name].find_one(query, fields, sort=[("low", -1)])
        if found is None:
            await _insert(db, _new_bucket(discussion, "", END, []))
        elif "split" in found:
            await finish_split(db, found)
        elif found["count"] >= FULL:
            await _begin_split(db, found, key, now)
        else:
            return found
    raise Conflict(CONTESTED)


def page_filter(comment: Document, guard: Document) -> Document:
    """The filter of the page that holds the comment, where it is as the guard wants it, and may be changed."""
    key = comment["key"]
    return {
        "discussion": comment["discussion"],
        "low": {"$lte": key},
        "high": {"$gt": key},
        "$or": [{"split": None}, {"split.at": {"$gt": key}}],
        "comments": {"$elemMatch": {"_id": comment["_id"], **guard}},
    }


async def should_retry_change(db: Database, comment: Document, guard: Document) -> bool:
    """Whether to retry a change that matched nothing by `page_filter`, because of a split. Finishes that split.

    One command reads both the page and the comment: between two commands, a split could begin or end.
    """
    query = {"discussion": comment["discussion"], "low": {"$lte": comment["key"]}}
    fields = {"discussion": 1, "high": 1, "split": 1, "comments": {"$elemMatch": {"_id": comment["_id"], **guard}}}
    found = await db[BUCKETS.name].find_one(query, fields, sort=[("low", -1)])
    if found is None or found["high"] <= comment["key"]:
        return False
    if "split" in found and found["split"]["at"] <= comment["key"]:
        await finish_split(db, found)
        return True
    return "comments" in found


async def _begin_split(db: Database, bucket: Document, key: str, now: datetime) -> None:
    """Marks a full page. What comes behind all others begins a page; else it is split in the middle."""
    mine = {"discussion": bucket["discussion"], "_id": bucket["_id"]}
    whole = await db[BUCKETS.name].find_one(mine, {"comments.key": 1})
    keys = sorted(comment["key"] for comment in whole["comments"]) if whole else [key]
    at = key if key > keys[-1] else keys[len(keys) // 2]
    full = {**mine, "high": bucket["high"], "count": bucket["count"], "split": None}
    await db[BUCKETS.name].update_one(full, {"$set": {"split": {"at": at, "since": now}}})


async def finish_split(db: Database, bucket: Document) -> None:
    """Carries out the split that a page is marked with. May be repeated, by several at once."""
    mine = {"discussion": bucket["discussion"], "_id": bucket["_id"]}
    whole = await db[BUCKETS.name].find_one({**mine, "split": {"$ne": None}})
    if whole is None:
        return
    at = whole["split"]["at"]
    moved = [comment for comment in whole["comments"] if comment["key"] >= at]
    fresh = _new_bucket(bucket["discussion"], at, whole["high"], moved)
    await _insert(db, {**fresh, "fenced": whole["fenced"]})
    kept = {
        "$pull": {"comments": {"key": {"$gte": at}}},
        "$set": {"high": at, "count": len(whole["comments"]) - len(moved)},
        "$unset": {"split": ""},
    }
    done = await db[BUCKETS.name].update_one({**mine, "split.at": at}, kept)
    if not done.matched_count and await db[BUCKETS.name].find_one(mine, {"_id": 1}) is None:
        # It went with the subject of the discussion; no other page ever goes.
        await db[BUCKETS.name].delete_one({"discussion": fresh["discussion"], "_id": fresh["_id"]})


async def _insert(db: Database, bucket: Document) -> None:
    try:
        await db[BUCKETS.name].insert_one(bucket)
    except DuplicateKeyError:
        return


def latest_copies(found: list[Document]) -> dict[Any, Document]:
    """The comments of these pages, by their ids; each as it stands on the page with the highest `low`."""
    comments: dict[Any, Document] = {}
    for bucket in sorted(found, key=lambda one: str(one["low"])):
        for comment in bucket["comments"]:
            comments[comment["_id"]] = {**comment, "discussion": bucket["discussion"]}
    return comments
