"""Writes to discussions: checks the input, and finds the results of repeated calls. `storage` does the writes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Author, Database, Document
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.marks import is_repeatable
from portico.resolvers.writes.settler import AT_ONCE, Answering

from .comments import MAX_DEPTH, CommentRef, to_public
from .rules import require_comment_text
from .storage import Draft, Storage
from .storages import STORAGES


async def post_comment(
    db: Database,
    *,
    discussion: Mapping[str, Any],
    parent_slug: str | None,
    author: Author,
    text: str,
    now: datetime,
    operation_id: str,
    answering: Answering = AT_ONCE,
) -> Document:
    """Posts a comment, as a reply or as the first of a thread.

    Args:     discussion: with `_id` and `storage`. author: {id, name}. answering: how the call is answered.
    Returns:  the comment.
    Raises:   InvalidInput (the text, or the depth), DiscussionFull, NotFound (the parent: it is deleted, or never
              existed).
    Writes:   depends on the storage: see `ledger` and `embedded_storage`.
    """
    storage = STORAGES[discussion["storage"]]
    wanted = require_comment_text(text)
    parent = None
    if parent_slug is not None:
        try:
            parent = await _parent(db, storage, discussion["_id"], parent_slug)
        except NotFound:
            # If an earlier call with this id posted the comment, the parent may have been deleted since.
            if not await _is_posted(db, storage, discussion["_id"], operation_id):
                raise
    draft = Draft(
        discussion=discussion["_id"],
        parent=parent,
        author=author,
        text=wanted,
        now=now,
        operation_id=operation_id,
        answering=answering,
    )
    return await storage.post(db, draft)


async def _is_posted(db: Database, storage: Storage, discussion: ObjectId, operation_id: str) -> bool:
    """Returns whether an earlier call with this id has posted the comment, and it still exists."""
    if not is_repeatable(operation_id):
        return False
    posted = await storage.find_posted_ids(db, discussion, [operation_id])
    ref = CommentRef(storage.name, discussion, posted[operation_id])
    return ref in await storage.find(db, [ref], {"_id": 1})


async def _parent(db: Database, storage: Storage, discussion: ObjectId, slug: str) -> Document:
    parent = (await storage.find_by_slug(db, [(discussion, slug)])).get((discussion, slug))
    if parent is None or parent["deleted"]:
        raise NotFound("Comment", message="The parent was deleted, or never existed.")
    if parent["depth"] >= MAX_DEPTH:
        text = f"The comment has the largest depth, {MAX_DEPTH}. You cannot reply to it."
        raise InvalidInput(text, "parent_slug", code=InvalidInput.TOO_DEEP, most=MAX_DEPTH)
    return parent


async def edit_comment(
    db: Database, *, comment: Mapping[str, Any], text: str, now: datetime, operation_id: str
) -> Document:
    """Changes the text of a comment.

    Args:     comment: in its public form.
    Returns:  the comment.
    Raises:   InvalidInput (the text, or the embedded discussion has no room for it), NotFound (it is deleted).
    Writes:   one guarded update.
    """
    storage = STORAGES[comment["ref"].storage]
    return await storage.edit(db, comment, text=require_comment_text(text), now=now, operation_id=operation_id)


async def delete_comment(db: Database, *, comment: Mapping[str, Any], now: datetime, operation_id: str) -> Document:
    """Deletes a comment: removes it, or, if it has replies, only its text.

    Args:     comment: in its public form, with all fields.
    Returns:  the comment as it was, without its text.
    Raises:   NotFound (it was deleted before this operation began to delete it).
    Writes:   depends on the storage: see `ledger` and `embedded_storage`.
    """
    ref: CommentRef = comment["ref"]
    earlier = (await idempotency.notes(db, operation_id)).get("deleting")
    if comment["deleted"] and earlier is None:
        raise NotFound("Comment", str(ref))
    if earlier is None:
        await idempotency.note(db, operation_id, deleting=_as_noted(comment))
    try:
        return await STORAGES[ref.storage].delete(db, comment, now=now)
    except NotFound as error:
        # Either an earlier call with this id deleted it, or that call was stopped, and another operation deleted it.
        if earlier is None or error.kind != "Comment":
            raise
        return _as_deleted(earlier, ref)


async def find_deleted(db: Database, ref: CommentRef, operation_id: str) -> Document | None:
    """Returns the comment that an earlier call with this id began to delete, as it was, without its text; or None.

    Call this if the comment is gone. It is not known whether that call or another one deleted it: a call notes the
    deletion before it deletes, and may have been stopped between the two. The answer is the same in both cases.
    """
    noted = (await idempotency.notes(db, operation_id)).get("deleting")
    return None if noted is None else _as_deleted(noted, ref)


def _as_deleted(noted: Document, ref: CommentRef) -> Document:
    return to_public({**noted, "_id": ref.id, "deleted": True, "text": ""}, ref.storage, ref.discussion)


def _as_noted(comment: Mapping[str, Any]) -> Document:
    ref: CommentRef = comment["ref"]
    parent = comment["parent"]
    kept = {
        name: value
        for name, value in comment.items()
        if name not in {"ref", "parent", "discussion", "applied", "called_off"}
    }
    return {**kept, "_id": ref.id, "parent": None if parent is None else parent.id, "text": ""}
