"""Batches of entries, in which an invalid entry does not stop the others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from bson import ObjectId
from pymongo import WriteConcern
from pymongo.errors import BulkWriteError

from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.import_outcomes import refused_row, rejected_rows
from portico.resolvers.texts import require_filled
from portico.resolvers.writes.marks import derived_id

Given = TypeVar("Given")
Entry = TypeVar("Entry")

MAX_ENTRIES = 1_000
# How many documents one command deletes, and how many a run of a job.
_DELETED_AT_ONCE, _MOST_DELETED = 1_000, 20_000
MAX_EVENT_ID = 255
# Earlier and later times are errors of the sender's clock.
FIRST, AFTER_LAST = datetime(1970, 1, 1), datetime(2200, 1, 1)  # noqa: DTZ001 - stored times are naive UTC


@dataclass(frozen=True)
class Batch(Generic[Entry]):
    """The valid entries of a batch in their order, and an error for each invalid one."""

    entries: Sequence[Entry]
    invalid: Sequence[InvalidInput]


def checked(given: Sequence[Given], check: Callable[[Given], Entry]) -> Batch[Entry]:
    """Checks each entry. The path of an error begins with the position of its entry, counted from 0.

    Args:     check: returns the valid entry, or raises InvalidInput.
    Raises:   InvalidInput for more than 1,000 entries, or if there are entries and none is valid.
    """
    if len(given) > MAX_ENTRIES:
        text = f"A call can have at most {MAX_ENTRIES:,} entries; got {len(given):,}."
        raise InvalidInput(text, code=InvalidInput.TOO_MANY, most=MAX_ENTRIES)
    entries: list[Entry] = []
    invalid: list[InvalidInput] = []
    for position, one in enumerate(given):
        try:
            entries.append(check(one))
        except InvalidInput as error:
            invalid.append(error.below(str(position)))
    if not entries:
        with InvalidInput.collect() as every:
            for refused in invalid:
                every.refuse(refused)
    return Batch(entries, invalid)


def id_of_event(purpose: str, event_id: str | None) -> ObjectId:
    """Returns the `_id` of what has this `eventId`, for all callers the same; without one, a new `_id`.

    Raises InvalidInput for an `eventId` that is empty or longer than 255 characters.
    """
    if event_id is None:
        return ObjectId()
    return derived_id(require_filled(event_id, "event_id", longest=MAX_EVENT_ID), purpose)


def hashed_id(text: str) -> ObjectId:
    """Returns the `_id` of what only this text names."""
    return ObjectId(hashlib.blake2b(text.encode(), digest_size=12).digest())


def is_filled(text: str, longest: int) -> bool:
    """Returns whether `require_filled` accepts the text. It takes less time, and the texts of a batch are almost always
    valid.
    """
    return 0 < len(text) <= longest and "\0" not in text


def is_time(time: datetime) -> bool:
    """Returns whether the time is in the years 1970 to 2199."""
    return FIRST <= time < AFTER_LAST


def require_time(time: datetime, *path: str) -> datetime:
    """Returns the time unchanged. Raises InvalidInput if it is not in the years 1970 to 2199."""
    if not is_time(time):
        raise InvalidInput("The time must be in the years 1970 to 2199.", *path, code=InvalidInput.OUT_OF_RANGE)
    return time


async def insert_new(
    db: Database, spec: CollectionSpec, documents: Sequence[Document], *, write_concern: WriteConcern | None = None
) -> set[ObjectId]:
    """Inserts the documents, except those whose `_id` is in the collection already or comes earlier in the sequence.

    Returns:  the `_id`s of the documents that this call has inserted. If nobody waits for the server, all `_id`s.
    Writes:   one insert. It can be repeated.
    """
    if not documents:
        return set()
    ids = {document["_id"] for document in documents}
    try:
        await db[spec.name].with_options(write_concern=write_concern).insert_many(documents, ordered=False)
    except BulkWriteError as error:
        rows = rejected_rows(error)
        if any(refused_row(row) is not None for row in rows):
            raise
        positions = {row["index"] for row in rows}
        return {document["_id"] for number, document in enumerate(documents) if number not in positions}
    return ids


async def delete_older(db: Database, spec: CollectionSpec, path: str, limit: datetime) -> int:
    """Deletes the documents whose time at `path`, which an index has, is before the limit. Oldest first, up to 20,000.

    Returns:  how many.
    """
    collection, deleted = db[spec.name], 0
    while deleted < _MOST_DELETED:
        old = await collection.find(
            {path: {"$lt": limit}}, {"_id": 1}, sort=[(path, 1)], limit=_DELETED_AT_ONCE
        ).to_list()
        if not old:
            break
        deleted += (await collection.delete_many({"_id": {"$in": [one["_id"] for one in old]}})).deleted_count
    return deleted
