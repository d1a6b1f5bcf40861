"""Operation ids, and the record that gives a repeated mutation one effect and one answer.

Every mutation has an operation id. Where the caller gave an idempotency key, a record of the operation is kept for a
day under an id derived from the caller and the key. A crash leaves the record `running`; the next call with the key
takes it over when its lease has run out, and repeats the steps under the same operation id. Each step is written so
that the same id has no second effect. Once the record is gone, the key makes an operation with another id.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError, PyMongoError

from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.errors import DomainError, OperationKeyReused, OperationUnderWay

from .timer import Timer

OPERATIONS = CollectionSpec(
    "operations",
    indexes=[IndexModel([("expires_at", ASCENDING)], expireAfterSeconds=0)],
    shard_key={"_id": "hashed"},
)

KEPT = timedelta(days=1)
LEASE = timedelta(seconds=30)
# A caller waits for a twin at most so long; the twin's lease has run out by then.
_PATIENCE = 40.0
_KEYED = "k-"
# A document keeps the marks of so many of its latest repeatable writes at least, whatever has become of them.
_MARKS_KEPT = 64


def random_operation_id() -> str:
    """The id of an operation that nobody can repeat."""
    return f"r-{uuid4().hex}"


def record_id_of(subject: str | None, key: str) -> str:
    """The id of the record of what this caller calls by this key."""
    caller = "anonymous" if subject is None else f"subject:{subject}"
    return _KEYED + hashlib.blake2b(f"{caller}\0{key}".encode(), digest_size=20).hexdigest()


def is_repeatable(operation_id: str) -> bool:
    """Whether a later call can repeat the operation: whether it has an idempotency key."""
    return operation_id.startswith(_KEYED)


def derived_id(operation_id: str, purpose: str) -> ObjectId:
    """The `_id` that this operation gives to what it creates: the same, however often it is repeated."""
    return ObjectId(hashlib.blake2b(f"{operation_id}/{purpose}".encode(), digest_size=12).digest())


def derived_nonce(operation_id: str, *parts: str) -> str:
    """The nonce that this operation gives to what it writes: the same, however often it is repeated."""
    return hashlib.blake2b("\0".join((operation_id, *parts)).encode(), digest_size=12).hexdigest()


def not_applied(operation_id: str) -> Document:
    """A guard: the document does not carry the mark of this operation. Only repeatable operations leave one."""
    return {"applied": {"$ne": operation_id}} if is_repeatable(operation_id) else {}


def mark_applied(operation_id: str) -> Document:
    """The update that goes with `not_applied`."""
    if not is_repeatable(operation_id):
        return {}
    return {"$push": {"applied": operation_id}}


def applied_with(operation_id: str) -> Document:
    """As `mark_applied`, for an update that is a pipeline: an expression for the list."""
    marks: Document = {"$ifNull": ["$applied", []]}
    if not is_repeatable(operation_id):
        return marks
    return {"$concatArrays": [marks, [operation_id]]}


def was_applied(document: Document, operation_id: str) -> bool:
    """Whether the document carries the mark of this operation."""
    return operation_id in document.get("applied", ())


async def trim_marks(db: Database, spec: CollectionSpec, document: Document) -> None:
    """Takes the oldest marks off a document that has been marked, where no call can ask for them any more.

    Args:     document: as it is after the write, or was before it, with its key and its marks.
    Writes:   the document; one update, once in so many writes. Where it is left out, the list is longer until then.
    """
    forgotten = await forgettable(db, document.get("applied", ()), kept=_MARKS_KEPT)
    if forgotten:
        key = {path: document[path] for path in ("_id", *(spec.shard_key or ()))}
        await db[spec.name].update_one(key, {"$pull": {"applied": {"$in": forgotten}}})


async def forgettable(db: Database, marks: Sequence[str], *, kept: int) -> list[str]:
    """Which of a document's marks, the oldest first, it need not keep beside the last ones. Looks once in so many.

    A mark outlasts the record of its operation: while that is under way, a call may come that repeats it. The last ones
    are kept for a call that has slept while another one has finished its operation.
    """
    if len(marks) < 2 * kept or len(marks) % kept:
        return []
    return await _concluded(db, marks[:-kept])


async def _concluded(db: Database, operation_ids: Sequence[str]) -> list[str]:
    """Those of the operations that no call repeats any more: their records are finished, or gone."""
    records = [_mine(operation_id)["_id"] for operation_id in operation_ids]
    query = {"_id": {"$in": records}, "state": "running"}
    found = await db[OPERATIONS.name].find(query, {"operation": 1}, batch_size=len(records) + 1).to_list()
    running = {record["operation"] for record in found}
    return [operation_id for operation_id in operation_ids if operation_id not in running]


async def begin(db: Database, record_id: str, *, field: str, fingerprint: str, now: datetime, owner: str) -> Document:
    """Takes the operation on, or waits for the call that has it.

    Returns:  the record; its state is `done` where the operation has been carried out, else the caller is to carry it
              out under the id that the record has in `operation`.
    Raises:   OperationKeyReused (the key was used with another field or input), OperationUnderWay.
    Writes:   operations; one insert or one guarded update.
    """
    timer = Timer(now)
    delay = 0.01
    while True:
        record = await _claim(db, record_id, field=field, fingerprint=fingerprint, at=timer.now(), owner=owner)
        if record["fingerprint"] != fingerprint or record["field"] != field:
            raise OperationKeyReused
        if record["state"] == "done" or record["owner"] == owner:
            return record
        if timer.seconds > _PATIENCE:
            raise OperationUnderWay
        pause = delay * random.uniform(0.5, 1.5)  # noqa: S311 - spreads callers, guards nothing
        await asyncio.sleep(pause)
        delay = min(delay * 1.6, 1.0)


async def _claim(db: Database, record_id: str, *, field: str, fingerprint: str, at: datetime, owner: str) -> Document:
    """The record as it stands, which is the owner's now where nobody else has it."""
    operations = db[OPERATIONS.name]
    lease = {"owner": owner, "lease_until": at + LEASE}
    record = await operations.find_one({"_id": record_id})
    if record is None:
        fresh = {
            "_id": record_id,
            "operation": f"{record_id}.{uuid4().hex}",
            "field": field,
            "fingerprint": fingerprint,
            "state": "running",
            "started": at,
            "expires_at": at + KEPT,
            **lease,
        }
        try:
            await operations.insert_one(fresh)
        except DuplicateKeyError:
            return await operations.find_one({"_id": record_id}) or {**fresh, "owner": None}
        return fresh
    if record["fingerprint"] == fingerprint and record["state"] == "running" and record["lease_until"] <= at:
        guard = {"_id": record_id, "state": "running", "lease_until": record["lease_until"]}
        if (await operations.update_one(guard, {"$set": lease})).matched_count:
            return {**record, **lease}
    return record


