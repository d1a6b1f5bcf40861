"""Ids of operations, and the marks that repeatable operations leave on the documents that they change.

A stored mark of an operation stays as long as a retry of the operation can arrive. Once every 64 writes, one command
looks up a document's older marks, and the document drops those whose records are complete or missing. It always keeps
the last 64, for processes that were paused. A comment keeps eight, because it may share its document with many others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any, NotRequired

from bson import ObjectId

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned

from .operation_records import KEYED, OPERATIONS, record_key

__all__ = [
    "Repeatable",
    "applied_with",
    "concluded",
    "derived_id",
    "derived_nonce",
    "forgettable",
    "is_repeatable",
    "mark_applied",
    "not_applied",
    "random_operation_id",
    "trim_marks",
    "was_applied",
]

# A document keeps at least the marks of this many latest repeatable writes, finished or not.
_MARKS_KEPT = 64


class Repeatable(Versioned):
    """What a document has that mutations change: the ids of the latest repeatable operations on it, oldest first."""

    applied: NotRequired[list[str]]


def random_operation_id() -> str:
    """Returns the id of an operation that cannot be repeated."""
    return f"r-{token_hex(16)}"


def is_repeatable(operation_id: str) -> bool:
    """Returns whether a later call can repeat the operation: whether it has an idempotency key."""
    return operation_id.startswith(KEYED)


def derived_id(operation_id: str, purpose: str) -> ObjectId:
    """Returns the `_id` of what this operation creates: the same for every repetition."""
    return ObjectId(hashlib.blake2b(f"{operation_id}/{purpose}".encode(), digest_size=12).digest())


def derived_nonce(operation_id: str, *parts: str) -> str:
    """Returns the nonce of what this operation writes: the same for every repetition."""
    return hashlib.blake2b("\0".join((operation_id, *parts)).encode(), digest_size=12).hexdigest()


def not_applied(operation_id: str) -> Document:
    """Returns a guard: the document has no mark of this operation. Only repeatable operations leave marks."""
    return {"applied": {"$ne": operation_id}} if is_repeatable(operation_id) else {}


def mark_applied(operation_id: str) -> Document:
    """Returns the update that goes with the guard `not_applied`: it adds the mark."""
    if not is_repeatable(operation_id):
        return {}
    return {"$push": {"applied": operation_id}}


def applied_with(operation_id: str) -> Document:
    """Returns the marks as an expression, for pipeline updates. See `mark_applied`."""
    marks: Document = {"$ifNull": ["$applied", []]}
    if not is_repeatable(operation_id):
        return marks
    return {"$concatArrays": [marks, [operation_id]]}


def was_applied(document: Mapping[str, Any], operation_id: str) -> bool:
    """Returns whether the document has the mark of this operation."""
    return operation_id in document.get("applied", ())


async def trim_marks(db: Database, spec: CollectionSpec, document: Mapping[str, Any]) -> list[str]:
    """Removes the oldest marks that no call can need any more from a marked document. Returns those that stay.

    Args:     document: with its key and its marks, as read before or after the write.
    Writes:   the document; one update, once in 64 writes. Until then the list grows.
    """
    marks = document.get("applied", ())
    forgotten = await forgettable(db, marks, kept=_MARKS_KEPT)
    if not forgotten:
        return list(marks)
    key = {path: document[path] for path in ("_id", *(spec.shard_key or ()))}
    await db[spec.name].update_one(key, {"$pull": {"applied": {"$in": forgotten}}})
    return [mark for mark in marks if mark not in forgotten]


async def forgettable(db: Database, marks: Sequence[str], *, kept: int) -> list[str]:
    """Returns the marks that a document no longer needs. Checks only when the number of marks is a multiple of `kept`.

    A mark stays while its operation is running, because a call can still repeat it. The last `kept` marks always stay,
    for a call that was suspended while another call finished its operation.

    Args:     marks: oldest first.
    """
    if len(marks) < 2 * kept or len(marks) % kept:
        return []
    return await concluded(db, marks[:-kept])


async def concluded(db: Database, operation_ids: Sequence[str]) -> list[str]:
    """Returns the operations that no call will repeat: their records are done or have expired."""
    records = [record_key(operation_id)["_id"] for operation_id in operation_ids]
    query = {"_id": {"$in": records}, "state": "running"}
    found = await db[OPERATIONS.name].find(query, {"operation": 1}, batch_size=len(records) + 1).to_list()
    running = {record["operation"] for record in found}
    return [operation_id for operation_id in operation_ids if operation_id not in running]
