"""Updates stored ancestors, correct under concurrency without locks.

A write that changes a category's name, slug or parent updates everything below the category afterwards:

1. It goes down level by level: first the parents of a level, then their children.
2. It writes a child from what it has read of the parent, then reads the parent again. If the parent has changed, it
   writes the child again.

So the last of two concurrent changes prevails. A child that is inserted at the same time is either seen by the update,
or its own writer sees the change.

The update that renames or moves a category also adds the mark `refresh`, which is removed at the end. After a crash the
mark remains, and a job starts again: every step can be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence

from bson import ObjectId
from pymongo import UpdateOne

from portico.resolvers.documents import Database
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.sweeps import DAMAGED, SweepFailed

from .categories import CATEGORIES, CategoryDocument, find_by_ids, lineage_below

_BATCH = 500
_LINEAGE = {"slug": 1, "name": 1, "ancestors": 1}
# Reached only if the tree changes faster than it can be read. The mark then stays, and a job continues.
_MAX_ROUNDS = 50


class LineageUnsettled(Exception):
    """The parents changed faster than their children could be updated."""


async def refresh_subtree(db: Database, category_id: ObjectId) -> None:
    """Corrects the stored ancestors of this category and of everything below it.

    Writes:   categories; guarded by the parent, level by level from the top. Idempotent, also when run concurrently.
    Raises:   LineageUnsettled; SweepFailed (a category is damaged), after all others are correct.
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
        # A category that moved to a later level is visited again: its parent was not correct yet.
        visits.update(below)
        if any(visits[child] > _MAX_ROUNDS for child in below):
            raise LineageUnsettled
        level = below
    if damaged:
        raise SweepFailed.of(damaged, 0, count)


async def refresh_lineage(db: Database, ids: Sequence[ObjectId]) -> set[ObjectId]:
    """Corrects the stored ancestors of these categories from their parents.

    Returns:  the categories whose parent does not exist; they stay unchanged.
    Raises:   LineageUnsettled; SweepFailed (a parent or a category is damaged), after the others are correct.
    """
    async for _ in attempts(steps=2):
        nodes = await CATEGORIES.of(db).find({"_id": {"$in": list(ids)}}, {"parent": 1, "ancestors": 1}).to_list()
        parents = await _parents(db, nodes)
        stale, damaged = _corrections(nodes, parents)
        if not stale and damaged:
            raise SweepFailed.of(damaged, 0)
        if not stale:
            return {node["_id"] for node in nodes if node["parent"] is not None and node["parent"] not in parents}
        await db[CATEGORIES.name].bulk_write(stale, ordered=False)
    raise LineageUnsettled


def _corrections(
    nodes: Sequence[CategoryDocument], parents: dict[ObjectId, CategoryDocument]
) -> tuple[list[UpdateOne], list[Exception]]:
    """Returns the guarded updates that these nodes need, and the errors of damaged nodes."""
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


async def _parents(db: Database, nodes: Sequence[CategoryDocument]) -> dict[ObjectId, CategoryDocument]:
    ids = list({parent for node in nodes if isinstance(parent := node.get("parent"), ObjectId)})
    return await find_by_ids(db, ids, _LINEAGE) if ids else {}


def _correction(node: CategoryDocument, parents: dict[ObjectId, CategoryDocument]) -> UpdateOne | None:
    """Returns the update that a node needs, if any. Its guard is the parent, so it ignores nodes that have moved."""
    parent = None if node["parent"] is None else parents.get(node["parent"])
    if parent is None and node["parent"] is not None:
        return None
    right = lineage_below(parent)
    if node.get("ancestors") == right:
        return None
    return UpdateOne({"_id": node["_id"], "parent": node["parent"]}, {"$set": {"ancestors": right}})


async def _children(db: Database, ids: Sequence[ObjectId]) -> AsyncIterator[ObjectId]:
    async for child in CATEGORIES.of(db).find({"parent": {"$in": list(ids)}}, {"_id": 1}):
        yield child["_id"]
