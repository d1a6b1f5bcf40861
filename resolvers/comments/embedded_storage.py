"""The `EMBEDDED` storage: all comments of a discussion in one document. The fastest storage for few comments.

Every write is one guarded update. A removed comment keeps its place in the array, without its text: taking it out would
rewrite everything after it.

Source: MongoDB Applied Design Patterns, ch. 6, "Approach: Embedding All Comments".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NotRequired

import bson
from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from portico.resolvers.comments.refusals import DiscussionFull
from portico.resolvers.documents import CollectionSpec, Database, Document, Projection, Versioned
from portico.resolvers.errors import Conflict, InvalidInput, NotFound
from portico.resolvers.paging import Key, Page
from portico.resolvers.writes.marks import forgettable, is_repeatable, was_applied
from portico.resolvers.writes.retries import attempts

from .comments import CommentListing, CommentRef, StoredComment, to_public, with_slug
from .discussion_removal import require_subject
from .discussions import EMBEDDED
from .embedded_reads import find_chain, find_comments, find_embedded_pages
from .posted import EMBEDDED_COLLECTION
from .storage import CONTESTED, MARKS_KEPT, Draft, Slug, posted_id


class EmbeddedDiscussion(Versioned):
    """The comments of a discussion, whose `_id` it has."""

    _id: ObjectId
    # In the order of insertion.
    comments: list[StoredComment]
    # By `_id`, for the comments that have, or had, direct replies.
    replies: dict[str, int]
    # The number of listed comments.
    count: int
    # An upper bound of the bytes that the comments take: it bounds what one read costs. Documents of earlier versions
    # can be larger than posts and edits now allow.
    size: int
    # The CommentRef, as text, of the comment that was posted last: see `posted`.
    newest: NotRequired[str]


EMBEDDED_DISCUSSIONS = CollectionSpec(EMBEDDED_COLLECTION, document=EmbeddedDiscussion, shard_key={"_id": "hashed"})

# Bytes of comments. Every read takes the whole document. An edit may still make texts longer when posts are refused.
MAX_POSTED = 1024 * 1024
MAX_EDITED = 2 * MAX_POSTED
# Bytes that a comment takes besides its fields: its place in the array, its reply count, and later marks.
_OVERHEAD = 100


class EmbeddedStorage:
    """The `Storage` with one document for each discussion."""

    name = EMBEDDED

    async def find(
        self, db: Database, refs: Sequence[CommentRef], projection: Projection | None = None
    ) -> dict[CommentRef, Document]:
        wanted: dict[ObjectId, list[ObjectId]] = {}
        for ref in refs:
            wanted.setdefault(ref.discussion, []).append(ref.id)
        conditions = {key: {"$in": ["$$this._id", ids]} for key, ids in wanted.items()}
        return {comment["ref"]: comment for comment in await find_comments(db, conditions, projection)}

    async def find_by_slug(
        self, db: Database, slugs: Sequence[Slug], projection: Projection | None = None
    ) -> dict[Slug, Document]:
        wanted: dict[ObjectId, list[str]] = {}
        for discussion, slug in slugs:
            wanted.setdefault(discussion, []).append(slug)
        conditions = {key: {"$in": ["$$this.slug", {"$literal": some}]} for key, some in wanted.items()}
        found = await find_comments(db, conditions, projection)
        return {(comment["discussion"], comment["slug"]): comment for comment in found}

    async def find_removed(self, db: Database, discussion: ObjectId, ids: Sequence[ObjectId]) -> set[ObjectId]:
        cond = {"$and": [{"$in": ["$$this._id", list(ids)]}, {"$ne": [{"$ifNull": ["$$this.gone", None]}, None]}]}
        fields = {"gone": {"$map": {"input": {"$filter": {"input": "$comments", "cond": cond}}, "in": "$$this._id"}}}
        found = await db[EMBEDDED_DISCUSSIONS.name].find_one({"_id": discussion}, fields)
        return set() if found is None else set(found["gone"])

    async def find_posted_ids(
        self,
        db: Database,  # noqa: ARG002
        discussion: ObjectId,  # noqa: ARG002
        operation_ids: Sequence[str],
    ) -> dict[str, ObjectId]:
        return {operation_id: posted_id(operation_id) for operation_id in operation_ids}

    async def find_pages(
        self,
        db: Database,
        listings: Sequence[CommentListing],
        *,
        first: int,
        after: Key | None,
        projection: Projection | None,
    ) -> list[Page]:
        return await find_embedded_pages(db, listings, first=first, after=after, projection=projection)

    async def count(self, db: Database, discussions: Sequence[ObjectId]) -> Mapping[ObjectId, int]:
        query = {"_id": {"$in": list(discussions)}}
        found = await db[EMBEDDED_DISCUSSIONS.name].find(query, {"count": 1}).to_list()
        return {document["_id"]: document["count"] for document in found}

    async def post(self, db: Database, draft: Draft) -> Document:
        comment_id = posted_id(draft.operation_id)
        parent, fresh = draft.stored_parent, draft.comment(comment_id)
        number = 0
        await draft.answering.confirmed()
        async for _ in attempts(steps=3):
            comment = with_slug(fresh, parent, number)
            if await self._push(db, comment):
                return to_public({**comment}, EMBEDDED, draft.discussion)
            about = await self._read_push_state(db, comment)
            if about is None:
                await _insert(db, draft.discussion)
                # There may have been a document that was removed with the subject of the discussion.
                await require_subject(db, draft.discussion)
                continue
            known = self._explain_failed_push(about, comment)
            if known is not None:
                return await self._require(db, known)
            number += about["is_slug_taken"]
        raise Conflict(CONTESTED)

    async def _push(self, db: Database, comment: Document) -> bool:
        cell = _to_cell(comment)
        size = _size(cell)
        guard: Document = {
            "_id": comment["discussion"],
            "comments._id": {"$ne": comment["_id"]},
            "comments.slug": {"$ne": comment["slug"]},
            "size": {"$lte": MAX_POSTED - size},
        }
        counts: Document = {"count": 1, "size": size}
        if comment["parent"] is not None:
            guard["comments"] = {"$elemMatch": {"_id": comment["parent"], "deleted": False}}
            counts[f"replies.{comment['parent']}"] = 1
        newest = str(CommentRef(EMBEDDED, comment["discussion"], comment["_id"]))
        update = {"$push": {"comments": cell}, "$inc": counts, "$set": {"newest": newest}}
        return bool((await db[EMBEDDED_DISCUSSIONS.name].update_one(guard, update)).matched_count)

    async def _read_push_state(self, db: Database, comment: Document) -> Document | None:
        """Reads why a comment could not be pushed: the size, whether the slug is taken, the comment, and its parent.

        Returns None if there is no document yet.
        """
        ids = [comment["_id"], comment["parent"]]
        fields = {
            "size": 1,
            "found": {"$filter": {"input": "$comments", "cond": {"$in": ["$$this._id", ids]}}},
            "is_slug_taken": {"$in": [comment["slug"], "$comments.slug"]},
        }
        return await db[EMBEDDED_DISCUSSIONS.name].find_one({"_id": comment["discussion"]}, fields)

    def _explain_failed_push(self, about: Document, comment: Document) -> CommentRef | None:
        """Returns the reference of the comment if it is already posted, and None if the push can be retried.

        Raises the errors of `post`.
        """
        found = {cell["_id"]: cell for cell in about["found"]}
        if comment["_id"] in found:
            if "gone" in found[comment["_id"]]:
                raise NotFound("Comment")
            return CommentRef(EMBEDDED, comment["discussion"], comment["_id"])
        if comment["parent"] is not None and found.get(comment["parent"], {"deleted": True})["deleted"]:
            raise NotFound("Comment", str(CommentRef(EMBEDDED, comment["discussion"], comment["parent"])))
        if about["size"] > MAX_POSTED - _size(_to_cell(comment)):
            raise DiscussionFull
        return None

    async def edit(
        self, db: Database, comment: Mapping[str, Any], *, text: str, now: datetime, operation_id: str
    ) -> Document:
        ref: CommentRef = comment["ref"]
        async for _ in attempts():
            cell = await self._require(db, ref)
            if was_applied(cell, operation_id):
                return cell
            if cell["deleted"]:
                raise NotFound("Comment", str(ref))
            changes: Document = {"text": text, "edited": now}
            if is_repeatable(operation_id):
                marks = cell.get("applied", ())
                forgotten = await forgettable(db, marks, kept=MARKS_KEPT)
                changes["applied"] = [*(mark for mark in marks if mark not in forgotten), operation_id]
            before = {name: cell[name] for name in changes if name in cell}
            growth = _size(changes) - _size(before)
            same = {"deleted": False, **{name: cell.get(name) for name in changes}}
            guard: Document = {"_id": ref.discussion, "comments": {"$elemMatch": {"_id": ref.id, **same}}}
            if growth > 0:
                guard["size"] = {"$lte": MAX_EDITED - growth}
            update = {
                "$set": {f"comments.$.{name}": value for name, value in changes.items()},
                "$inc": {"size": growth},
            }
            if (await db[EMBEDDED_DISCUSSIONS.name].update_one(guard, update)).matched_count:
                return await self._require(db, ref)
            if growth > 0 and await self._is_full(db, ref.discussion, growth):
                message = "The discussion has no room for a longer text. Shorten the text."
                raise InvalidInput(message, "text", code=InvalidInput.TOO_LONG)
        raise Conflict(CONTESTED)

    async def _is_full(self, db: Database, discussion: ObjectId, growth: int) -> bool:
        query = {"_id": discussion, "size": {"$gt": MAX_EDITED - growth}}
        return await db[EMBEDDED_DISCUSSIONS.name].find_one(query, {"_id": 1}) is not None

    async def delete(self, db: Database, comment: Mapping[str, Any], *, now: datetime) -> Document:
        ref: CommentRef = comment["ref"]
        async for _ in attempts():
            chain = await find_chain(db, ref.discussion, comment["key"])
            cell = chain[-1] if chain and chain[-1]["_id"] == ref.id else None
            if cell is None or (cell["deleted"] and cell["replies"]):
                raise NotFound("Comment", str(ref))
            guard, update, filters = _tombstone(ref, cell) if cell["replies"] else _removal(ref, chain, now)
            collection = db[EMBEDDED_DISCUSSIONS.name]
            if (await collection.update_one(guard, update, array_filters=filters)).matched_count:
                return {**comment, "deleted": True, "text": ""}
        raise Conflict(CONTESTED)

    async def settle(self, db: Database, discussion: Document, entry: Document, *, now: datetime) -> None:
        """Does nothing: each write is one update, so that nothing is left in flight."""

    async def _require(self, db: Database, ref: CommentRef) -> Document:
        found = (await self.find(db, [ref])).get(ref)
        if found is None:
            raise NotFound("Comment", str(ref))
        return found


Write = tuple[Document, Document, list[Document]]


def _tombstone(ref: CommentRef, cell: Document) -> Write:
    """Returns the write that deletes a comment with replies: the comment stays, without its text."""
    guard = {"_id": ref.discussion, **_unchanged(cell, {"$gt": 0})}
    update = {
        "$set": {"comments.$[it].deleted": True, "comments.$[it].text": ""},
        "$inc": {"size": -len(cell["text"].encode())},
    }
    return guard, update, [{"it._id": ref.id}]


def _removal(ref: CommentRef, chain: Sequence[Document], now: datetime) -> Write:
    """Returns the write that removes a comment without replies, and its deleted ancestors without other replies."""
    first = len(chain) - 1
    while first and chain[first - 1]["deleted"] and chain[first - 1]["replies"] == 1:
        first -= 1
    going, above = chain[first:], chain[first - 1] if first else None
    guards = [_unchanged(chain[-1], {"$in": [None, 0]}), *(_unchanged(cell, 1) for cell in going[:-1])]
    counts = {f"replies.{cell['_id']}": -1 for cell in going[:-1]}
    if above is not None:
        # A deleted parent stays because of another reply.
        guards.append(_unchanged(above, {"$gt": 1} if above["deleted"] else {"$gt": 0}))
        counts[f"replies.{above['_id']}"] = -1
    texts = sum(len(cell["text"].encode()) for cell in going)
    gone = {"comments.$[it].gone": {"at": now}, "comments.$[it].deleted": True, "comments.$[it].text": ""}
    update = {"$set": gone, "$inc": {"count": -len(going), "size": -texts, **counts}}
    return (
        {"_id": ref.discussion, "$and": guards},
        update,
        [{"it._id": {"$in": [cell["_id"] for cell in going]}}],
    )


def _unchanged(cell: Document, replies: Any) -> Document:
    """Returns the guard that the comment has not changed since it was read, and has this number of replies."""
    same = {"_id": cell["_id"], "deleted": cell["deleted"], "text": cell["text"], "gone": None}
    return {"comments": {"$elemMatch": same}, f"replies.{cell['_id']}": replies}


def _to_cell(comment: Document) -> Document:
    """Returns the comment in the form that the array holds."""
    return {name: value for name, value in comment.items() if name not in {"discussion", "replies"}}


def _size(cell: Mapping[str, Any]) -> int:
    return len(bson.encode(cell)) + _OVERHEAD


async def _insert(db: Database, discussion: ObjectId) -> None:
    fresh = {
        "_id": discussion,
        "comments": [],
        "replies": {},
        "count": 0,
        "size": 0,
        "schema_version": EMBEDDED_DISCUSSIONS.version,
    }
    try:
        await db[EMBEDDED_DISCUSSIONS.name].insert_one(fresh)
    except DuplicateKeyError:
        return
