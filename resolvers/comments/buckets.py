"""Pages of about a hundred comments: which page holds which comments, and how a full page is split.

A page is **split** in three steps. Any process may repeat each of them:

1. Mark the page with the key at which to split it. From now on, no comment is posted to the page, and comments from
   that key on are not changed.
2. Copy the comments from that key on to a new page. From now on, changes go to the new page.
3. Remove the copied comments and the mark from the old page, and set its `high` to the key.

Between steps 2 and 3, a comment is on two pages. The copy on the page with the higher `low` counts. The new page can be
split before the old one is finished. Therefore, pages are ordered by `low`, not by `high`.

A writer that finds a mark finishes the split first. A job does the same. A page is split in the middle. If the new
comment comes after all others, the page is split at that comment, so that a discussion without replies fills one page
after the other.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.errors import Conflict
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.retries import attempts

from .comments import END, StoredComment
from .posted import PAGES_COLLECTION
from .storage import CONTESTED

# The index of the page that holds a comment. A read of comments names it: from a discussion of few pages, MongoDB would
# learn to read all pages of a discussion.
HOLDING = "discussion_1_comments._id_1"


class Split(TypedDict):
    """The page is full, and comments with keys from `at` on move to a new page."""

    at: str
    since: datetime


class BucketDocument(Versioned):
    """A page. Its `_id` is derived from the discussion and from `low`."""

    _id: ObjectId
    discussion: ObjectId
    # The page holds the comments whose keys are at least `low` and less than `high`. The pages of a discussion have no
    # gaps between them.
    low: str
    high: str
    # In the order of insertion.
    comments: list[StoredComment]
    # The number of comments: at most 100.
    count: int
    # Ids of comments that can never be inserted into this page.
    fenced: list[ObjectId]
    split: NotRequired[Split]
    # The CommentRef, as text, of the comment that was last posted here: see `posted`.
    newest: NotRequired[str]


BUCKETS = CollectionSpec(
    PAGES_COLLECTION,
    document=BucketDocument,
    indexes=[
        # Finds the page of a key: the last page whose `low` is not above it, and the pages after that one.
        IndexModel([("discussion", ASCENDING), ("low", ASCENDING)], unique=True),
        IndexModel([("discussion", ASCENDING), ("comments._id", ASCENDING)], name=HOLDING),
        IndexModel([("split.since", ASCENDING)], sparse=True),
    ],
    # The pages of a discussion are on one shard.
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
        "schema_version": BUCKETS.version,
    }


async def find_open_page(db: Database, discussion: ObjectId, key: str, *, now: datetime) -> Document:
    """Returns the page for a comment with this key, without its comments. The page has room and is not being split.

    Creates the first page, and begins or finishes splits, as needed.
    """
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
    """Returns the filter for the page on which the comment can be changed, if the comment matches the guard."""
    key = comment["key"]
    return {
        "discussion": comment["discussion"],
        "low": {"$lte": key},
        "high": {"$gt": key},
        "$or": [{"split": None}, {"split.at": {"$gt": key}}],
        "comments": {"$elemMatch": {"_id": comment["_id"], **guard}},
    }


async def should_retry_change(db: Database, comment: Document, guard: Document) -> bool:
    """Returns whether to retry a change that matched nothing by `page_filter`, because of a split. Finishes that split.

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
    """Marks a full page for a split: at the new key if that comes after all others, otherwise in the middle."""
    mine = {"discussion": bucket["discussion"], "_id": bucket["_id"]}
    whole = await db[BUCKETS.name].find_one(mine, {"comments.key": 1})
    keys = sorted(comment["key"] for comment in whole["comments"]) if whole else [key]
    at = key if key > keys[-1] else keys[len(keys) // 2]
    full = {**mine, "high": bucket["high"], "count": bucket["count"], "split": None}
    await db[BUCKETS.name].update_one(full, {"$set": {"split": {"at": at, "since": now}}})


async def finish_split(db: Database, bucket: Document) -> None:
    """Carries out the split that a page is marked with. May be repeated, also concurrently."""
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
        # The page was removed with the subject of the discussion. Pages are never removed for another reason.
        await db[BUCKETS.name].delete_one({"discussion": fresh["discussion"], "_id": fresh["_id"]})


async def _insert(db: Database, bucket: Document) -> None:
    try:
        await db[BUCKETS.name].insert_one(bucket)
    except DuplicateKeyError:
        return


def latest_copies(found: list[Document]) -> dict[Any, Document]:
    """Returns the comments of these pages by id: of each, the copy on the page with the highest `low`."""
    comments: dict[Any, Document] = {}
    for bucket in sorted(found, key=lambda one: str(one["low"])):
        for comment in bucket["comments"]:
            comments[comment["_id"]] = {**comment, "discussion": bucket["discussion"]}
    return comments
