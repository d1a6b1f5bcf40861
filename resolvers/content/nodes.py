"""The nodes of the site: sections, pages, blog entries and photos, in one collection. Their reads and visibility.

The marks `pending`, `unrevised` and `deleting` are records of intent: after a crash, `jobs` finishes or undoes them.

Only sections have children, and all sections are visible. Therefore, the visibility of a node does not depend on its
ancestors.

Source: MongoDB Applied Design Patterns, ch. 6, "Metadata and Asset Management". There, the fields are below `metadata`,
photos are in a separate collection, and a photo and a page can have the same path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers import keyed
from portico.resolvers.documents import (
    Author,
    CollectionSpec,
    Database,
    Document,
    Projection,
    upgrade_read,
    with_version,
)
from portico.resolvers.errors import NotFound
from portico.resolvers.hints import with_hint
from portico.resolvers.paging import Key, Listing, Page, Sort
from portico.resolvers.texts import MAX_SLUG, words
from portico.resolvers.typed import TypedDict
from portico.resolvers.typed_text import near, plain
from portico.resolvers.writes.marks import Repeatable
from portico.resolvers.writes.retries import settling

KIND = "ContentNode"
SECTION, PAGE, ENTRY, PHOTO = "section", "page", "entry", "photo"
FOLDER, BLOG, GALLERY = "FOLDER", "BLOG", "GALLERY"
WITH_TEXT = {PAGE, ENTRY}
# The largest number of slugs in a path.
MAX_DEPTH = 16

# The index of the children of a node by slug.
_BY_SLUG = "parent_1_slug_1"
# The slugs from the root down.
Path = tuple[str, ...]


class Upload(TypedDict):
    """An upload in progress, the file that it writes, and when its lock expires."""

    op: str
    file: ObjectId
    until: datetime


class Replaced(TypedDict):
    """A previous file of a photo, to be deleted."""

    file: ObjectId
    at: datetime


class Detail(TypedDict):
    """The fields of a node's type."""

    # Of a section: `FOLDER`, `BLOG` or `GALLERY`.
    kind: NotRequired[str]
    # Of a page and an entry: CommonMark.
    text: NotRequired[str]
    # Of an entry: when it is published; None for a draft.
    publish_on: NotRequired[datetime | None]
    # Of a photo: the _id in GridFS, None until the first upload is complete; then the facts about the file: bytes,
    # pixels, and the SHA-256 in hexadecimal.
    file: NotRequired[ObjectId | None]
    content_type: NotRequired[str]
    length: NotRequired[int]
    width: NotRequired[int]
    height: NotRequired[int]
    checksum: NotRequired[str]
    # When the upload in progress began, for clients. It is set and removed together with `upload`.
    locked: NotRequired[datetime | None]
    upload: NotRequired[Upload]
    replaced: NotRequired[list[Replaced]]


class Change(TypedDict):
    """The mark of a change in flight."""

    op: str
    at: datetime


class Unrevised(TypedDict):
    """The mark of a text that is not copied to the revisions yet, with the author of the edit."""

    at: datetime
    author: Author


class Titled(TypedDict):
    """What a node stores of its title."""

    title: str
    # The plain words of the title, each once.
    words: list[str]
    # What finds the title by a typo.
    near: list[str]


class NodeDocument(Titled, Repeatable):
    """A node. Times are UTC."""

    _id: ObjectId
    # `section`, `page`, `entry` or `photo`.
    type: str
    # Unique below its parent.
    slug: str
    # None at the root. A node is never moved.
    parent: ObjectId | None
    # From the root down to the parent, so that building a path takes one read of slugs.
    ancestors: list[ObjectId]
    created: datetime
    # The last edit, including edits of tags.
    updated: datetime
    author: Author
    # A set, the oldest first.
    tags: list[str]
    # Changed by every edit except edits of tags. `revision` counts the nonces, from 1.
    nonce: str
    revision: int
    # Readers see the node from then on. None: only EDITORs see it. It follows from `type` and `detail`.
    visible_from: datetime | None
    detail: Detail
    # Created, but the parent is not confirmed yet.
    pending: NotRequired[Change]
    unrevised: NotRequired[Unrevised]
    # Being deleted, unless it has children.
    deleting: NotRequired[Change]


def words_of(title: str) -> list[str]:
    """Returns the plain words of a title, each once, by which people find it."""
    return list(dict.fromkeys(one for one in map(plain, words(title)) if one))


def titled(title: str) -> Titled:
    """Returns what a node stores of its title: the title, its words, and what finds these by a typo."""
    found = words_of(title)
    return {"title": title, "words": found, "near": near(found)}


def _upgrade(node: Document) -> Document:
    """Upgrades a node of version 1, which has no words, or of version 2, which is found by no typo."""
    return {**node, **titled(node["title"])}


