"""Finishes changes of the social graph: copies what one member has decided to the other member's document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import sweep

from . import circles, members, relations
from .relations import RELATIONS


async def finish(db: Database, relation: Document) -> int:
    """Finishes the change whose mark the document has. Returns 1, or 0 without a mark. It can be repeated.

    Args:     relation: the whole document of the deciding member.
    Writes:   the copy; one guarded upsert. Then, if needed, `is_merged` and the list of circles. Then the mark.
    """
    if "uncopied" not in relation:
        return 0
    await copy(db, relation)
    await _look(db, [relation])
    key = relations.key_of(relation["of"], relation["to"])
    # A later change has a mark of its own.
    await db[RELATIONS.name].update_one({**key, "version": relation["version"]}, {"$unset": {"uncopied": ""}})
    return 1


async def copy(db: Database, relation: Document) -> None:
    """Copies what `of` has decided to the document of `to`, unless that has a later version of it.

    Writes:   social.relations; one guarded upsert.
    """
    older = _older_than(relation)
    change = copy_of(relation)
    try:
        await db[RELATIONS.name].update_one(older, change, upsert=True)
    except DuplicateKeyError:
        # The document has a later version, or was inserted at the same time.
        await db[RELATIONS.name].update_one(older, change)


def copy_of(relation: Document) -> Document:
    """Returns the update of the other document that makes its copies those of this version."""
    copies = {
        "in_circles": relation.get("circles", []),
        "blocked": bool(relation.get("blocks")),
        "copied": relation["version"],
    }
    if "followed_before" in relation:
        copies["follower_before"] = relation["followed_before"]
    change: Document = {"$set": copies, "$setOnInsert": {"schema_version": RELATIONS.version}}
    if relations.follows(relation):
        copies["follower"] = relation["since"]
    else:
        change["$unset"] = {"follower": ""}
    return change


async def finish_many(db: Database, found: Sequence[Document]) -> None:
    """Finishes the changes of many relations like `finish`, by a few commands."""
    marked = [relation for relation in found if "uncopied" in relation]
    if not marked:
        return
    copies = [UpdateOne(_older_than(relation), copy_of(relation), upsert=True) for relation in marked]
    try:
        await db[RELATIONS.name].bulk_write(copies, ordered=False)
    except BulkWriteError as error:
        for row in error.details["writeErrors"]:
            await copy(db, marked[row["index"]])
    await _look(db, marked)
    await db[RELATIONS.name].bulk_write([_end_of_mark(relation) for relation in marked], ordered=False)


def _older_than(relation: Document) -> Document:
    """Returns the filter for the other document, if it has no later version of what `of` has decided."""
    return {**relations.key_of(relation["to"], relation["of"]), "copied": {"$not": {"$gt": relation["version"]}}}


def _end_of_mark(relation: Document) -> UpdateOne:
    """Returns the update that removes the mark. A later change has a mark of its own."""
    key = relations.key_of(relation["of"], relation["to"])
    return UpdateOne({**key, "version": relation["version"]}, {"$unset": {"uncopied": ""}})


async def _look(db: Database, changed: Sequence[Document]) -> None:
    """Looks at both members after the copy, and writes what other writers could not know before it.

    * Merging first marks the author, then all its followers. A follower who is not among them yet, looks.
    * An empty circle is removed from the list of circles. A writer that has meanwhile put somebody into it, looks.
    """
    following = [relation for relation in changed if relations.follows(relation)]
    if not following:
        return
    subjects = [relation[end] for relation in following for end in ("of", "to")]
    found: Mapping[str, Mapping[str, Any]] = await members.find_by_ids(db, subjects, {"is_merged": 1, "circles": 1})
    merged: list[UpdateOne] = []
    missing: dict[str, list[str]] = {}
    for relation in following:
        of, to = relation["of"], relation["to"]
        if found.get(to, {}).get("is_merged") and not relation.get("is_merged"):
            still = {**relations.key_of(of, to), "circles.0": {"$exists": True}}
            merged.append(UpdateOne(still, {"$set": {"is_merged": True}}))
        listed = found.get(of, {}).get("circles", ())
        missing.setdefault(of, []).extend(name for name in relation["circles"] if name not in listed)
    if merged:
        await db[RELATIONS.name].bulk_write(merged, ordered=False)
    for of, names in missing.items():
        if names:
            await circles.restore(db, of, names)


async def finish_relations(db: Database, *, now: datetime) -> int:
    """Finishes changes that were interrupted. Returns how many."""
    return await sweep(
        db,
        RELATIONS,
        {"uncopied.at": {"$lte": now - Job.STALE_AFTER}},
        lambda relation: finish(db, relation),
        at_once=8,
    )
