"""Creates nodes of the site.

The protocol is that of the category tree. A creation first inserts the node, marked `pending`, then checks that the
section above it (still) exists. A deletion of a section first marks the section, then checks that it has no children.
Therefore, at least one of the two sees the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Author, Database
from portico.resolvers.errors import InvalidInput, NotFound, SlugTaken
from portico.resolvers.writes import idempotency, intents
from portico.resolvers.writes.marks import derived_id, derived_nonce

from . import revisions
from .deletion import DELETION, remove_parts
from .nodes import (
    BLOG,
    ENTRY,
    FOLDER,
    GALLERY,
    KIND,
    NODES,
    PAGE,
    SECTION,
    WITH_TEXT,
    Detail,
    NodeDocument,
    find_settled,
    require_settled,
    titled,
    visible_from,
)
from .rules import require_content, require_permalink, require_place, require_tags, require_title


@dataclass(frozen=True)
class NewNode:
    """The fields that all new nodes have.

    `parent_name` is the name of the parent in the caller's input, for errors. `created` is set for content that is
    older than its node.
    """

    slug: str
    title: str
    author: Author
    parent_id: ObjectId | None = None
    tags: list[str] = field(default_factory=list)
    parent_name: str = "parent_id"
    created: datetime | None = None


async def create_section(db: Database, *, node: NewNode, kind: str, now: datetime, operation_id: str) -> NodeDocument:
    """Creates a section below another one, or at the root. Returns, raises and writes as `create_node`."""
    if kind not in {FOLDER, BLOG, GALLERY}:
        raise InvalidInput("The kind of a section must be FOLDER, BLOG or GALLERY.", "kind", code=InvalidInput.UNKNOWN)
    return await create_node(db, type_=SECTION, node=node, detail={"kind": kind}, now=now, operation_id=operation_id)


async def create_page(db: Database, *, node: NewNode, text: str, now: datetime, operation_id: str) -> NodeDocument:
    """Creates a page below a FOLDER, or at the root. Returns, raises and writes as `create_node`."""
    detail: Detail = {"text": text}
    return await create_node(db, type_=PAGE, node=node, detail=detail, now=now, operation_id=operation_id)


async def create_entry(
    db: Database, *, node: NewNode, text: str, publish_on: datetime | None, now: datetime, operation_id: str
) -> NodeDocument:
    """Creates an entry in a BLOG; a draft if `publish_on` is None. Returns, raises and writes as `create_node`."""
    detail: Detail = {"text": text, "publish_on": publish_on}
    return await create_node(db, type_=ENTRY, node=node, detail=detail, now=now, operation_id=operation_id)


async def create_node(
    db: Database, *, type_: str, node: NewNode, detail: Detail, now: datetime, operation_id: str
) -> NodeDocument:
    """Creates a node of any type.

    Returns:  the node.
    Raises:   InvalidInput, SlugTaken, NotFound (the parent).
    Writes:   cms.nodes, cms.revisions; one insert, the first revision of a text, then the removal of the marks; or the
              removal of the node if its parent was deleted in the meantime.
    """
    document = _document(type_, node, detail, now, operation_id)
    gone = NotFound(KIND, str(document["_id"]))
    mine = await idempotency.find_created(db, operation_id, lambda: _find_created(db, document), gone)
    if mine is None:
        await _set_parent(db, document, node, now, operation_id)
        mine = await _insert(db, document)
    if "upload" not in mine["detail"]:
        # A photo exists once its upload is complete. Until then, a job may remove it, and the call can be repeated.
        await idempotency.note(db, operation_id, done=True)
    return await confirm_created(db, mine)


def _document(type_: str, node: NewNode, detail: Detail, now: datetime, operation_id: str) -> NodeDocument:
    created = node.created or now
    with InvalidInput.collect() as check:
        slug = check(require_permalink, node.slug)
        title, tags = check(require_title, node.title), check(require_tags, node.tags)
        check(require_content, detail.get("text", ""))
    named = titled(title)
    document: NodeDocument = {
        "_id": derived_id(operation_id, "node"),
        "type": type_,
        "slug": slug,
        "title": title,
        "words": named["words"],
        "near": named["near"],
        "parent": node.parent_id,
        "ancestors": [],
        "created": created,
        "updated": created,
        "author": node.author,
        "tags": tags,
        "nonce": derived_nonce(operation_id, "created"),
        "revision": 1,
        "visible_from": visible_from(type_, detail, created),
        "detail": detail,
        "schema_version": NODES.version,
    }
    if type_ in WITH_TEXT:
        document["unrevised"] = {"at": now, "author": node.author}
    return document


async def _set_parent(db: Database, document: NodeDocument, node: NewNode, now: datetime, operation_id: str) -> None:
    parent = None if node.parent_id is None else await require_settled(db, node.parent_id)
    require_place(document["type"], parent, node.parent_name)
    if parent is not None:
        document["ancestors"] = [*parent["ancestors"], parent["_id"]]
        document["pending"] = {"op": operation_id, "at": now}


async def _insert(db: Database, document: NodeDocument) -> NodeDocument:
    try:
        await NODES.of(db).insert_one(document)
    except DuplicateKeyError:
        mine = await _find_created(db, document)
        if mine is None:
            raise SlugTaken(document["slug"]) from None
        return mine
    return document


async def _find_created(db: Database, document: NodeDocument) -> NodeDocument | None:
    return await NODES.of(db).find_one({"_id": document["_id"], "parent": document["parent"]})


async def _undo(db: Database, node: NodeDocument) -> None:
    """Removes a pending node, and raises NotFound (the parent), unless another process has confirmed the node."""
    mark = node["pending"]
    # Another process may have copied its text to the revisions already, and the node may have got attachments. The
    # intent makes a job delete them.
    await intents.announce(db, mark["op"], kind=DELETION, keys=[str(node["_id"])], now=mark["at"])
    mine = {"_id": node["_id"], "parent": node["parent"], "pending.op": mark["op"]}
    await db[NODES.name].delete_one(mine)
    if not await remove_parts(db, [node["_id"]], now=mark["at"]):
        raise NotFound(KIND, str(node["parent"]))
    await intents.withdraw(db, mark["op"])


async def confirm_created(db: Database, node: NodeDocument) -> NodeDocument:
    """Confirms a created node, or rolls it back if its parent is gone. May be repeated.

    Returns:  the node.
    Raises:   NotFound (the parent).
    """
    if "pending" in node and (node["parent"] is None or await find_settled(db, node["parent"]) is None):
        await _undo(db, node)
    await revisions.settle(db, node, "pending")
    settled = node.copy()
    settled.pop("pending", None)
    settled.pop("unrevised", None)
    return settled