def _mine(operation_id: str) -> Document:
    """The record of an operation that the caller is carrying out."""
    return {"_id": operation_id.partition(".")[0], "operation": operation_id}


async def finish(db: Database, operation_id: str, *, outcome: Document, owner: str | None = None) -> Document:
    """Keeps the outcome. Where another call with the id finished first, its outcome stands and is returned.

    Args:     owner: of a call that was refused. If another call has taken the operation over, it may carry out what
              this one was refused, so a refusal is kept only while the lease is the caller's.
    Raises:   OperationUnderWay (another call has taken the operation over).
    """
    operations = db[OPERATIONS.name]
    guard = {**_mine(operation_id), "state": "running", **({} if owner is None else {"owner": owner})}
    kept = await operations.update_one(guard, {"$set": {"state": "done", "outcome": outcome}})
    if kept.matched_count:
        return outcome
    record = await operations.find_one(_mine(operation_id))
    if record is None:
        return outcome
    if record["state"] != "done":
        raise OperationUnderWay
    return dict(record["outcome"])


async def renew(db: Database, operation_id: str, *, now: datetime) -> None:
    """Keeps others from taking the operation over. For one that may take longer than a lease."""
    if is_repeatable(operation_id):
        running = {**_mine(operation_id), "state": "running"}
        await db[OPERATIONS.name].update_one(running, {"$max": {"lease_until": now + LEASE}})


async def release(db: Database, operation_id: str, *, owner: str, now: datetime) -> None:
    """Lets the next call with the key begin at once. For a call that failed and can be repeated.

    A database that cannot be reached does not hide why the call failed: the lease expires by itself.
    """
    guard = {**_mine(operation_id), "state": "running", "owner": owner}
    with contextlib.suppress(PyMongoError):
        await db[OPERATIONS.name].update_one(guard, {"$set": {"lease_until": now}})


async def note(db: Database, operation_id: str, **facts: Any) -> None:
    """Notes in the record what a repeated call could not see any more, e.g. that it is about to delete something."""
    if is_repeatable(operation_id):
        changes = {f"notes.{name}": value for name, value in facts.items()}
        await db[OPERATIONS.name].update_one(_mine(operation_id), {"$set": changes})


async def require_not_done(db: Database, operation_id: str, gone: DomainError) -> None:
    """Raises `gone` where an earlier call with this id created what is not there any more: somebody has deleted it."""
    if (await notes(db, operation_id)).get("done"):
        raise gone


async def notes(db: Database, operation_id: str) -> Document:
    """What an earlier call with this id noted."""
    if not is_repeatable(operation_id):
        return {}
    record = await db[OPERATIONS.name].find_one(_mine(operation_id), {"notes": 1})
    return {} if record is None else dict(record.get("notes", {}))
