"""The revisions of texts: every text that was ever accepted, one for each nonce of a page or an entry.

A document:

    _id      `<the node's _id>.<number>`
    node     the _id of the page or entry
    number   counts from 1
    nonce    the node's, as long as this was its text
    text     CommonMark
    author   {id, name} of whoever saved it
    created  UTC

An edit writes its text into the node first, by one update, and says there that the text is `unrevised`. Only then is
the text copied here, and the mark taken off. So a text that was accepted is never lost: it is in the node until it is
here. And none is here that was not accepted, which the other order could not promise: who stops between a revision and
its edit has left one that never was the text of anything.

Whoever overwrites an unrevised text copies it here first (`content_edits`); what nobody overwrites a job copies
(`content_jobs`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import (
    SCHEMA_VERSION,
    CollectionSpec,
    Database,
    Document,
    Projection,
    upgrade_read,
    with_version,
)
from portico.resolvers.paging import Key, Listing, Page, Sort, find_pages

from .nodes import NODES

REVISIONS = CollectionSpec(
    "cms.revisions",
    shard_key={"node": 1},
    indexes=[
        IndexModel([("node", ASCENDING), ("number", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("node", ASCENDING), ("nonce", ASCENDING)]),
    ],
)
LATEST = Sort((("number", -1),))
_ID = re.compile(r"([0-9a-f]{24})\.[1-9]\d{0,8}")


def revision_id(text: str) -> str:
    """The key of a revision. Raises ValueError."""
    if not _ID.fullmatch(text):
        raise ValueError(text)
    return text


def node_of(key: str) -> ObjectId:
    """The node whose revision it is."""
    return ObjectId(key.partition(".")[0])


async def find_by_ids(db: Database, ids: Sequence[str], projection: Projection | None = None) -> dict[str, Document]:
    nodes = list(dict.fromkeys(map(node_of, ids)))
    query = {"_id": {"$in": list(ids)}, "node": {"$in": nodes}}
    found = await db[REVISIONS.name].find(query, with_version(projection), batch_size=len(ids) + 1).to_list()
    return {revision["_id"]: revision for revision in await upgrade_read(db, REVISIONS, found, projection)}


def revisions_of(node_id: ObjectId) -> Listing:
    """The revisions of a page or an entry, the current one first."""
    return Listing({"node": node_id}, LATEST)


def no_revisions(db: Database, node_id: ObjectId) -> Page:
    """What is shown to those who may not see any."""
    return Page(revisions_of(node_id), db[REVISIONS.name], [], has_next=False)


async def find_revision_pages(
    db: Database, listings: Sequence[Listing], *, first: int, after: Key | None, projection: Projection | None
) -> list[Page]:
    pages = await find_pages(db[REVISIONS.name], listings, first=first, after=after, projection=projection)
    for page in pages:
        page.documents = await upgrade_read(db, REVISIONS, page.documents, projection)
    return pages


async def find_by_nonce(db: Database, node_id: ObjectId, nonce: str) -> Document | None:
    """The revision that had this nonce."""
    return await db[REVISIONS.name].find_one({"node": node_id, "nonce": nonce})


def revision_for(node: Mapping[str, Any]) -> Document:
    """The revision of a node's present text, which is unrevised."""
    return {
        "_id": f"{node['_id']}.{node['revision']}",
        "node": node["_id"],
        "number": node["revision"],
        "nonce": node["nonce"],
        "text": node["detail"]["text"],
        "author": node["unrevised"]["author"],
        "created": node["unrevised"]["at"],
        SCHEMA_VERSION: REVISIONS.version,
    }


async def store_unrevised(db: Database, node: Document) -> None:
    """Copies a node's present text into the revisions, where that is still to be done. May be repeated.

    Writes:   cms.revisions; one insert.
    """
    if "unrevised" in node:
        # Whoever was here before has copied the same.
        with contextlib.suppress(DuplicateKeyError):
            await db[REVISIONS.name].insert_one(revision_for(node))


async def settle(db: Database, node: Document, *more: str) -> None:
    """Copies a node's present text into the revisions, and takes off its mark, with `more` marks. May be repeated.

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


async def delete_if_orphaned(db: Database, node: Document) -> None:
    """Undoes a copy that was made when the node was deleted already: who copies looks afterwards whether it is there.

    Writes:   as `delete_revisions`, where the node is gone.
    """
    here = {"_id": node["_id"], "parent": node["parent"]}
    if await db[NODES.name].find_one(here, {"_id": 1}) is None:
        await delete_revisions(db, node["_id"])


async def delete_revisions(db: Database, node_id: ObjectId) -> None:
    """Removes the revisions of a node that is gone. May be repeated.

    Writes:   cms.revisions; one removal of many.
    """
    await db[REVISIONS.name].delete_many({"node": node_id})
