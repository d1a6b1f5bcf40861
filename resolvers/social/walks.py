"""Reads posts along indexes, the newest or the oldest first, with what a page of posts needs of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from portico.resolvers.documents import Database, Document, DocumentId, Projection
from portico.resolvers.paging import MAX_WALKS

from .posts import POSTS

T = TypeVar("T")
# Where a post is in a list: when it was posted, and its `_id`.
Place = tuple[datetime, DocumentId]
# The comments of a post that a page of posts reads: three, which clients show, and two that may be hidden. More take
# another command. To read ten instead of three takes 7 to 12 % more CPU time for a page.
COMMENTS_READ = 5
# With a filter for 200 authors each, a command reads the newest posts of 20,000.
WALKS_A_COMMAND = 100
# The directions of a read. An index serves both.
NEWEST_FIRST, OLDEST_FIRST = -1, 1
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


async def find_first(
    db: Database,
    lists: Sequence[Sequence[Document]],
    shown: Document | None,
    limit: int,
    direction: int = NEWEST_FIRST,
) -> list[list[Document]]:
    """Returns the first posts of each list: those that match any of its filters. Each has an index in this order.

    Two filters of a list can match the same post, which is then in the list twice. One command for up to a hundred
    filters.
    """
    found: list[list[Document]] = []
    for parts in _a_command(lists):
        found += await _find_together(db, parts, shown, limit, direction)
    # The filters of a list may be in several commands.
    nearest: list[list[Document]] = []
    for filters in lists:
        rows = [row for _ in range(0, len(filters), WALKS_A_COMMAND) for row in found.pop(0)]
        nearest.append(rows if len(filters) <= WALKS_A_COMMAND else in_order(rows, direction, place_of)[:limit])
    return nearest


def in_order(rows: Iterable[T], direction: int, place: Callable[[T], Place]) -> list[T]:
    """Returns the rows by their places, in this direction."""
    return sorted(rows, key=place, reverse=direction == NEWEST_FIRST)


def _a_command(lists: Sequence[Sequence[Document]]) -> list[list[Sequence[Document]]]:
    """Returns the filters of each command, by list."""
    commands: list[list[Sequence[Document]]] = []
    free = 0
    for filters in lists:
        for start in range(0, len(filters), WALKS_A_COMMAND):
            part = filters[start : start + WALKS_A_COMMAND]
            if len(part) > free:
                commands.append([])
                free = WALKS_A_COMMAND
            commands[-1].append(part)
            free -= len(part)
    return commands


async def _find_together(
    db: Database, lists: Sequence[Sequence[Document]], shown: Document | None, limit: int, direction: int
) -> list[list[Document]]:
    order = _order(direction)
    if len(lists) == 1 and len(lists[0]) == 1:
        query = {**lists[0][0], **_LIVE}
        only = db[POSTS.name].find(query, shown, sort=list(order.items()), limit=limit, batch_size=limit + 1)
        return [await only.to_list()]
    parts = [
        [*_merged(filters, shown, limit, order), {"$replaceWith": {"list": {"$literal": number}, "post": "$$ROOT"}}]
        for number, filters in enumerate(lists)
    ]
    found: list[list[Document]] = [[] for _ in lists]
    rows = await db[POSTS.name].aggregate(together(POSTS.name, parts), batchSize=len(lists) * limit + 1)
    for row in await rows.to_list():
        found[row["list"]].append(row["post"])
    return found


def _order(direction: int) -> Document:
    return {"posted": direction, "_id": direction}


def _merged(filters: Sequence[Document], shown: Document | None, limit: int, order: Document) -> list[Document]:
    kept: list[Document] = [] if shown is None else [{"$project": _computed(shown)}]
    parts = [[*_walk(one, limit, order), *kept] for one in filters]
    return parts[0] if len(parts) == 1 else [*together(POSTS.name, parts), {"$sort": order}, {"$limit": limit}]


async def find_places(db: Database, filters: Sequence[Document], limit: int, direction: int) -> list[Place]:
    """Returns the first places of the posts that match any of these filters: see `find_first`."""
    [found] = await find_first(db, [filters], {"posted": 1}, limit, direction)
    return [place_of(post) for post in found]


def by_authors(
    authors: Sequence[str], condition: Document, *, path: str = "by.id", most: int = MAX_WALKS
) -> list[Document]:
    """Returns filters for the posts of these authors that fulfil a condition.

    The server merges the walks of the authors of a filter. With more authors, it would sort all of their posts.
    """
    parts = [authors[start : start + most] for start in range(0, len(authors), most)]
    return [{**condition, path: {"$in": part}} for part in parts]


def _walk(walk: Document, limit: int, order: Document) -> list[Document]:
    return [{"$match": {**walk, **_LIVE}}, {"$sort": order}, {"$limit": limit}]


def _computed(shown: Document) -> Document:
    """Returns the projection of a find as that of an aggregation, where `$slice` takes an array only."""
    if "comments" not in shown:
        return shown
    comments = {"$cond": [{"$isArray": "$comments"}, "$comments", []]}
    return {**shown, "comments": {"$slice": [comments, -COMMENTS_READ]}}


def together(collection: str, parts: Sequence[list[Document]]) -> list[Document]:
    """Returns the stages with the results of all parts, which have at least one."""
    unions: list[Document] = [{"$unionWith": {"coll": collection, "pipeline": part}} for part in parts[1:]]
    return [*parts[0], *unions]
