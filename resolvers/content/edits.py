"""Edits of nodes. No saved text is lost.

An edit names the nonce that it is based on. One update, guarded by the nonce, writes the change and a new nonce. Of
several edits based on the same nonce, one is written. The others get a conflict with the current node. Each written
text stays in the revisions: see `revisions`.

Tags are a set: concurrent additions and removals do not conflict. Therefore, they need no nonce.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.content.refusals import EditConflict
from portico.resolvers.documents import Author, Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, NotFound, SlugTaken
from portico.resolvers.writes.marks import derived_nonce, mark_applied, not_applied, trim_marks, was_applied
from portico.resolvers.writes.retries import attempts, settling

from . import revisions
from .merge import compare
from .nodes import ENTRY, KIND, NODES, WITH_TEXT, NodeDocument, require_settled, titled
from .rules import MAX_TAGS, require_content, require_permalink, require_tags, require_title

# Matches nodes whose creation or deletion is not in progress. Only these can be edited.
SETTLED: Document = {"pending": None, "deleting": None}


@dataclass(frozen=True)
class Edit:
    """The node to edit, the nonce that it was read with, and the author of the edit."""

    node_id: ObjectId
    nonce: str
    author: Author
    now: datetime
    operation_id: str


async def edit_text(db: Database, edit: Edit, *, text: str) -> NodeDocument:
    """Changes the text of a page or an entry.

    Returns:  the node.
    Raises:   InvalidInput, NotFound, EditConflict.
    Writes:   cms.nodes, cms.revisions; one nonce-guarded update, the copy of the text, and the removal of its mark.
    """
    return await _edit(db, edit, {"detail.text": require_content(text)}, text)


async def restore_revision(db: Database, edit: Edit, *, revision_id: str) -> NodeDocument:
    """Sets the text of a page or an entry to that of one of its revisions. This creates a new revision.

    Returns, raises and writes as `edit_text`. Also raises NotFound for a revision of another node.
    """
    revision = (await revisions.find_by_ids(db, [revision_id])).get(revision_id)
    if revision is None or revision["node"] != edit.node_id:
        raise NotFound("Revision", revision_id)
    return await _edit(db, edit, {"detail.text": revision["text"]}, revision["text"])


async def edit_metadata(db: Database, edit: Edit, *, changes: Mapping[str, Any]) -> NodeDocument:
    """Changes the title, the slug, or the time of publication of an entry. Keeps what is not in `changes`.

    Args:     changes: `title`, `slug` and `publish_on`. With `publish_on` None, an entry becomes a draft; the others
              cannot be cleared.
    Returns:  the node.
    Raises:   InvalidInput, NotFound, SlugTaken, EditConflict.
    Writes:   as `edit_text`.
    """
    written: Document = {}
    with InvalidInput.collect() as check:
        if "title" in changes:
            written |= _titled(check(require_title, changes["title"]))
        if "slug" in changes:
            written["slug"] = check(require_permalink, changes["slug"])
    if "publish_on" in changes:
        written["detail.publish_on"] = written["visible_from"] = changes["publish_on"]
    return await _edit(db, edit, written, None)


def _titled(title: str | None) -> Document:
    """Returns what an edit of the title sets; None for an invalid one, which is refused."""
    return {**titled(title or "")}


async def rewrite_entry(
    db: Database, edit: Edit, *, title: str, text: str, tags: Sequence[str], publish_on: datetime | None
) -> NodeDocument:
    """Sets all fields of a blog entry, for imports. Returns, raises and writes as `edit_text`."""
    with InvalidInput.collect() as check:
        written = {
            **_titled(check(require_title, title)),
            "detail.text": check(require_content, text),
            "detail.publish_on": publish_on,
            "visible_from": publish_on,
            "tags": check(require_tags, tags),
        }
    return await _edit(db, edit, written, text)


async def _edit(db: Database, edit: Edit, changes: Document, proposed: str | None) -> NodeDocument:
    async for _ in attempts():
        node = await require_settled(db, edit.node_id)
        _require_fields(node, changes)
        if not was_applied(node, edit.operation_id):
            if node["nonce"] != edit.nonce:
                raise await edit_conflict(db, node, edit.nonce, proposed)
            changed = await _try_edit(db, node, edit, changes) if changes else node
            if changed is None:
                # Another edit or deletion was faster.
                continue
            node = changed
        await revisions.settle(db, node)
        settled = node.copy()
        settled.pop("unrevised", None)
        return settled
    raise Conflict("Other writes keep changing the node. Send the call again with the same idempotency key.")


def _require_fields(node: NodeDocument, changes: Document) -> None:
    if "detail.text" in changes and node["type"] not in WITH_TEXT:
        raise InvalidInput("The node has no text. Only pages and blog entries do.", "id", code=InvalidInput.NOT_ALLOWED)
    if "detail.publish_on" in changes and node["type"] != ENTRY:
        raise InvalidInput("Only blog entries have `publishOn`.", "publish_on", code=InvalidInput.NOT_ALLOWED)


async def _try_edit(db: Database, node: NodeDocument, edit: Edit, changes: Document) -> NodeDocument | None:
    # The text to overwrite has to be in the revisions first.
    await revisions.store_unrevised(db, node)
    written = {**changes, "nonce": derived_nonce(edit.operation_id, edit.nonce)}
    if node["type"] in WITH_TEXT:
        written["unrevised"] = {"at": edit.now, "author": edit.author}
    guard = {"_id": node["_id"], "parent": node["parent"], "nonce": edit.nonce, **SETTLED}
    update = {"$set": written, "$inc": {"revision": 1}, "$max": {"updated": edit.now}}
    update |= mark_applied(edit.operation_id)
    try:
        changed = await NODES.of(db).find_one_and_update(guard, update, return_document=ReturnDocument.AFTER)
    except DuplicateKeyError:
        raise SlugTaken(changes["slug"]) from None
    if changed is not None:
        await trim_marks(db, NODES, changed)
    elif "unrevised" in node:
        await revisions.delete_if_orphaned(db, node)
    return changed


async def edit_conflict(db: Database, node: NodeDocument, nonce: str, proposed: str | None) -> EditConflict:
    """Returns the conflict for an edit that is not based on the current nonce.

    Args:     proposed: the caller's text; None if the edit does not change the text.
    """
    if node["type"] not in WITH_TEXT:
        return EditConflict(node)
    base = await revisions.find_by_nonce(db, node["_id"], nonce)
    base_text = None if base is None else base["text"]
    if proposed is None:
        return EditConflict(node, base_text=base_text)
    comparison = await compare(base_text, node["detail"]["text"], proposed)
    return EditConflict(node, base_text=base_text, diff=comparison.diff, merged_text=comparison.merged)


async def add_tags(
    db: Database, *, node_id: ObjectId, tags: Sequence[str], now: datetime, operation_id: str
) -> NodeDocument:
    """Adds tags to a node.

    Returns:  the node.
    Raises:   InvalidInput, NotFound.
    Writes:   cms.nodes; one guarded update.
    """
    wanted = require_tags(tags)
    together = {"$size": {"$setUnion": ["$tags", {"$literal": wanted}]}}
    fits = {"$expr": {"$lte": [together, MAX_TAGS]}}
    change = {"$addToSet": {"tags": {"$each": wanted}}}

    def check(node: NodeDocument) -> None:
        if len({*node["tags"], *wanted}) > MAX_TAGS:
            raise InvalidInput(
                f"A node can have up to {MAX_TAGS} tags.", "tags", code=InvalidInput.TOO_MANY, most=MAX_TAGS
            )

    return await _change_tags(db, node_id, change, fits, check, now, operation_id)


async def remove_tags(
    db: Database, *, node_id: ObjectId, tags: Sequence[str], now: datetime, operation_id: str
) -> NodeDocument:
    """Removes tags from a node. Ignores tags that it does not have. Returns, raises and writes as `add_tags`."""
    change = {"$pull": {"tags": {"$in": require_tags(tags)}}}
    return await _change_tags(db, node_id, change, {}, lambda _node: None, now, operation_id)


async def _change_tags(
    db: Database,
    node_id: ObjectId,
    change: Document,
    condition: Document,
    check: Any,
    now: datetime,
    operation_id: str,
) -> NodeDocument:
    async for _ in settling():
        node = await require_settled(db, node_id)
        if was_applied(node, operation_id):
            return node
        check(node)
        guard = {"_id": node_id, "parent": node["parent"], **SETTLED, **condition}
        guard |= not_applied(operation_id)
        update = {**change, "$max": {"updated": now}, **mark_applied(operation_id)}
        changed = await NODES.of(db).find_one_and_update(guard, update, return_document=ReturnDocument.AFTER)
        if changed is not None:
            await trim_marks(db, NODES, changed)
            return changed
    raise NotFound(KIND, str(node_id))