# Sharded by a prefix of the unique key. With parent and slug, as in the source, changing a slug would move the node to
# another shard. All children of a section are on one shard, so that listing them asks only that shard.
NODES = CollectionSpec(
    "cms.nodes",
    document=NodeDocument,
    # The children of a section are on one shard.
    shard_key={"parent": 1},
    indexes=[
        IndexModel([("parent", ASCENDING), ("slug", ASCENDING)], unique=True),
        IndexModel([("parent", ASCENDING), ("title", ASCENDING), ("_id", ASCENDING)]),
        # The sections at the root.
        IndexModel(
            [("parent", ASCENDING), ("type", ASCENDING), ("title", ASCENDING), ("_id", ASCENDING)],
            partialFilterExpression={"type": SECTION},
        ),
        IndexModel([("parent", ASCENDING), ("detail.publish_on", DESCENDING), ("_id", DESCENDING)]),
        # What comes next: live lists run again then.
        IndexModel([("visible_from", ASCENDING)]),
        IndexModel([("detail.publish_on", ASCENDING)], sparse=True),
        IndexModel([("tags", ASCENDING), ("created", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("words", ASCENDING)], sparse=True),
        IndexModel([("near", ASCENDING)], sparse=True),
        IndexModel([("pending.at", ASCENDING)], sparse=True),
        IndexModel([("unrevised.at", ASCENDING)], sparse=True),
        IndexModel([("deleting.at", ASCENDING)], sparse=True),
        IndexModel([("detail.upload.until", ASCENDING)], sparse=True),
        IndexModel([("detail.replaced.at", ASCENDING)], sparse=True),
        # The nodes of an older version.
        IndexModel([("schema_version", ASCENDING)]),
    ],
    version=3,
    upgrade=_upgrade,
)

# The fields that determine the type and the visibility of a node. Every projection contains them.
DISCRIMINATOR = ("type", "visible_from")
BY_TITLE = Sort((("title", 1),))
NEWEST = Sort((("created", -1),))
LATEST_PUBLISHED = Sort((("detail.publish_on", -1),))

# The slug of a node. It is lenient because imported content keeps its address.
PERMALINK = r"[A-Za-z0-9]+(?:[-_.]+[A-Za-z0-9]+)*"
_PATH = re.compile(rf"(?:/{PERMALINK}){{1,{MAX_DEPTH}}}")
_PARENTS_A_COMMAND = 100
_LONGEST_PATH = MAX_DEPTH * (1 + MAX_SLUG)


def is_visible(node: Mapping[str, Any], until: datetime | None) -> bool:
    """Returns whether the node is visible by `until`. With `until` None, every node is visible."""
    visible_from = node.get("visible_from")
    return until is None or (visible_from is not None and visible_from <= until)


def visible_filter(until: datetime | None) -> Document:
    """Returns the filter that corresponds to `is_visible`."""
    return {} if until is None else {"visible_from": {"$lte": until}}


def is_uploading(node: Mapping[str, Any], now: datetime) -> bool:
    """Returns whether an upload to the photo is in progress."""
    upload = node.get("detail", {}).get("upload")
    return upload is not None and bool(upload["until"] > now)


def visible_from(type_: str, detail: Mapping[str, Any], created: datetime) -> datetime | None:
    """Returns from when readers see a node: a photo after its first upload, an entry from its publication."""
    if type_ == ENTRY:
        published: datetime | None = detail.get("publish_on")
        return published
    return None if type_ == PHOTO and detail.get("file") is None else created


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, NodeDocument]:
    query: Document = {"_id": ids[0]} if len(ids) == 1 else {"_id": {"$in": list(ids)}}
    return {node["_id"]: node for node in await _find(db, query, projection, len(ids))}


async def find_slugs(db: Database, ids: Sequence[ObjectId]) -> dict[ObjectId, str]:
    return {key: node["slug"] for key, node in (await find_by_ids(db, ids, {"slug": 1})).items()}


def parse_path(text: str) -> Path | None:
    """Returns the slugs of a path such as `/blog/first`, or None if no node can have this path."""
    return tuple(text[1:].split("/")) if len(text) <= _LONGEST_PATH and _PATH.fullmatch(text) else None


def path_of(node: Mapping[str, Any], slugs: Mapping[ObjectId, str | None]) -> str:
    """Returns the path of a node. An ancestor without a slug, because it is being deleted, appears as `?`."""
    return "".join(f"/{slug}" for slug in (*(slugs.get(key) or "?" for key in node["ancestors"]), node["slug"]))


