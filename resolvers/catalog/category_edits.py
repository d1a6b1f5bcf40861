"""Writes to the product hierarchy. None of them locks, and none needs a transaction.

Two writers that could spoil each other's work each leave a mark of their intent before they look: whoever puts
something below a category inserts it, then looks whether the category is (still) there; whoever deletes a category
marks it, then looks whether something is below it. At least one of the two sees the other. Marks that a crash leaves
are settled by `category_jobs`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import SCHEMA_VERSION, Database, Document
from portico.resolvers.errors import CategoryCycle, CategoryNotEmpty, Conflict, NotFound, SlugTaken
from portico.resolvers.text import require_slug, require_text
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.retries import attempts, pause
from portico.resolvers.writes.sweeps import SweepFailed

from . import products
from .categories import CATEGORIES, SETTLING_ATTEMPTS, SETTLING_PAUSE, find_usable, lineage_below, require_usable
from .category_lineage import LineageUnsettled, refresh_lineage, refresh_subtree

MAX_NAME = 200
# Two moves that stand in each other's way both step back, and try again at different times.
_MOVE_ATTEMPTS = 8
_UNMARKED: Document = {"pending": None, "deleting": None}


async def create_category(
    db: Database, *, name: str, slug: str, parent_id: ObjectId | None, now: datetime, operation_id: str
) -> Document:
    """Puts a new category below its parent, whole, with its ancestors.

    Returns:  the category.
    Raises:   InvalidInput, SlugTaken, NotFound (parent).
    Writes:   categories; one insert, then the removal of its mark, or of itself where the parent went meanwhile.
    """
    category_id = idempotency.derived_id(operation_id, "category")
    document: Document = {
        "_id": category_id,
        "slug": require_slug(slug, "slug"),
        "name": require_text(name, "name", longest=MAX_NAME),
        "parent": parent_id,
        "ancestors": [],
        SCHEMA_VERSION: CATEGORIES.version,
    }
    mine = await _created_before(db, category_id) if idempotency.is_repeatable(operation_id) else None
    if mine is None:
        await idempotency.require_not_done(db, operation_id, NotFound("Category", str(category_id)))
        if parent_id is not None:
            parents = await require_usable(db, [parent_id])
            document["ancestors"] = lineage_below(parents[parent_id])
            document["pending"] = {"op": operation_id, "at": now}
        mine = await _insert(db, document)
    await idempotency.note(db, operation_id, done=True)
    return await confirm_created(db, mine) if "pending" in mine else mine


async def _insert(db: Database, document: Document) -> Document:
    try:
        await db[CATEGORIES.name].insert_one(document)
    except DuplicateKeyError:
        mine = await _created_before(db, document["_id"])
        if mine is None:
            raise SlugTaken(document["slug"]) from None
        return mine
    return document


async def _created_before(db: Database, category_id: ObjectId) -> Document | None:
    return await db[CATEGORIES.name].find_one({"_id": category_id})


async def confirm_created(db: Database, category: Document) -> Document:
    """Makes a created category final, or undoes it where its parent is gone. May be repeated."""
    category_id = category["_id"]
    usable = await find_usable(db, [category["parent"]])
    orphans = await refresh_lineage(db, [category_id])
    mine = {"_id": category_id, "pending.op": category["pending"]["op"]}
    if not usable or orphans:
        deleted = (await db[CATEGORIES.name].delete_one(mine)).deleted_count
        if deleted or not await _is_there(db, category_id):
            raise NotFound("Category", str(category["parent"]))
    await db[CATEGORIES.name].update_one(mine, {"$unset": {"pending": ""}})
    return await _require(db, category_id)


async def rename_category(
    db: Database, *, category_id: ObjectId, name: str | None, slug: str | None, now: datetime, operation_id: str
) -> Document:
    """Changes the name, the slug, or both, also where they are stored in the categories below.

    Returns:  the category.
    Raises:   InvalidInput, NotFound, SlugTaken, Conflict (others kept changing the category).
    Writes:   categories; one guarded update, then the subtree, then the removal of the mark.
    """
    changes: Document = {}
    if name is not None:
        changes["name"] = require_text(name, "name", longest=MAX_NAME)
    if slug is not None:
        changes["slug"] = require_slug(slug, "slug")
    if not changes:
        return await _require(db, category_id)
    async for _ in attempts():
        if await _try_rename(db, category_id, changes, now, operation_id):
            return await _refreshed(db, category_id, operation_id)
        category = await _require_settled(db, category_id)
        if idempotency.was_applied(category, operation_id):
            return await _refreshed(db, category_id, operation_id)
    raise Conflict("The category is being changed by others.")


async def _try_rename(db: Database, category_id: ObjectId, changes: Document, now: datetime, operation_id: str) -> bool:
    guard = {"_id": category_id, **_UNMARKED, **idempotency.not_applied(operation_id)}
    update = _marked_update(changes, operation_id, now)
    try:
        return bool((await db[CATEGORIES.name].update_one(guard, update)).matched_count)
    except DuplicateKeyError:
        raise SlugTaken(changes["slug"]) from None


def _marked_update(changes: Document, operation_id: str, now: datetime, **other: Any) -> Document:
    applied = idempotency.mark_applied(operation_id)
    pushes = {"refresh": {"op": operation_id, "at": now}, **applied.get("$push", {})}
    return {"$set": changes, "$push": pushes, **other}


async def finish_refresh(db: Database, category_id: ObjectId, operation_id: str) -> None:
    """Brings the subtree up to date and takes the mark off. May be repeated.

    Where others change the tree faster than it can be written, or something in it is damaged, the mark stays, and a
    job goes on.
    """
    try:
        await refresh_subtree(db, category_id)
    except (LineageUnsettled, SweepFailed):
        return
    await db[CATEGORIES.name].update_one({"_id": category_id}, {"$pull": {"refresh": {"op": operation_id}}})


async def _refreshed(db: Database, category_id: ObjectId, operation_id: str) -> Document:
    """The category, after all that a rename or a move entails."""
    await finish_refresh(db, category_id, operation_id)
    category = await _require(db, category_id)
    await idempotency.trim_marks(db, CATEGORIES, category)
    return category


async def move_category(
    db: Database, *, category_id: ObjectId, new_parent_id: ObjectId | None, now: datetime, operation_id: str
) -> Document:
    """Puts a category, with everything below it, below another parent; with None it becomes a root.

    A move marks its category before it reads the way from the new parent to the root. Of moves that would make a cycle
    together, the last to mark therefore sees every other: as a mark, and steps back, or as a new parent, and refuses.

    Returns:  the category.
    Raises:   NotFound (category or parent), CategoryCycle, Conflict (others kept moving in the way).
    Writes:   categories; a mark, one guarded update, then the subtree, then the removal of the mark.
    """
    async for _ in attempts(_MOVE_ATTEMPTS):
        category = await _require_settled(db, category_id)
        if idempotency.was_applied(category, operation_id):
            return await _refreshed(db, category_id, operation_id)
        if category["parent"] == new_parent_id:
            return category
        if await _try_move(db, category, new_parent_id, now, operation_id):
            return await _refreshed(db, category_id, operation_id)
    raise Conflict("Other categories on the way are being moved just now.")


async def _try_move(
    db: Database, category: Document, new_parent_id: ObjectId | None, now: datetime, operation_id: str
) -> bool:
    categories = db[CATEGORIES.name]
    category_id = category["_id"]
    moving = {"op": operation_id, "at": now, "to": new_parent_id}
    free = {"_id": category_id, "parent": category["parent"], **_UNMARKED, **idempotency.not_applied(operation_id)}
    free["moving.op"] = {"$in": [None, operation_id]}
    if not (await categories.update_one(free, {"$set": {"moving": moving}})).matched_count:
        return False
    mine = {"_id": category_id, "moving.op": operation_id}
    try:
        ancestors = await _way_to(db, category_id, new_parent_id)
    except (CategoryCycle, NotFound):
        await categories.update_one(mine, {"$unset": {"moving": ""}})
        raise
    if ancestors is None:
        await categories.update_one(mine, {"$unset": {"moving": ""}})
        return False
    changes = {"parent": new_parent_id, "ancestors": ancestors}
    update = _marked_update(changes, operation_id, now, **{"$unset": {"moving": ""}})
    return bool((await categories.update_one(mine, update)).matched_count)


async def _way_to(db: Database, category_id: ObjectId, new_parent_id: ObjectId | None) -> list[Document] | None:
    """The ancestors below the new parent, by parents and not by what is stored; None where one of them is moving."""
    if new_parent_id is None:
        return []
    if new_parent_id == category_id:
        raise CategoryCycle
    await require_usable(db, [new_parent_id])
    way = await _chain(db, new_parent_id)
    if any(step["_id"] == category_id for step in way):
        raise CategoryCycle
    if any("moving" in step for step in way) or (way and way[0]["parent"] is not None):
        return None
    return [{"_id": step["_id"], "slug": step["slug"], "name": step["name"]} for step in way]


async def _chain(db: Database, category_id: ObjectId) -> list[Document]:
    """The category and everything above it, root first, by one command."""
    lookup = {
        "from": CATEGORIES.name,
        "startWith": "$parent",
        "connectFromField": "parent",
        "connectToField": "_id",
        "as": "above",
        "depthField": "distance",
    }
    stages: list[Document] = [{"$match": {"_id": category_id}}, {"$graphLookup": lookup}]
    found = await (await db[CATEGORIES.name].aggregate(stages)).to_list()
    if not found:
        return []
    above: list[Document] = sorted(found[0].pop("above"), key=lambda step: step["distance"], reverse=True)
    return [*above, found[0]]


async def delete_category(db: Database, *, category_id: ObjectId, now: datetime, operation_id: str) -> None:
    """Removes a category that has neither children nor products.

    Raises:   NotFound, CategoryNotEmpty, Conflict (a move or deletion by somebody else does not come to an end).
    Writes:   categories; a mark, then the removal, or of the mark where something is below.
    """
    earlier = await idempotency.notes(db, operation_id)
    mark = {"deleting": {"op": operation_id, "at": now}}
    free = {"_id": category_id, "pending": None, "moving": None, "deleting.op": {"$in": [None, operation_id]}}
    for _ in range(SETTLING_ATTEMPTS):
        if (await db[CATEGORIES.name].update_one(free, {"$set": mark})).matched_count:
            await finish_delete(db, category_id, operation_id)
            return
        if not await _is_there(db, category_id):
            if earlier.get("deleting"):
                return
            raise NotFound("Category", str(category_id))
        await pause(SETTLING_PAUSE)
    raise Conflict("The category is being moved or deleted by somebody else.")


async def finish_delete(db: Database, category_id: ObjectId, operation_id: str) -> None:
    """Carries out what the mark announces, or takes it off. May be repeated. Raises CategoryNotEmpty."""
    mine = {"_id": category_id, "deleting.op": operation_id}
    below = {"$or": [{"parent": category_id}, {"moving.to": category_id}]}
    has_children = await db[CATEGORIES.name].find_one(below, {"_id": 1}) is not None
    if has_children or await products.is_in_use(db, category_id):
        await db[CATEGORIES.name].update_one(mine, {"$unset": {"deleting": ""}})
        raise CategoryNotEmpty
    await idempotency.note(db, operation_id, deleting=True)
    deleted = await db[CATEGORIES.name].delete_one(mine)
    if not deleted.deleted_count and await _is_there(db, category_id):
        # A job took the mark off meanwhile, for it saw something below.
        raise CategoryNotEmpty


async def _is_there(db: Database, category_id: ObjectId) -> bool:
    return await db[CATEGORIES.name].find_one({"_id": category_id}, {"_id": 1}) is not None


async def _require(db: Database, category_id: ObjectId) -> Document:
    category = await db[CATEGORIES.name].find_one({"_id": category_id})
    if category is None:
        raise NotFound("Category", str(category_id))
    return category


async def _require_settled(db: Database, category_id: ObjectId) -> Document:
    return (await require_usable(db, [category_id]))[category_id]
