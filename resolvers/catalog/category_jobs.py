"""Finishes or rolls back interrupted writes to the hierarchy, and checks the whole hierarchy."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable
from datetime import datetime, timedelta
from functools import partial

from portico.resolvers.catalog.refusals import CategoryNotEmpty
from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database
from portico.resolvers.errors import NotFound
from portico.resolvers.problems import Problem
from portico.resolvers.writes.sweeps import SweepFailed, sweep

from . import category_edits
from .categories import CATEGORIES, CategoryDocument, find_by_ids, lineage_below
from .category_lineage import LineageUnsettled, refresh_subtree

# Each attempt reads the whole subtree, and a damaged category stays damaged until an operator repairs it.
_DAMAGED_AGAIN_AFTER = timedelta(minutes=10)
_NAME = Problem.named("category", "slug")


async def finish_changes(db: Database, *, now: datetime) -> int:
    """Settles every mark that is older than five seconds. Returns how many.

    If a category below a renamed or moved one is damaged, the next attempt follows after ten minutes.

    Raises:   SweepFailed after all marks, if some have failed.
    """
    before = now - Job.STALE_AFTER

    def settle_all(mark: str) -> Awaitable[int]:
        return sweep(db, CATEGORIES, {f"{mark}.at": {"$lte": before}}, partial(_try_settle, db, mark, now))

    return await Job.in_sequence(*(partial(settle_all, mark) for mark in ("pending", "moving", "deleting", "refresh")))


async def _try_settle(db: Database, mark: str, now: datetime, category: CategoryDocument) -> int:
    with contextlib.suppress(NotFound, CategoryNotEmpty, LineageUnsettled):
        await _settle(db, category, mark, now)
        return 1
    return 0


async def _settle(db: Database, category: CategoryDocument, mark: str, now: datetime) -> None:
    categories = db[CATEGORIES.name]
    if mark == "pending":
        await category_edits.confirm_created(db, category)
    elif mark == "moving":
        guard = {"_id": category["_id"], "moving.op": category["moving"]["op"]}
        await categories.update_one(guard, {"$unset": {"moving": ""}})
    elif mark == "deleting":
        operation_id = category["deleting"]["op"]
        await category_edits.finish_delete(db, category["_id"], operation_id, parent_id=category["parent"], now=now)
    else:
        await _refresh(db, category, now)


async def _refresh(db: Database, category: CategoryDocument, now: datetime) -> None:
    """Updates a subtree. Raises LineageUnsettled; SweepFailed (a category is damaged), and postpones the marks."""
    # Only the marks that were set before it began: this pass can miss later changes.
    seen = {"op": {"$in": [change["op"] for change in category["refresh"]]}}
    mine = {"_id": category["_id"]}
    try:
        await refresh_subtree(db, category["_id"])
    except SweepFailed:
        later = {"$set": {"refresh.$[seen].at": now + _DAMAGED_AGAIN_AFTER}}
        await db[CATEGORIES.name].update_one(mine, later, array_filters=[{"seen.op": seen["op"]}])
        raise
    await db[CATEGORIES.name].update_one(mine, {"$pull": {"refresh": seen}})


async def find_wrong_lineages(db: Database) -> AsyncIterator[Problem]:
    """Yields the categories whose parent is missing, or whose ancestors are not the parent's ancestors plus the parent.

    If this holds for each category and its parent, it holds for the whole chain.
    """
    found = CATEGORIES.of(db).find({}, {"slug": 1, "parent": 1, "ancestors": 1})
    async for problem in Problem.all_in(found, partial(_wrong_in, db), _NAME):
        yield problem


async def _wrong_in(db: Database, batch: list[CategoryDocument]) -> AsyncIterator[Problem]:
    ids = list({category["parent"] for category in batch if category["parent"] is not None})
    parents = await find_by_ids(db, ids, {"slug": 1, "name": 1, "ancestors": 1})
    for category in batch:
        parent = None if category["parent"] is None else parents.get(category["parent"])
        if category["parent"] is not None and parent is None:
            yield Problem(_NAME(category), "its parent does not exist")
        elif category["ancestors"] != lineage_below(parent):
            again = partial(refresh_subtree, db, category["_id"])
            yield Problem(_NAME(category), "its ancestors are out of date", again)