async def find_by_paths(
    db: Database, paths: Sequence[Path], projection: Projection | None = None
) -> dict[Path, NodeDocument]:
    """Finds the nodes at these paths, with one command for each level of the paths."""
    found: dict[Path, Any] = {(): {"_id": None}}
    # Reads only the place of nodes that are only ancestors.
    shown = None if projection is None else {**projection, "parent": 1, "slug": 1, "ancestors": 1}
    for depth in range(1, max(map(len, paths), default=0) + 1):
        level = {path[:depth] for path in paths if path[: depth - 1] in found and len(path) >= depth}
        if not level:
            break
        below: dict[ObjectId, list[str]] = {}
        for path in level:
            below.setdefault(found[path[:-1]]["_id"], []).append(path[-1])
        wanted: Projection | None = shown if level & set(paths) else {"parent": 1, "slug": 1}
        nodes = await _find_at(db, below, wanted, len(level))
        by_place = {(node["parent"], node["slug"]): node for node in nodes}
        found |= {path: by_place[place] for path in level if (place := (found[path[:-1]]["_id"], path[-1])) in by_place}
    return {path: found[path] for path in paths if path in found}


def _any_of(below: Mapping[ObjectId, Sequence[str]]) -> Document:
    """Returns the filter for these slugs below their parents."""
    places = [
        {"parent": parent, "slug": slugs[0] if len(slugs) == 1 else {"$in": sorted(slugs)}}
        for parent, slugs in below.items()
    ]
    # The shard key is outside of `$or`, so that the server can route the command.
    return places[0] if len(places) == 1 else {"parent": {"$in": list(below)}, "$or": places}


async def _find_at(
    db: Database, below: Mapping[ObjectId, Sequence[str]], projection: Projection | None, count: int
) -> list[NodeDocument]:
    """Returns the nodes with these slugs below their parents.

    Below one parent, it names the index: for many slugs, MongoDB would choose to read all children of the parent.
    """
    query = _any_of(below)
    if len(below) > 1:
        return await _find(db, query, projection, count)

    async def read(**options: Any) -> list[NodeDocument]:
        found = NODES.of(db).find(query, with_version(projection), batch_size=count + 1, **options)
        return await found.to_list()

    return await upgrade_read(db, NODES, await with_hint(_BY_SLUG, read), projection)


async def _find(db: Database, query: Document, projection: Projection | None, count: int) -> list[NodeDocument]:
    found = await NODES.of(db).find(query, with_version(projection), batch_size=count + 1).to_list()
    return await upgrade_read(db, NODES, found, projection)


def children_of(section_id: ObjectId | None, until: datetime | None) -> Listing:
    """Returns the listing of the children of a section, or of all nodes at the root, by title."""
    return Listing({"parent": section_id, **visible_filter(until)}, BY_TITLE, named={"parent": section_id})


def root_sections(until: datetime | None) -> Listing:
    """Returns the listing of the sections at the root, by title."""
    return Listing({"parent": None, "type": SECTION, **visible_filter(until)}, BY_TITLE, named={"sections of": None})


def entries_of(section_id: ObjectId, now: datetime) -> Listing:
    """Returns the listing of the published entries of a blog, newest first."""
    published = {"parent": section_id, "detail.publish_on": {"$lte": now}}
    return Listing(published, LATEST_PUBLISHED, named={"entries": section_id})


def tagged(tag: str, until: datetime | None) -> Listing:
    """Returns the listing of the nodes with a tag, newest first."""
    return Listing({"tags": tag, **visible_filter(until)}, NEWEST, named={"tags": tag})


async def find_content_pages(
    db: Database, listings: Sequence[Listing], *, first: int, after: Key | None, projection: Projection | None
) -> list[Page[NodeDocument]]:
    return await keyed.find_pages(db, NODES, listings, first=first, after=after, projection=projection)


async def find_with_children(db: Database, ids: Sequence[ObjectId]) -> dict[ObjectId, bool]:
    """Returns whether each of these nodes has children. One command for up to a hundred."""
    found: dict[ObjectId, bool] = dict.fromkeys(ids, False)
    for start in range(0, len(ids), _PARENTS_A_COMMAND):
        parts: list[list[Document]] = [
            [{"$match": {"parent": node_id}}, {"$limit": 1}, {"$project": {"_id": 0, "parent": 1}}]
            for node_id in ids[start : start + _PARENTS_A_COMMAND]
        ]
        unions: list[Document] = [{"$unionWith": {"coll": NODES.name, "pipeline": part}} for part in parts[1:]]
        rows = await db[NODES.name].aggregate([*parts[0], *unions], batchSize=len(parts) + 1)
        found |= {row["parent"]: True for row in await rows.to_list()}
    return found


async def find_settled(db: Database, node_id: ObjectId) -> NodeDocument | None:
    """Finds a node, with all fields. Returns None if there is none.

    Waits while the node is being created or deleted. After a crash, such a node counts as missing until a job has
    finished or undone the write.
    """
    async for _ in settling():
        node = (await find_by_ids(db, [node_id])).get(node_id)
        if node is None or not ("pending" in node or "deleting" in node):
            return node
    return None


async def require_settled(db: Database, node_id: ObjectId) -> NodeDocument:
    """Finds a node as `find_settled` does. Raises NotFound if there is none."""
    node = await find_settled(db, node_id)
    if node is None:
        raise NotFound(KIND, str(node_id))
    return node
