"""The site: sections, pages, blog entries and photos in one collection, `detail` by type. Reads, and who sees what.

A document:

    _id           ObjectId
    type          `section`, `page`, `entry` or `photo`
    slug          unique below its parent
    title
    parent        the parent's _id; None at the root. A node is never moved
    ancestors     [ObjectId] from the root down to the parent. So a path takes one read of slugs, however long it is
    created       UTC
    updated       UTC; the last edit, of tags too
    author        {id, name} of who created it
    tags          [str] a set, the oldest first
    nonce         changed by every edit but those of tags
    revision      counts the nonces, from 1
    visible_from  UTC; readers see the node from then on. None: EDITORs alone do. It follows from `type` and `detail`
    detail        of a section  {kind: `FOLDER`, `BLOG` or `GALLERY`}
                  of a page     {text}: CommonMark
                  of an entry   {text, publish_on: UTC, None for a draft}
                  of a photo    {file: the _id in GridFS, content_type, length (bytes), width, height (pixels),
                                checksum (SHA-256, hexadecimal), locked: UTC, when an upload in progress began}, and
                                what `photos` says
    pending       {op, at}      created, and its parent not yet confirmed
    unrevised     {at, author}  its present text has not been copied into the revisions yet
    deleting      {op, at}      about to be deleted, unless something stands below it
    applied       ids of the latest repeatable operations on it

`pending`, `unrevised` and `deleting` are records of intent: whatever a crash leaves of them, `content_jobs` settles.

Only sections have nodes below them, and every section is visible. So whether somebody sees a node does not depend on
what stands above it.

Source: MongoDB Applied Design Patterns, ch. 6, "Metadata and Asset Management". There the fields are below `metadata`,
photos are in a collection of their own, and the path of a photo and that of a page may be the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection, upgrade_read, with_version
from portico.resolvers.errors import NotFound
from portico.resolvers.paging import Key, Listing, Page, Sort, find_pages
from portico.resolvers.text import MAX_SLUG, PERMALINK
from portico.resolvers.writes.retries import pause

KIND = "ContentNode"
SECTION, PAGE, ENTRY, PHOTO = "section", "page", "entry", "photo"
FOLDER, BLOG, GALLERY = "FOLDER", "BLOG", "GALLERY"
WITH_TEXT = {PAGE, ENTRY}
# Sections within each other, with what stands in the innermost.
MAX_DEPTH = 16
# Another caller's intent on a node is waited for: it is settled within milliseconds, or by a job.
SETTLING_ATTEMPTS = 100
SETTLING_PAUSE = 0.02

# The slugs from the root down.
Path = tuple[str, ...]

# Sharded by a prefix of the unique key: by parent and slug, as in the source, a new slug would have to move the node
# to another shard. All that stands below one section is on one shard, so its lists ask that shard alone.
NODES = CollectionSpec(
    "cms.nodes",
    shard_key={"parent": 1},
    indexes=[
        IndexModel([("parent", ASCENDING), ("slug", ASCENDING)], unique=True),
        IndexModel([("parent", ASCENDING), ("title", ASCENDING), ("_id", ASCENDING)]),
        IndexModel([("parent", ASCENDING), ("detail.publish_on", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("tags", ASCENDING), ("created", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("pending.at", ASCENDING)], sparse=True),
        IndexModel([("unrevised.at", ASCENDING)], sparse=True),
        IndexModel([("deleting.at", ASCENDING)], sparse=True),
        IndexModel([("detail.upload.until", ASCENDING)], sparse=True),
        IndexModel([("detail.replaced.at", ASCENDING)], sparse=True),
    ],
)

# What tells whether somebody sees a node; a projection holds it.
DISCRIMINATOR = ("type", "visible_from")
BY_TITLE = Sort((("title", 1),))
NEWEST = Sort((("created", -1),))
LATEST_PUBLISHED = Sort((("detail.publish_on", -1),))

_PATH = re.compile(rf"(?:/{PERMALINK}){{1,{MAX_DEPTH}}}")
_LONGEST_PATH = MAX_DEPTH * (1 + MAX_SLUG)


def is_visible(node: Mapping[str, Any], until: datetime | None) -> bool:
    """Whether it is seen by who sees what is visible by `until`, or with None everything."""
    visible_from = node.get("visible_from")
    return until is None or (visible_from is not None and visible_from <= until)


def visible_filter(until: datetime | None) -> Document:
    """The condition of what `is_visible`."""
    return {} if until is None else {"visible_from": {"$lte": until}}


def visible_from(type_: str, detail: Mapping[str, Any], created: datetime) -> datetime | None:
    """When readers see a node first. A photo is seen once its bytes are whole, an entry once it is published."""
    if type_ == ENTRY:
        published: datetime | None = detail.get("publish_on")
        return published
    return None if type_ == PHOTO and detail.get("file") is None else created


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, Document]:
    query: Document = {"_id": ids[0]} if len(ids) == 1 else {"_id": {"$in": list(ids)}}
    return {node["_id"]: node for node in await _find(db, query, projection, len(ids))}


async def find_slugs(db: Database, ids: Sequence[ObjectId]) -> dict[ObjectId, str]:
    return {key: node["slug"] for key, node in (await find_by_ids(db, ids, {"slug": 1})).items()}


def parse_path(text: str) -> Path | None:
    """The slugs in a path such as `/blog/first`; None where no node can have it."""
    return tuple(text[1:].split("/")) if len(text) <= _LONGEST_PATH and _PATH.fullmatch(text) else None


def path_of(node: Mapping[str, Any], slugs: Mapping[ObjectId, str | None]) -> str:
    """The path of a node, with the slugs of its ancestors. One that is just being deleted has none: `?` is no slug."""
    return "".join(f"/{slug}" for slug in (*(slugs.get(key) or "?" for key in node["ancestors"]), node["slug"]))


async def find_by_paths(
    db: Database, paths: Sequence[Path], projection: Projection | None = None
) -> dict[Path, Document]:
    """The nodes at these paths, with their ancestors, by one command a level, however many there are."""
    found: dict[Path, Document] = {(): {"_id": None}}
    # Of what is only on the way no more is read than leads on.
    shown = None if projection is None else {**projection, "parent": 1, "slug": 1, "ancestors": 1}
    for depth in range(1, max(map(len, paths), default=0) + 1):
        level = {path[:depth] for path in paths if path[: depth - 1] in found and len(path) >= depth}
        if not level:
            break
        below: dict[ObjectId, list[str]] = {}
        for path in level:
            below.setdefault(found[path[:-1]]["_id"], []).append(path[-1])
        wanted: Projection | None = shown if level & set(paths) else {"parent": 1, "slug": 1}
        nodes = await _find(db, _any_of(below), wanted, len(level))
        by_place = {(node["parent"], node["slug"]): node for node in nodes}
        found |= {path: by_place[place] for path in level if (place := (found[path[:-1]]["_id"], path[-1])) in by_place}
    return {path: found[path] for path in paths if path in found}


def _any_of(below: Mapping[ObjectId, Sequence[str]]) -> Document:
    """The filter of these slugs below their parents."""
    places = [
        {"parent": parent, "slug": slugs[0] if len(slugs) == 1 else {"$in": sorted(slugs)}}
        for parent, slugs in below.items()
    ]
    # The shard key stands outside of the alternatives, so that the command is routed by it.
    return places[0] if len(places) == 1 else {"parent": {"$in": list(below)}, "$or": places}


async def _find(db: Database, query: Document, projection: Projection | None, count: int) -> list[Document]:
    found = await db[NODES.name].find(query, with_version(projection), batch_size=count + 1).to_list()
    return await upgrade_read(db, NODES, found, projection)


def children_of(section_id: ObjectId, until: datetime | None) -> Listing:
    """What stands right below a section, by title."""
    return Listing({"parent": section_id, **visible_filter(until)}, BY_TITLE, named={"parent": section_id})


def entries_of(section_id: ObjectId, now: datetime) -> Listing:
    """The published entries of a blog, newest first, for everybody."""
    published = {"parent": section_id, "detail.publish_on": {"$lte": now}}
    return Listing(published, LATEST_PUBLISHED, named={"entries": section_id})


def tagged(tag: str, until: datetime | None) -> Listing:
    """The nodes with a tag, newest first."""
    return Listing({"tags": tag, **visible_filter(until)}, NEWEST, named={"tags": tag})


async def find_content_pages(
    db: Database, listings: Sequence[Listing], *, first: int, after: Key | None, projection: Projection | None
) -> list[Page]:
    pages = await find_pages(db[NODES.name], listings, first=first, after=after, projection=projection)
    for page in pages:
        page.documents = await upgrade_read(db, NODES, page.documents, projection)
    return pages


async def find_settled(db: Database, node_id: ObjectId) -> Document | None:
    """The node, whole; None where there is none.

    One that is just being created or deleted is waited for, until it is clear which of the two. One that stays
    unclear, because a crash left it so, counts as absent until a job has settled it.
    """
    for _ in range(SETTLING_ATTEMPTS):
        node = (await find_by_ids(db, [node_id])).get(node_id)
        if node is None or not ("pending" in node or "deleting" in node):
            return node
        await pause(SETTLING_PAUSE)
    return None


async def require_settled(db: Database, node_id: ObjectId) -> Document:
    """As `find_settled`. Raises NotFound."""
    node = await find_settled(db, node_id)
    if node is None:
        raise NotFound(KIND, str(node_id))
    return node
