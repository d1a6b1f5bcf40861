"""The revisions of pages and entries: every text that was ever accepted, one for each nonce of the node.

An edit first writes its text to the node, by one update that also marks the text `unrevised`. Then it copies the text
here, and clears the mark. Therefore:

* No accepted text is lost: it is in the node until it is here.
* Only accepted texts are here. With the other order, a crash between the revision and the edit would leave a revision
  that never was the text of a node.

An edit that overwrites an unrevised text copies that text here first (see `edits`). A job copies the others (see
`jobs`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import (
    Author,
    CollectionSpec,
    Database,
    Projection,
    Versioned,
    upgrade_read,
    with_version,
)
from portico.resolvers.paging import Listing, Page, Sort

from .nodes import NODES, NodeDocument


class RevisionDocument(Versioned):
    """A revision. Its `_id` is `<the node's _id>.<number>`."""

    _id: str
    # The page or entry.
    node: ObjectId
    # Counts from 1.
    number: int
    # The node's nonce while this was its text.
    nonce: str
    # CommonMark.
    text: str
    # Of the edit.
    author: Author
    created: datetime


REVISIONS = CollectionSpec(
    "cms.revisions",
    document=RevisionDocument,
    # The revisions of a node are on one shard.
    shard_key={"node": 1},
    indexes=[
        IndexModel([("node", ASCENDING), ("number", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("node", ASCENDING), ("nonce", ASCENDING)]),
    ],
)
LATEST = Sort((("number", -1),))
_ID = re.compile(r"([0-9a-f]{24})\.[1-9]\d{0,8}")


def revision_id(text: str) -> str:
    """Checks the key of a revision. Raises ValueError."""
    if not _ID.fullmatch(text):
        raise ValueError(text)
    return text


def node_of(key: str) -> ObjectId:
    """Returns the _id of the node of a revision."""
    return ObjectId(key.partition(".")[0])


async def find_by_ids(
    db: Database, ids: Sequence[str], projection: Projection | None = None
) -> dict[str, RevisionDocument]:
    nodes = list(dict.fromkeys(map(node_of, ids)))
    query = {"_id": {"$in": list(ids)}, "node": {"$in": nodes}}
    found = await REVISIONS.of(db).find(query, with_version(projection), batch_size=len(ids) + 1).to_list()
    return {revision["_id"]: revision for revision in await upgrade_read(db, REVISIONS, found, projection)}


def revisions_of(node_id: ObjectId) -> Listing:
    """Returns the listing of the revisions of a page or an entry, the current one first."""
    return Listing({"node": node_id}, LATEST)


def no_revisions(db: Database, node_id: ObjectId) -> Page:
    """Returns an empty page, for callers who cannot see revisions."""
    return Page(revisions_of(node_id), db[REVISIONS.name], [], has_next=False)


async def find_by_nonce(db: Database, node_id: ObjectId, nonce: str) -> RevisionDocument | None:
    """Finds the revision with this nonce."""
    return await REVISIONS.of(db).find_one({"node": node_id, "nonce": nonce})


def revision_for(node: NodeDocument) -> RevisionDocument:
    """Returns the new revision for a node whose text is unrevised."""
    return {
        "_id": f"{node['_id']}.{node['revision']}",
        "node": node["_id"],
        "number": node["revision"],
        "nonce": node["nonce"],
        "text": node["detail"]["text"],
        "author": node["unrevised"]["author"],
        "created": node["unrevised"]["at"],
        "schema_version": REVISIONS.version,
    }


async def store_unrevised(db: Database, node: NodeDocument) -> None:
    """Copies a node's current text to the revisions, if it is unrevised. May be repeated.

    Writes:   cms.revisions; one insert.
    """
    if "unrevised" in node:
        # An existing revision has the same text.
        with contextlib.suppress(DuplicateKeyError):
            await REVISIONS.of(db).insert_one(revision_for(node))


async def settle(db: Database, node: NodeDocument, *more: str) -> None:
    """Copies a node's current text to the revisions, and clears its mark and `more` marks. May be repeated.

    Writes:   cms.revisions, then cms.nodes; one insert and one guarded update.
    """
    await store_unrevised(db, node)
    marks = [mark for mark in ("unrevised", *more) if mark in node]
    if not marks:
        return
    here = {"_id": node["_id"], "parent": node["parent"]}
    settled = await db[NODES.name].update_one({**here, "nonce": node["nonce"]}, {"$unset": dict.fromkeys(marks, "")})
    if not settled.matched_count:
        await delete_if_orphaned(db, node)


async def delete_if_orphaned(db: Database, node: NodeDocument) -> None:
    """Deletes the revisions of a node that no longer exists. Call this after a copy, if the node may be deleted.

    Writes:   as `delete_revisions`, if the node is gone.
    """
    here = {"_id": node["_id"], "parent": node["parent"]}
    if await NODES.of(db).find_one(here, {"_id": 1}) is None:
        await delete_revisions(db, node["_id"])


async def delete_revisions(db: Database, node_id: ObjectId) -> None:
    """Removes the revisions of a node that is gone. May be repeated.

    Writes:   cms.revisions; one removal of many.
    """
    await db[REVISIONS.name].delete_many({"node": node_id})
