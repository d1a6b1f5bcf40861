"""Brings stored ancestors up to date, right under concurrency without locks.

Whoever changes a category's name, slug or place brings everything below it up to date afterwards, a level at a time:
first the parents of a level, then their children. A child is written from what was read of its parent, and the parent
is read again afterwards; if it has changed meanwhile the child is written again. So of two changes at once the one
that comes last is the one that stays, and a child that is inserted meanwhile is either seen or sees the change itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence

from bson import ObjectId
from pymongo import UpdateOne

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.sweeps import DAMAGED, SweepFailed

from .categories import CATEGORIES, find_by_ids, lineage_below

_BATCH = 500
_LINEAGE = {"slug": 1, "name": 1, "ancestors": 1}
# Only a tree that is changed faster than it can be read gets so far; its mark stays, and a job goes on.
_MAX_ROUNDS = 50


class LineageUnsettled(Exception):
    """The parents changed faster than their children could be written."""


async def refresh_subtree(db: Database, category_id: ObjectId) -> None:
    """Writes the ancestors of this category and of everything below it anew, where they are not right.

    Writes:   categories; guarded by the parent, a level at a time, top down. May be repeated, and run twice at once.
    Raises:   LineageUnsettled; SweepFailed (below a damaged category), once all others are right.
    """
    level = [category_id]
    visits: Counter[ObjectId] = Counter()
    damaged: list[Exception] = []
    count = 0
    while level:
        below: list[ObjectId] = []
        for start in range(0, len(level), _BATCH):
            batch = level[start : start + _BATCH]
            try:
                await refresh_lineage(db, batch)
            except SweepFailed as failed:
                damaged += failed.exceptions
                count += failed.count
            below += [child async for child in _children(db, batch)]
        # One that moved to a later level meanwhile comes again: it was written from a parent that was not right yet.
        visits.update(below)
        if any(visits[child] > _MAX_ROUNDS for child in below):
            raise LineageUnsettled
        level = below
    if damaged:
        raise SweepFailed.of(damaged, 0, count)


async def refresh_lineage(db: Database, ids: Sequence[ObjectId]) -> set[ObjectId]:
    """Writes the ancestors of these categories anew, from their parents, where they are not right.

    Returns:  those whose parent does not exist; they are left as they are.
    Raises:   LineageUnsettled; SweepFailed (a parent or a category is damaged), once the others are right.
    """
    async for _ in attempts(steps=2):
        nodes = await db[CATEGORIES.name].find({"_id": {"$in": list(ids)}}, {"parent": 1, "ancestors": 1}).to_list()
        parents = await _parents(db, nodes)
        stale, damaged = _corrections(nodes, parents)
        if not stale and damaged:
            raise SweepFailed.of(damaged, 0)
        if not stale:
            return {node["_id"] for node in nodes if node["parent"] is not None and node["parent"] not in parents}
        await db[CATEGORIES.name].bulk_write(stale, ordered=False)
    raise LineageUnsettled


def _corrections(
    nodes: Sequence[Document], parents: dict[ObjectId, Document]
) -> tuple[list[UpdateOne], list[Exception]]:
    """The guarded updates that these nodes need, and what is wrong with those for which nobody can tell."""
    stale: list[UpdateOne] = []
    damaged: list[Exception] = []
    for node in nodes:
        try:
            update = _correction(node, parents)
        except DAMAGED as error:
            error.add_note(f"In {CATEGORIES.name}: {node['_id']!r}, or its parent")
            damaged.append(error)
        else:
            stale += [] if update is None else [update]
    return stale, damaged


async def _parents(db: Database, nodes: Sequence[Document]) -> dict[ObjectId, Document]:
    ids = list({parent for node in nodes if isinstance(parent := node.get("parent"), ObjectId)})
    return await find_by_ids(db, ids, _LINEAGE) if ids else {}


def _correction(node: Document, parents: dict[ObjectId, Document]) -> UpdateOne | None:
    """The guarded update that a node needs, if any. The guard is its parent: a node that moves away is left alone."""
    parent = parents.get(node["parent"])
    if parent is None and node["parent"] is not None:
        return None
    right = lineage_below(parent)
    if node.get("ancestors") == right:
        return None
    return UpdateOne({"_id": node["_id"], "parent": node["parent"]}, {"$set": {"ancestors": right}})


async def _children(db: Database, ids: Sequence[ObjectId]) -> AsyncIterator[ObjectId]:
    async for child in db[CATEGORIES.name].find({"parent": {"$in": list(ids)}}, {"_id": 1}):
        yield child["_id"]
