"""Reads posts along indexes, newest first, with what a page of posts needs of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from portico.resolvers.documents import Database, Document, DocumentId, Projection
from portico.resolvers.paging import MAX_WALKS

from .posts import POSTS

# Where a post is in a list: when it was posted, and its `_id`.
Place = tuple[datetime, DocumentId]
# The comments of a post that a page of posts reads: three, which clients show, and two that may be hidden. More take
# another command. To read ten instead of three takes 7 to 12 % more CPU time for a page.
COMMENTS_READ = 5
# With a filter for 200 authors each, a command reads the newest posts of 20,000.
_WALKS_A_COMMAND = 100
_NEWEST = {"posted": -1, "_id": -1}
_LIVE = {"deleted": None}


def projected(projection: Projection | None) -> Document | None:
    """Returns the projection that keeps of a post what the selection needs.

    Of the comments, it keeps the latest, and `commenters`, the authors of all; see `visibility.people_of`.
    """
    if projection is None:
        return None
    kept: Document = {path: 1 for path in projection if path.split(".")[0] != "comments"}
    added: Document = {"posted": 1, "spilled": 1}
    if len(kept) < len(projection):
        added["commenters"] = "$comments.by.id"
    if "comments" in projection:
        added["comments"] = {"$slice": -COMMENTS_READ}
    return {**kept, **added}


def place_of(post: Mapping[str, Any]) -> Place:
    return post["posted"], post["_id"]


async def find_by_ids(db: Database, ids: Sequence[DocumentId], shown: Document | None) -> dict[DocumentId, Document]:
    """Returns the posts with these ids. Leaves out deleted ones. One command, or none."""
    if not ids:
        return {}
    query = {"_id": {"$in": list(ids)}, **_LIVE}
    found = await db[POSTS.name].find(query, shown, batch_size=len(ids) + 1).to_list()
    return {post["_id"]: post for post in found}


async def find_newest_of_each(
    db: Database, walks: Sequence[Document], shown: Document | None, limit: int
) -> list[list[Document]]:
    """Returns the newest posts that match each of these filters, by one command. Each has an index in this order."""
    if len(walks) == 1:
        query = {**walks[0], **_LIVE}
        only = db[POSTS.name].find(query, shown, sort=list(_NEWEST.items()), limit=limit, batch_size=limit + 1)
        return [await only.to_list()]
    kept: list[Document] = [] if shown is None else [{"$project": _computed(shown)}]
    parts = [
        [*_walk(walk, limit), *kept, {"$replaceWith": {"walk": {"$literal": number}, "post": "$$ROOT"}}]
        for number, walk in enumerate(walks)
    ]
    found: list[list[Document]] = [[] for _ in walks]
    rows = await db[POSTS.name].aggregate(_together(parts), batchSize=len(walks) * limit + 1)
    for row in await rows.to_list():
        found[row["walk"]].append(row["post"])
    return found


async def find_places(db: Database, walks: Sequence[Document], limit: int) -> list[Place]:
    """Returns the newest places of the posts that match any of these filters. One command for up to a hundred filters.

    Each filter has an index in this order. No post matches two of them.
    """
    places: list[Place] = []
    for start in range(0, len(walks), _WALKS_A_COMMAND):
        some = walks[start : start + _WALKS_A_COMMAND]
        parts = [[*_walk(walk, limit), {"$project": {"posted": 1}}] for walk in some]
        stages = parts[0] if len(parts) == 1 else [*_together(parts), {"$sort": _NEWEST}, {"$limit": limit}]
        found = await db[POSTS.name].aggregate(stages, batchSize=limit + 1)
        places += [place_of(post) for post in await found.to_list()]
    return places if len(walks) <= _WALKS_A_COMMAND else sorted(places, reverse=True)[:limit]


def by_authors(authors: Sequence[str], condition: Document) -> list[Document]:
    """Returns filters for the posts of these authors that fulfil a condition.

    The server merges the walks of the authors of a filter. With more authors, it would sort all of their posts.
    """
    parts = [authors[start : start + MAX_WALKS] for start in range(0, len(authors), MAX_WALKS)]
    return [{"by.id": {"$in": part}, **condition} for part in parts]


def _walk(walk: Document, limit: int) -> list[Document]:
    return [{"$match": {**walk, **_LIVE}}, {"$sort": _NEWEST}, {"$limit": limit}]


def _computed(shown: Document) -> Document:
    """Returns the projection of a find as that of an aggregation, where `$slice` takes an array only."""
    if "comments" not in shown:
        return shown
    comments = {"$cond": [{"$isArray": "$comments"}, "$comments", []]}
    return {**shown, "comments": {"$slice": [comments, -COMMENTS_READ]}}


def _together(parts: Sequence[list[Document]]) -> list[Document]:
    unions: list[Document] = [{"$unionWith": {"coll": POSTS.name, "pipeline": part}} for part in parts[1:]]
    return [*parts[0], *unions]
