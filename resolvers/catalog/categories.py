"""The product hierarchy: each category stores its ancestors. The collection and its reads.

The marks `pending`, `refresh`, `moving` and `deleting` record intents: if a crash leaves one,
`category_jobs.finish_changes` finishes the change or rolls it back.

Source: MongoDB Applied Design Patterns, ch. 5, "Category Hierarchy".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.errors import NotFound
from portico.resolvers.paging import Listing, Sort
from portico.resolvers.parts import as_part
from portico.resolvers.texts import words
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import Repeatable
from portico.resolvers.writes.retries import settling

from .images import ListedImage


class Ancestor(TypedDict):
    """An ancestor, as the categories below it store it."""

    _id: ObjectId
    slug: str
    name: str


class Change(TypedDict):
    """The mark of a change in flight."""

    op: str
    at: datetime


class Move(Change):
    """The mark of a move below this parent; None for a move to the roots."""

    to: ObjectId | None


class CategoryDocument(Ancestor, Repeatable):
    """A category. Its slug is unique in the whole hierarchy."""

    # None for a root.
    parent: ObjectId | None
    # Root first, without the category itself.
    ancestors: list[Ancestor]
    # The words of the name. It is missing in documents of version 1 that are not upgraded yet.
    words: NotRequired[list[str]]
    description: NotRequired[str | None]
    images: NotRequired[list[ListedImage]]
    # Created, but its parent is not confirmed yet.
    pending: NotRequired[Change]
    # Renamed or moved, but its subtree is not updated yet. `at` is the time of the change, or of the next retry by a
    # job if a category below is damaged.
    refresh: NotRequired[list[Change]]
    # About to move, or to be deleted if nothing is below it.
    moving: NotRequired[Move]
    deleting: NotRequired[Change]


def upgrade_category(document: Document) -> Document:
    """Upgrades a document of version 1, which has no words."""
    return {**document, "words": words(document["name"])}


# The collection is small and stays on one shard; a unique index on the slug could not span several shards.
CATEGORIES = CollectionSpec(
    "categories",
    document=CategoryDocument,
    version=2,
    upgrade=upgrade_category,
    indexes=[
        IndexModel([("words", ASCENDING)]),
        IndexModel([("schema_version", ASCENDING)]),
        IndexModel([("slug", ASCENDING)], unique=True),
        IndexModel([("parent", ASCENDING), ("name", ASCENDING), ("_id", ASCENDING)]),
        IndexModel([("ancestors._id", ASCENDING), ("name", ASCENDING), ("_id", ASCENDING)]),
        IndexModel([("moving.to", ASCENDING)], sparse=True),
        IndexModel([("pending.at", ASCENDING)], sparse=True),
        IndexModel([("refresh.at", ASCENDING)], sparse=True),
        IndexModel([("moving.at", ASCENDING)], sparse=True),
        IndexModel([("deleting.at", ASCENDING)], sparse=True),
    ],
)

BY_NAME = Sort((("name", 1),))
# What tells whether a category is usable.
_STATE = {"deleting": 1, "pending": 1}


async def find_by_slugs(
    db: Database, slugs: Sequence[str], projection: Projection | None = None
) -> dict[str, CategoryDocument]:
    wanted = None if projection is None else {**projection, "slug": 1}
    query = {"slug": {"$in": list(slugs)}}
    found = await CATEGORIES.of(db).find(query, wanted, batch_size=len(slugs) + 1).to_list()
    return {category["slug"]: category for category in found}


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, CategoryDocument]:
    query = {"_id": {"$in": list(ids)}}
    found = await CATEGORIES.of(db).find(query, projection, batch_size=len(ids) + 1).to_list()
    return {category["_id"]: category for category in found}


def children_of(category_id: ObjectId | None) -> Listing:
    """Returns the listing of the direct children of this category, by name; with None the roots."""
    return Listing({"parent": category_id}, BY_NAME)


def descendants_of(category_id: ObjectId) -> Listing:
    """Returns the listing of the categories below this one at any depth, by name."""
    return Listing({"ancestors._id": category_id}, BY_NAME)


async def find_descendant_ids(db: Database, ids: Sequence[ObjectId], *, most: int) -> dict[ObjectId, list[ObjectId]]:
    """Returns the ids of the descendants of each category, by one command, from one index. Reads up to `most`."""
    return await as_part(db, lambda db: _find_descendant_ids(db, ids, most))


async def _find_descendant_ids(db: Database, ids: Sequence[ObjectId], most: int) -> dict[ObjectId, list[ObjectId]]:
    below: dict[ObjectId, list[ObjectId]] = {category_id: [] for category_id in ids}
    query = {"ancestors._id": {"$in": list(ids)}}
    found = CATEGORIES.of(db).find(query, {"ancestors._id": 1}, limit=most, batch_size=most + 1)
    async for category in found:
        for ancestor in category["ancestors"]:
            if ancestor["_id"] in below:
                below[ancestor["_id"]].append(category["_id"])
    return below


def lineage_below(category: CategoryDocument | None) -> list[Ancestor]:
    """Returns the ancestors of this category's children; with None the ancestors of roots."""
    if category is None:
        return []
    return [*category["ancestors"], {"_id": category["_id"], "slug": category["slug"], "name": category["name"]}]


async def find_usable(
    db: Database, ids: Iterable[ObjectId], *, are_whole: bool = True
) -> dict[ObjectId, CategoryDocument]:
    """Returns those of the categories that can get children or products, as whole documents unless told otherwise.

    Waits for categories that are being created or deleted. If a crash has left such a category, it is not usable until
    a job has settled it.
    """
    wanted = list(dict.fromkeys(ids))
    usable: dict[ObjectId, CategoryDocument] = {}
    async for _ in settling():
        found = await find_by_ids(db, wanted, None if are_whole else _STATE)
        usable = {key: one for key, one in found.items() if "deleting" not in one and "pending" not in one}
        if len(usable) == len(found):
            break
    return usable


async def require_usable(db: Database, ids: Iterable[ObjectId]) -> dict[ObjectId, CategoryDocument]:
    """Returns the categories like `find_usable`. Raises NotFound if one of them is missing."""
    wanted = list(dict.fromkeys(ids))
    found = await find_usable(db, wanted) if wanted else {}
    for category_id in wanted:
        if category_id not in found:
            raise NotFound("Category", str(category_id))
    return found
