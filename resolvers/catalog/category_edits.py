"""Writes to the product hierarchy, without locks and without transactions.

Two writers that could conflict each write first and check afterwards:

* A writer that adds something below a category inserts it, then checks whether the category still exists.
* A writer that deletes a category marks it, then checks whether something is below it.

So at least one of the two sees the other. If a crash leaves a mark, `category_jobs` settles it.

A writer that sees a mark whose outcome is open waits for up to two seconds. The operation that left it settles it
within milliseconds; after a crash, a job does.

**Moves** must not form a cycle. A move marks its category `moving` with the new parent. Then it reads the path from
that parent to the root, by parents and not by the stored ancestors. If the path contains the category itself, the move
answers `CategoryCycle`. If it contains another moving category, the move removes its mark, waits a random time and
retries, up to eight times in all; then it answers `Conflict`. If several moves would form a cycle together, the last
one to leave its mark sees all the others, as marks or as new parents.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from portico.resolvers.catalog.refusals import CategoryCycle, CategoryNotEmpty
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, NotFound, SlugTaken
from portico.resolvers.texts import require_line, require_slug, require_text, words
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.marks import derived_id, mark_applied, not_applied, trim_marks, was_applied
from portico.resolvers.writes.retries import attempts, settling
from portico.resolvers.writes.sweeps import SweepFailed

from . import products
from .categories import CATEGORIES, Ancestor, CategoryDocument, find_usable, lineage_below, require_usable
from .category_lineage import LineageUnsettled, refresh_lineage, refresh_subtree
from .images import delete_images, unsettle_images
from .vocabulary import store_words

MAX_NAME = 200
MAX_DESCRIPTION = 20_000
# Two conflicting moves both roll back, and retry at different times.
_MOVE_ATTEMPTS = 8
_UNMARKED: Document = {"pending": None, "deleting": None}


async def create_category(
    db: Database,
    *,
    name: str,
    slug: str,
    parent_id: ObjectId | None,
    description: str | None = None,
    now: datetime,
    operation_id: str,
) -> CategoryDocument:
    """Creates a category below its parent, with its ancestors.

    Returns:  the category.
    Raises:   InvalidInput, SlugTaken, NotFound (parent).
    Writes:   categories; one insert, then the removal of its mark, or of the category if the parent was deleted.
    """
    category_id = derived_id(operation_id, "category")
    with InvalidInput.collect() as check:
        document: CategoryDocument = {
            "_id": category_id,
            "slug": check(require_slug, slug, "slug"),
            "name": check(require_line, name, "name", longest=MAX_NAME),
            "parent": parent_id,
            "ancestors": [],
            "words": words(name),
            "schema_version": CATEGORIES.version,
        }
        if description is not None:
            document["description"] = check(require_text, description, "description", longest=MAX_DESCRIPTION)
    gone = NotFound("Category", str(category_id))
    mine = await idempotency.find_created(db, operation_id, lambda: _created_before(db, category_id), gone)
    if mine is None:
        if parent_id is not None:
            parents = await require_usable(db, [parent_id])
            document["ancestors"] = lineage_below(parents[parent_id])
            document["pending"] = {"op": operation_id, "at": now}
        await store_words(db, document.get("words", ()))
        mine = await _insert(db, document)
    await idempotency.note(db, operation_id, done=True)
    return await confirm_created(db, mine) if "pending" in mine else mine


async def _insert(db: Database, document: CategoryDocument) -> CategoryDocument:
    try:
        await CATEGORIES.of(db).insert_one(document)
    except DuplicateKeyError:
        mine = await _created_before(db, document["_id"])
        if mine is None:
            raise SlugTaken(document["slug"]) from None
        return mine
    return document


async def _created_before(db: Database, category_id: ObjectId) -> CategoryDocument | None:
    return await CATEGORIES.of(db).find_one({"_id": category_id})


async def confirm_created(db: Database, category: CategoryDocument) -> CategoryDocument:
    """Confirms a created category, or removes it if its parent was deleted. Idempotent."""
    category_id, parent_id = category["_id"], category["parent"]
    usable = await find_usable(db, [] if parent_id is None else [parent_id])
    orphans = await refresh_lineage(db, [category_id])
    mine = {"_id": category_id, "pending.op": category["pending"]["op"]}
    if not usable or orphans:
        deleted = (await db[CATEGORIES.name].delete_one(mine)).deleted_count
        if deleted or not await _exists(db, category_id):
            raise NotFound("Category", str(parent_id))
    await db[CATEGORIES.name].update_one(mine, {"$unset": {"pending": ""}})
    return await _require(db, category_id)


async def rename_category(
    db: Database,
    *,
    category_id: ObjectId,
    name: str | None,
    slug: str | None,
    texts: Mapping[str, str | None] | None = None,
    now: datetime,
    operation_id: str,
) -> CategoryDocument:
    """Changes the name and the slug, here and in the ancestors that its descendants store.

    Args:     texts: the new `description`, if it changes; None clears it.
    Returns:  the category.
    Raises:   InvalidInput, NotFound, SlugTaken, Conflict (others kept changing the category).
    Writes:   categories; one guarded update, then the subtree, then the removal of the mark.
    """
    changes: Document = {}
    with InvalidInput.collect() as check:
        if name is not None:
            changes["name"] = check(require_line, name, "name", longest=MAX_NAME)
            changes["words"] = words(name)
        if slug is not None:
            changes["slug"] = check(require_slug, slug, "slug")
        for key, text in (texts or {}).items():
            changes[key] = None if text is None else check(require_text, text, key, longest=MAX_DESCRIPTION)
    if not changes:
        return await _require(db, category_id)
    await store_words(db, changes.get("words", ()))
    async for _ in attempts():
        if await _try_rename(db, category_id, changes, now, operation_id):
            return await _refreshed(db, category_id, operation_id)
        category = await _require_settled(db, category_id)
        if was_applied(category, operation_id):
            return await _refreshed(db, category_id, operation_id)
    raise Conflict("Other callers are changing the category. Try again.")


async def _try_rename(db: Database, category_id: ObjectId, changes: Document, now: datetime, operation_id: str) -> bool:
    guard = {"_id": category_id, **_UNMARKED, **not_applied(operation_id)}
    update = _marked_update(changes, operation_id, now)
    try:
        return bool((await db[CATEGORIES.name].update_one(guard, update)).matched_count)
    except DuplicateKeyError:
        raise SlugTaken(changes["slug"]) from None


def _marked_update(changes: Document, operation_id: str, now: datetime, **other: Any) -> Document:
    applied = mark_applied(operation_id)
    pushes = {"refresh": {"op": operation_id, "at": now}, **applied.get("$push", {})}
    return {"$set": changes, "$push": pushes, **other}


async def finish_refresh(db: Database, category_id: ObjectId, operation_id: str) -> None:
    """Updates the subtree and removes the mark. Idempotent.

    If others change the tree faster than it can be updated, or something in it is damaged, the mark stays, and a job
    continues.
    """
    try:
        await refresh_subtree(db, category_id)
    except (LineageUnsettled, SweepFailed):
        return
    await db[CATEGORIES.name].update_one({"_id": category_id}, {"$pull": {"refresh": {"op": operation_id}}})


async def _refreshed(db: Database, category_id: ObjectId, operation_id: str) -> CategoryDocument:
    """Updates the subtree after a rename or a move, and returns the category."""
    await finish_refresh(db, category_id, operation_id)
    category = await _require(db, category_id)
    await trim_marks(db, CATEGORIES, category)
    return category


class Moved(NamedTuple):
    category: CategoryDocument
    former_parent_id: ObjectId | None


async def move_category(
    db: Database, *, category_id: ObjectId, new_parent_id: ObjectId | None, now: datetime, operation_id: str
) -> Moved:
    """Moves a category and everything below it to another parent; with None it becomes a root.

    A move marks its category before it reads the chain from the new parent to the root. If several moves would form a
    cycle together, the last one to set its mark sees all the others. It sees either a mark, and rolls back, or a new
    parent, and refuses.

    Returns:  the category, and the parent that it had; the parent is None for a former root, and if nothing changed.
    Raises:   NotFound (category or parent), CategoryCycle, Conflict (others kept moving categories of the chain).
    Writes:   categories; a mark, one guarded update, then the subtree, then the removal of the mark.
    """
    async for _ in attempts(_MOVE_ATTEMPTS):
        category = await _require_settled(db, category_id)
        if was_applied(category, operation_id):
            former = (await idempotency.notes(db, operation_id)).get("former_parent")
            return Moved(await _refreshed(db, category_id, operation_id), former)
        if category["parent"] == new_parent_id:
            return Moved(category, None)
        if await _try_move(db, category, new_parent_id, now, operation_id):
            return Moved(await _refreshed(db, category_id, operation_id), category["parent"])
    raise Conflict("Categories above the new parent are being moved. Try again.")


async def _try_move(
    db: Database, category: CategoryDocument, new_parent_id: ObjectId | None, now: datetime, operation_id: str
) -> bool:
    categories = db[CATEGORIES.name]
    category_id = category["_id"]
    moving = {"op": operation_id, "at": now, "to": new_parent_id}
    free = {"_id": category_id, "parent": category["parent"], **_UNMARKED, **not_applied(operation_id)}
    free["moving.op"] = {"$in": [None, operation_id]}
    if not (await categories.update_one(free, {"$set": {"moving": moving}})).matched_count:
        return False
    mine = {"_id": category_id, "moving.op": operation_id}
    try:
        ancestors = await _new_ancestors(db, category_id, new_parent_id)
    except (CategoryCycle, NotFound):
        await categories.update_one(mine, {"$unset": {"moving": ""}})
        raise
    if ancestors is None:
        await categories.update_one(mine, {"$unset": {"moving": ""}})
        return False
    await idempotency.note(db, operation_id, former_parent=category["parent"])
    changes = {"parent": new_parent_id, "ancestors": ancestors}
    update = _marked_update(changes, operation_id, now, **{"$unset": {"moving": ""}})
    return bool((await categories.update_one(mine, update)).matched_count)


async def _new_ancestors(db: Database, category_id: ObjectId, new_parent_id: ObjectId | None) -> list[Ancestor] | None:
    """Returns the ancestors below the new parent, read from the chain of parents; None if one of them is moving."""
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


async def _chain(db: Database, category_id: ObjectId) -> list[CategoryDocument]:
    """Returns the category and its ancestors, root first, by one command."""
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
    chain: list[Any] = sorted(found[0].pop("above"), key=lambda step: step["distance"], reverse=True)
    return [*chain, found[0]]


async def delete_category(db: Database, *, category_id: ObjectId, now: datetime, operation_id: str) -> ObjectId | None:
    """Removes a category that has neither children nor products.

    Returns:  its parent.
    Raises:   NotFound, CategoryNotEmpty, Conflict (another move or deletion does not end).
    Writes:   categories; a mark, then the removal of the category, or of the mark if something is below it.
    """
    earlier = await idempotency.notes(db, operation_id)
    mark = {"deleting": {"op": operation_id, "at": now}}
    free = {"_id": category_id, "pending": None, "moving": None, "deleting.op": {"$in": [None, operation_id]}}
    async for _ in settling():
        marked = await CATEGORIES.of(db).find_one_and_update(free, {"$set": mark}, {"parent": 1, "images": 1})
        if marked is not None:
            # From now on it gets no more images, so these are all.
            images = bool(marked.get("images"))
            await finish_delete(db, category_id, operation_id, parent_id=marked["parent"], has_images=images, now=now)
            return marked["parent"]
        if not await _exists(db, category_id):
            if "deleting" in earlier:
                noted = earlier["deleting"]
                # An earlier version has noted no parent, but True.
                parent_id: ObjectId | None = noted["parent"] if isinstance(noted, dict) else None
                return parent_id
            raise NotFound("Category", str(category_id))
    raise Conflict("Somebody else is moving or deleting the category. Try again.")


async def finish_delete(
    db: Database,
    category_id: ObjectId,
    operation_id: str,
    *,
    parent_id: ObjectId | None,
    has_images: bool = True,
    now: datetime,
) -> None:
    """Deletes a marked category, or removes its mark if it is not empty. Idempotent. Raises CategoryNotEmpty."""
    mine = {"_id": category_id, "deleting.op": operation_id}
    below = {"$or": [{"parent": category_id}, {"moving.to": category_id}]}
    has_children = await CATEGORIES.of(db).find_one(below, {"_id": 1}) is not None
    if has_children or await products.is_in_use(db, category_id):
        await db[CATEGORIES.name].update_one(mine, {"$unset": {"deleting": ""}})
        raise CategoryNotEmpty
    await idempotency.note(db, operation_id, deleting={"parent": parent_id})
    if has_images:
        await unsettle_images(db, category_id, now=now)
    deleted = await db[CATEGORIES.name].delete_one(mine)
    if deleted.deleted_count and has_images:
        await delete_images(db, category_id)
    if not deleted.deleted_count and await _exists(db, category_id):
        # A job has removed the mark, because it saw something below the category.
        raise CategoryNotEmpty


async def _exists(db: Database, category_id: ObjectId) -> bool:
    return await CATEGORIES.of(db).find_one({"_id": category_id}, {"_id": 1}) is not None


async def _require(db: Database, category_id: ObjectId) -> CategoryDocument:
    category = await CATEGORIES.of(db).find_one({"_id": category_id})
    if category is None:
        raise NotFound("Category", str(category_id))
    return category


async def _require_settled(db: Database, category_id: ObjectId) -> CategoryDocument:
    return (await require_usable(db, [category_id]))[category_id]
