"""The `PAGES` storage: about a hundred comments in a document. A list in thread order reads one or two documents.

The pages are in thread order (see `buckets`). All other lists (by time, direct replies, limited depth) use an index of
keys: the collection `comment_keys`, with a small document for each comment. This document is written before the
comment, and fixes the comment's key: a retry of the same post continues with that key. A removed or fenced comment
leaves its `_id` and its slug there.

Source: MongoDB Applied Design Patterns, ch. 6, "Approach: Hybrid Schema Design".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection, Versioned
from portico.resolvers.errors import Conflict
from portico.resolvers.paging import Key, Page
from portico.resolvers.writes.retries import attempts

from .buckets import BUCKETS, FULL, find_open_page, page_filter, should_retry_change
from .comments import CommentListing, CommentRef, to_public
from .discussions import PAGES
from .document_storage import LISTED, indexes_of_keys, is_slug_taken, new_fence
from .ledger import LedgerStorage, SlugPartTaken
from .page_reads import find_by_keys, find_in_buckets
from .posted import KEYS_COLLECTION
from .storage import CONTESTED, Slug


class KeyDocument(Versioned):
    """The key of a comment. Its `_id` is that of the comment; a removed comment leaves that and its slug."""

    _id: ObjectId
    discussion: ObjectId
    slug: str
    key: NotRequired[str]
    parent: NotRequired[ObjectId | None]
    depth: NotRequired[int]
    posted: NotRequired[datetime]


KEYS = CollectionSpec(KEYS_COLLECTION, document=KeyDocument, indexes=indexes_of_keys(), shard_key={"discussion": 1})
_FENCES_KEPT = 100


class PageStorage(LedgerStorage):
    """The `Storage` with pages of about a hundred comments."""

    name = PAGES

    async def find(
        self, db: Database, refs: Sequence[CommentRef], projection: Projection | None = None
    ) -> dict[CommentRef, Document]:
        ids: dict[ObjectId, list[ObjectId]] = {}
        for ref in refs:
            ids.setdefault(ref.discussion, []).append(ref.id)
        found = await find_in_buckets(db, ids, projection)
        comments = [to_public(comment, PAGES, comment["discussion"]) for comment in found.values()]
        return {comment["ref"]: comment for comment in comments}

    async def find_by_slug(
        self, db: Database, slugs: Sequence[Slug], projection: Projection | None = None
    ) -> dict[Slug, Document]:
        query = {
            "discussion": {"$in": list({discussion for discussion, _ in slugs})},
            "slug": {"$in": list({slug for _, slug in slugs})},
            "key": {"$exists": True},
        }
        refs: dict[CommentRef, Slug] = {}
        asked = set(slugs)
        async for row in db[KEYS.name].find(query, {"discussion": 1, "slug": 1}):
            if (row["discussion"], row["slug"]) in asked:
                refs[CommentRef(PAGES, row["discussion"], row["_id"])] = (row["discussion"], row["slug"])
        found = await self.find(db, list(refs), projection) if refs else {}
        return {refs[ref]: comment for ref, comment in found.items()}

    async def find_pages(
        self,
        db: Database,
        listings: Sequence[CommentListing],
        *,
        first: int,
        after: Key | None,
        projection: Projection | None,
    ) -> list[Page]:
        return await find_by_keys(db, KEYS.name, listings, first=first, after=after, projection=projection)

    async def find_stored(
        self, db: Database, discussion: ObjectId, ids: Sequence[ObjectId]
    ) -> dict[ObjectId, Document]:
        return await find_in_buckets(db, {discussion: ids}, None, is_gone_wanted=True)

    async def change(self, db: Database, comment: Document, guard: Document, update: Document) -> Document | None:
        there = {
            operator: {f"comments.$.{path}": value for path, value in changes.items()}
            for operator, changes in update.items()
        }
        wanted = {"comments": {"$elemMatch": {"_id": comment["_id"]}}}
        async for _ in attempts(steps=2):
            page = await db[BUCKETS.name].find_one_and_update(
                page_filter(comment, guard), there, projection=wanted, return_document=ReturnDocument.AFTER
            )
            if page is not None:
                # If the driver sends the write again, the server ignores the projection, and returns the whole page.
                changed = next(one for one in page["comments"] if one["_id"] == comment["_id"])
                return {**changed, "discussion": comment["discussion"]}
            if not await should_retry_change(db, comment, guard):
                return None
        raise Conflict(CONTESTED)

    async def insert(self, db: Database, comment: Document, *, now: datetime) -> Document | None:
        key = {name: comment[name] for name in ("_id", "discussion", "slug", *LISTED)}
        try:
            await db[KEYS.name].insert_one({**key, "schema_version": KEYS.version})
        except DuplicateKeyError as error:
            if is_slug_taken(error):
                raise SlugPartTaken from None
            known = await self._find_key(db, comment["discussion"], comment["_id"])
            if known is None or "key" not in known:
                return None
            comment = {**comment, **{name: known[name] for name in key}}
        return comment if await self._push(db, comment, now=now) else None

    async def _push(self, db: Database, comment: Document, *, now: datetime) -> bool:
        """Inserts the comment into the page of its key. Returns False if it is there already, or is fenced."""
        cell = {name: value for name, value in comment.items() if name != "discussion"}
        update = {
            "$push": {"comments": cell},
            "$inc": {"count": 1},
            "$set": {"newest": str(CommentRef(PAGES, comment["discussion"], comment["_id"]))},
        }
        absent = {"comments._id": {"$ne": comment["_id"]}, "fenced": {"$ne": comment["_id"]}}
        async for _ in attempts(steps=2):
            page = await find_open_page(db, comment["discussion"], comment["key"], now=now)
            here = {name: page[name] for name in ("_id", "discussion", "high")}
            free = {**here, "split": None, "count": {"$lt": FULL}, **absent}
            if (await db[BUCKETS.name].update_one(free, update)).matched_count:
                return True
            known = {"_id": page["_id"], "discussion": page["discussion"]}
            standing = {"$or": [{"comments._id": comment["_id"]}, {"fenced": comment["_id"]}]}
            if await db[BUCKETS.name].find_one({**known, **standing}, {"_id": 1}) is not None:
                return False
        raise Conflict(CONTESTED)

    async def _find_key(self, db: Database, discussion: ObjectId, comment_id: ObjectId) -> Document | None:
        return await db[KEYS.name].find_one({"discussion": discussion, "_id": comment_id})

    async def fence(self, db: Database, discussion: ObjectId, comment_id: ObjectId, *, now: datetime) -> bool:
        try:
            await db[KEYS.name].insert_one(new_fence(discussion, comment_id))
        except DuplicateKeyError:
            known = await self._find_key(db, discussion, comment_id)
            if known is None or "key" not in known:
                return await self.is_fenced(db, discussion, comment_id)
            return await self._fence_at(db, known, now=now)
        return True

    async def _fence_at(self, db: Database, key: Document, *, now: datetime) -> bool:
        """Fences a comment whose key is fixed: it can no longer be inserted into its page."""
        comment_id = key["_id"]
        update = {"$push": {"fenced": {"$each": [comment_id], "$slice": -_FENCES_KEPT}}}
        async for _ in attempts(steps=2):
            page = await find_open_page(db, key["discussion"], key["key"], now=now)
            here = {"_id": page["_id"], "discussion": page["discussion"], "high": page["high"], "split": None}
            if (await db[BUCKETS.name].update_one({**here, "comments._id": {"$ne": comment_id}}, update)).matched_count:
                break
            if comment_id in await self.find_stored(db, key["discussion"], [comment_id]):
                return False
        else:
            raise Conflict(CONTESTED)
        await db[KEYS.name].update_one(
            {"discussion": key["discussion"], "_id": comment_id},
            {"$set": {"slug": f"!{comment_id}"}, "$unset": dict.fromkeys(LISTED, "")},
        )
        return True

    async def find_fenced(self, db: Database, discussion: ObjectId, ids: Sequence[ObjectId]) -> set[ObjectId]:
        query = {"discussion": discussion, "_id": {"$in": list(ids)}, "key": {"$exists": False}}
        found = await db[KEYS.name].find(query, {"slug": 1}).to_list()
        return {row["_id"] for row in found if row["slug"].startswith("!")}

    async def mark_removed(self, db: Database, comment: Document, attempt: str, *, now: datetime) -> bool:
        mine = {"removing": attempt, "gone": None}
        update: Document = {
            "$set": {"gone": {"attempt": attempt, "at": now}, "author": None},
            "$unset": dict.fromkeys(("removing", "called_off", "edited", "applied"), ""),
        }
        if await self.change(db, comment, mine, update) is None:
            found = await self.find_stored(db, comment["discussion"], [comment["_id"]])
            if found.get(comment["_id"], {}).get("gone", {}).get("attempt") != attempt:
                return False
        here = {"discussion": comment["discussion"], "_id": comment["_id"]}
        await db[KEYS.name].update_one(here, {"$unset": dict.fromkeys(LISTED, "")})
        return True
