"""The `DOCUMENTS` storage: one document for each comment. The cost of a page depends only on the page's size.

A removed comment leaves its `_id` and its slug behind, so that neither is reused.

Source: MongoDB Applied Design Patterns, ch. 6, "Approach: One Document per Comment".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId
from pymongo import ASCENDING, IndexModel, ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection, Versioned
from portico.resolvers.paging import Key, Page, find_pages

from .comments import CommentListing, CommentRef, StoredComment, stored_projection, to_public
from .discussions import DOCUMENTS
from .ledger import LedgerStorage, SlugPartTaken
from .posted import COMMENTS_COLLECTION
from .storage import Slug


def indexes_of_keys() -> list[IndexModel]:
    """Returns the indexes for all orders and filters of comments: each list is one scan along an index."""
    here = ("discussion", ASCENDING)
    end = [("key", ASCENDING), ("_id", ASCENDING)]
    return [
        IndexModel([here, ("slug", ASCENDING)], unique=True),
        IndexModel([here, *end]),
        IndexModel([here, ("parent", ASCENDING), *end]),
        IndexModel([here, ("depth", ASCENDING), *end]),
        IndexModel(
            [here, ("depth", ASCENDING), ("posted", ASCENDING), ("slug", ASCENDING), ("_id", ASCENDING)],
        ),
    ]


class CommentDocument(StoredComment, Versioned):
    """A comment."""

    discussion: ObjectId


COMMENTS = CollectionSpec(
    COMMENTS_COLLECTION,
    document=CommentDocument,
    indexes=indexes_of_keys(),
    # A discussion is on one shard: reading a page asks one shard, and slugs are unique within the discussion.
    shard_key={"discussion": 1},
)
# The remains of a removed comment have none of these fields. Therefore, no list contains them.
LISTED = ("key", "parent", "depth", "posted")


class DocumentStorage(LedgerStorage):
    """The `Storage` with one document for each comment."""

    name = DOCUMENTS

    async def find(
        self, db: Database, refs: Sequence[CommentRef], projection: Projection | None = None
    ) -> dict[CommentRef, Document]:
        query = {**_named(refs), "key": {"$exists": True}}
        cursor = db[COMMENTS.name].find(query, stored_projection(projection), batch_size=len(refs) + 1)
        found = [to_public(comment, DOCUMENTS, comment["discussion"]) for comment in await cursor.to_list()]
        return {comment["ref"]: comment for comment in found}

    async def find_by_slug(
        self, db: Database, slugs: Sequence[Slug], projection: Projection | None = None
    ) -> dict[Slug, Document]:
        wanted, asked = stored_projection(projection), set(slugs)
        query = {
            "discussion": {"$in": list({discussion for discussion, _ in slugs})},
            "slug": {"$in": list({slug for _, slug in slugs})},
            "key": {"$exists": True},
        }
        cursor = db[COMMENTS.name].find(query, None if wanted is None else {**wanted, "slug": 1})
        found = {(comment["discussion"], comment["slug"]): comment for comment in await cursor.to_list()}
        return {key: to_public(comment, DOCUMENTS, key[0]) for key, comment in found.items() if key in asked}

    async def find_pages(
        self,
        db: Database,
        listings: Sequence[CommentListing],
        *,
        first: int,
        after: Key | None,
        projection: Projection | None,
    ) -> list[Page]:
        wanted = stored_projection(projection)
        pages = await find_pages(db[COMMENTS.name], listings, first=first, after=after, projection=wanted)
        for page in pages:
            for comment in page.documents:
                to_public(comment, DOCUMENTS, comment["discussion"])
        return pages

    async def find_stored(
        self, db: Database, discussion: ObjectId, ids: Sequence[ObjectId]
    ) -> dict[ObjectId, Document]:
        query = {"discussion": discussion, "_id": {"$in": list(ids)}, "attempt": {"$exists": True}}
        return {comment["_id"]: comment for comment in await db[COMMENTS.name].find(query).to_list()}

    async def change(self, db: Database, comment: Document, guard: Document, update: Document) -> Document | None:
        query = {"discussion": comment["discussion"], "_id": comment["_id"], **guard}
        return await db[COMMENTS.name].find_one_and_update(query, update, return_document=ReturnDocument.AFTER)

    async def insert(self, db: Database, comment: Document, *, now: datetime) -> Document | None:  # noqa: ARG002
        try:
            await db[COMMENTS.name].insert_one({**comment, "schema_version": COMMENTS.version})
        except DuplicateKeyError as error:
            if is_slug_taken(error):
                raise SlugPartTaken from None
            return None
        return comment

    async def fence(self, db: Database, discussion: ObjectId, comment_id: ObjectId, *, now: datetime) -> bool:  # noqa: ARG002
        try:
            await db[COMMENTS.name].insert_one(new_fence(discussion, comment_id))
        except DuplicateKeyError:
            return await self.is_fenced(db, discussion, comment_id)
        return True

    async def find_fenced(self, db: Database, discussion: ObjectId, ids: Sequence[ObjectId]) -> set[ObjectId]:
        query = {"discussion": discussion, "_id": {"$in": list(ids)}, "attempt": {"$exists": False}}
        return {row["_id"] for row in await db[COMMENTS.name].find(query, {"_id": 1}).to_list()}

    async def mark_removed(self, db: Database, comment: Document, attempt: str, *, now: datetime) -> bool:
        mine = {"removing": attempt, "gone": None}
        update: Document = {
            "$set": {"gone": {"attempt": attempt, "at": now}},
            "$unset": dict.fromkeys((*LISTED, "removing", "called_off", "author", "edited", "applied"), ""),
        }
        if await self.change(db, comment, mine, update) is not None:
            return True
        found = await self.find_stored(db, comment["discussion"], [comment["_id"]])
        return bool(found.get(comment["_id"], {}).get("gone", {}).get("attempt") == attempt)


def new_fence(discussion: ObjectId, comment_id: ObjectId) -> Document:
    """Returns the tombstone that takes the `_id` of a comment that must never be inserted.

    Its slug begins with `!`. No comment's slug does.
    """
    return {"_id": comment_id, "discussion": discussion, "slug": f"!{comment_id}"}


def is_slug_taken(error: DuplicateKeyError) -> bool:
    """Returns whether the duplicate key is the slug, not the `_id`."""
    return "slug" in (error.details or {}).get("keyPattern", {})


def _named(refs: Sequence[CommentRef]) -> Document:
    return {
        "discussion": {"$in": list({ref.discussion for ref in refs})},
        "_id": {"$in": [ref.id for ref in refs]},
    }
