"""Imports categories in bulk by slug. Safe to repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bson import ObjectId
from pymongo.errors import BulkWriteError

from portico.resolvers.documents import Database
from portico.resolvers.errors import DomainError, InvalidInput, SlugTaken
from portico.resolvers.import_outcomes import Outcome, outcome_of, refused_row, rejected_rows
from portico.resolvers.texts import require_line, require_slug, require_text, words
from portico.resolvers.writes.marks import derived_id, random_operation_id

from .categories import CATEGORIES, CategoryDocument, find_usable, lineage_below
from .category_edits import MAX_DESCRIPTION, MAX_NAME, confirm_created, move_category, rename_category
from .category_lineage import refresh_lineage
from .vocabulary import store_words


@dataclass(frozen=True)
class CategoryRecord:
    """A category as an import describes it; `parent` is a slug, None for a root."""

    slug: str
    name: str
    parent: str | None = None
    description: str | None = None


async def import_categories(db: Database, records: Sequence[CategoryRecord], *, now: datetime) -> list[Outcome]:
    """Creates, renames and moves categories to match the records. Each slug may occur once.

    Returns:  the outcome of each record; `waiting` if its parent does not exist (yet).
    Writes:   categories; one insert for each level, confirmed as in `category_edits`.
    """
    outcomes: dict[int, Outcome] = {}
    slugs = {slug for record in records for slug in (record.slug, record.parent) if slug}
    known = {c["slug"]: c async for c in CATEGORIES.of(db).find({"slug": {"$in": list(slugs)}})}
    new: dict[int, CategoryRecord] = {}
    for number, record in enumerate(records):
        if record.slug in known:
            outcomes[number] = await outcome_of(_bring_up_to_date(db, known, record, now))
        else:
            new[number] = record
    while ready := {n: r for n, r in new.items() if r.parent is None or r.parent in known}:
        outcomes |= await _insert_level(db, known, ready, now)
        new = {number: record for number, record in new.items() if number not in ready}
    outcomes |= dict.fromkeys(new, "waiting")
    return [outcomes[number] for number in range(len(records))]


async def _bring_up_to_date(
    db: Database, known: dict[str, CategoryDocument], record: CategoryRecord, now: datetime
) -> Outcome:
    """Renames or moves an existing category. Raises what `rename_category` and `move_category` raise."""
    category = known[record.slug]
    if record.parent is not None and record.parent not in known:
        return "waiting"
    parent_id = known[record.parent]["_id"] if record.parent else None
    name = require_line(record.name, "name", longest=MAX_NAME)
    text = record.description
    description = None if text is None else require_text(text, "description", longest=MAX_DESCRIPTION)
    texts = {} if category.get("description") == description else {"description": description}
    if category["name"] == name and category["parent"] == parent_id and not texts:
        return "unchanged"
    key: ObjectId = category["_id"]
    operation_id = random_operation_id()
    if category["name"] != name or texts:
        await rename_category(
            db, category_id=key, name=name, slug=None, texts=texts, now=now, operation_id=operation_id
        )
    if category["parent"] != parent_id:
        await move_category(db, category_id=key, new_parent_id=parent_id, now=now, operation_id=operation_id)
    return "changed"


async def _insert_level(
    db: Database, known: dict[str, CategoryDocument], records: dict[int, CategoryRecord], now: datetime
) -> dict[int, Outcome]:
    """Inserts categories whose parents exist, confirms them, and adds them to `known`."""
    outcomes: dict[int, Outcome] = {}
    documents: dict[int, CategoryDocument] = {}
    operation_id = random_operation_id()
    for number, record in records.items():
        try:
            documents[number] = _document(known, record, operation_id, now)
        except InvalidInput as error:
            outcomes[number] = error
    if not documents:
        return outcomes
    ids = [document["_id"] for document in documents.values()]
    await store_words(db, {word for document in documents.values() for word in document.get("words", ())})
    try:
        await CATEGORIES.of(db).insert_many(documents.values(), ordered=False)
    except BulkWriteError as error:
        # If another writer has just taken the slug, a retry of the record finds that category.
        numbers = list(documents)
        for row in rejected_rows(error):
            number = numbers[row["index"]]
            outcomes[number] = refused_row(row) or SlugTaken(documents[number]["slug"])
    parents = {document["parent"] for document in documents.values() if document["parent"] is not None}
    usable = await find_usable(db, parents) if parents else {}
    if await refresh_lineage(db, ids) or len(usable) < len(parents):
        outcomes |= await _confirm_each(db, documents)
    else:
        mine = {"_id": {"$in": ids}, "pending.op": operation_id}
        await db[CATEGORIES.name].update_many(mine, {"$unset": {"pending": ""}})
    known |= {d["slug"]: d for number, d in documents.items() if number not in outcomes}
    return outcomes | {number: "created" for number in documents if number not in outcomes}


def _document(
    known: dict[str, CategoryDocument], record: CategoryRecord, operation_id: str, now: datetime
) -> CategoryDocument:
    slug = require_slug(record.slug, "slug")
    parent = known[record.parent] if record.parent else None
    document: CategoryDocument = {
        "_id": derived_id(operation_id, slug),
        "slug": slug,
        "name": require_line(record.name, "name", longest=MAX_NAME),
        "parent": parent["_id"] if parent else None,
        "ancestors": lineage_below(parent),
        "words": words(record.name),
        "schema_version": CATEGORIES.version,
    }
    if record.description is not None:
        document["description"] = require_text(record.description, "description", longest=MAX_DESCRIPTION)
    if parent:
        document["pending"] = {"op": operation_id, "at": now}
    return document


async def _confirm_each(db: Database, documents: dict[int, CategoryDocument]) -> dict[int, Outcome]:
    """Confirms each category of a level by itself, after a parent was deleted during the insert."""
    outcomes: dict[int, Outcome] = {}
    for number, document in documents.items():
        if "pending" in document:
            try:
                await confirm_created(db, document)
            except DomainError as error:
                outcomes[number] = error
    return outcomes
