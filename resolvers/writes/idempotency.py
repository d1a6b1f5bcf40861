"""Operation ids and operation records, which give a repeated mutation one effect and one answer.

1. Every mutation has an operation id. If the caller sends an idempotency key, a record of the operation is stored for
   some time, by default a day. The id of the record is derived from the caller and the key.
2. A crash leaves the record `running`. When its lease has expired, or the process of the call is known to have ended,
   the next call with the key takes the operation over and repeats its steps with the same operation id.
3. Every step is idempotent for its operation id.
4. After the record has expired, the same key starts an operation with another id.

A stored mark of an operation stays as long as a retry of the operation can arrive. Once every 64 writes, one command
looks up a document's older marks, and the document drops those whose records are complete or missing. It always keeps
the last 64, for processes that were paused. A comment keeps eight, because it may share its document with many others.

An operation record has the mutation, a fingerprint of its input, the state, and the outcome: references to the objects
of the answer, or the error and its facts. A repeated call reads the objects again, and leaves out those that the caller
may no longer see. See `schema.stored_answers`.

If a record of the domain decides an operation, and shows its outcome, the first call need not store the outcome again.
A repeated call finds the decision and repeats the steps, which have no second effect; it need not wait for the lease.
Then the outcome is stored for further calls. A refusal that no record of the domain has is always stored. Only records
that are never deleted decide in this way: transfers, deposits, offers of trades and moves of stacks. A comment or a
post can be deleted, and a repeated call must not write it again. Marks of operations, e.g. in carts, are dropped when
the operation is done. So these calls store their outcome, in the same bulk as those of other calls.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NotRequired
from uuid import uuid4

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError, PyMongoError

from portico.resolvers.documents import Change, CollectionSpec, Database, Document, Versioned
from portico.resolvers.errors import DomainError, OperationKeyReused, OperationUnderWay
from portico.resolvers.typed import TypedDict

from .retries import pause
from .timer import Timer


class Repeatable(Versioned):
    """What a document has that mutations change: the ids of the latest repeatable operations on it, oldest first."""

    applied: NotRequired[list[str]]


class _Lease(TypedDict):
    # The call that carries the operation out, until when it has it for itself, and its process.
    owner: str | None
    lease_until: datetime
    process: str | None


class OperationRecord(_Lease, Versioned):
    """The record of an operation. Its `_id` is derived from the caller and the key."""

    _id: str
    # The id of the operation: the `_id` and a random part.
    operation: str
    # The mutation, and a hash of its input.
    field: str
    fingerprint: str
    state: Literal["running", "done"]
    started: datetime
    expires_at: datetime
    # What a repeated call can no longer read.
    notes: NotRequired[dict[str, Any]]
    # References to the objects of the answer, or the error and its facts; see `schema.stored_answers`.
    outcome: NotRequired[dict[str, Any]]


OPERATIONS = CollectionSpec(
    "operations",
    document=OperationRecord,
    indexes=[IndexModel([("expires_at", ASCENDING)], expireAfterSeconds=0)],
    shard_key={"_id": "hashed"},
)

LEASE = timedelta(seconds=30)
# A call waits this long for a concurrent call with its key, whose lease has expired by then.
_MAX_WAIT = 40.0
_KEYED = "k-"
# A document keeps at least the marks of this many latest repeatable writes, finished or not.
_MARKS_KEPT = 64


@dataclass(frozen=True)
class Process:
    """The process of a call. `name` is None where processes cannot see each other.

    `is_gone` returns whether the process with this name has certainly ended. A process that sleeps has not.
    """

    name: str | None = None
    is_gone: Callable[[str], bool] = lambda _name: False


def random_operation_id() -> str:
    """Returns the id of an operation that cannot be repeated."""
    return f"r-{uuid4().hex}"


def record_id_of(subject: str | None, key: str) -> str:
    """Returns the id of the operation record for this caller and key."""
    caller = "anonymous" if subject is None else f"subject:{subject}"
    return _KEYED + hashlib.blake2b(f"{caller}\0{key}".encode(), digest_size=20).hexdigest()


def is_repeatable(operation_id: str) -> bool:
    """Returns whether a later call can repeat the operation: whether it has an idempotency key."""
    return operation_id.startswith(_KEYED)


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


async def trim_marks(db: Database, spec: CollectionSpec, document: Mapping[str, Any]) -> None:
    """Removes the oldest marks that no call can need any more from a marked document.

    Args:     document: with its key and its marks, as read before or after the write.
    Writes:   the document; one update, once in 64 writes. Until then the list grows.
    """
    forgotten = await forgettable(db, document.get("applied", ()), kept=_MARKS_KEPT)
    if forgotten:
        key = {path: document[path] for path in ("_id", *(spec.shard_key or ()))}
        await db[spec.name].update_one(key, {"$pull": {"applied": {"$in": forgotten}}})


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
    records = [_record_key(operation_id)["_id"] for operation_id in operation_ids]
    query = {"_id": {"$in": records}, "state": "running"}
    found = await db[OPERATIONS.name].find(query, {"operation": 1}, batch_size=len(records) + 1).to_list()
    running = {record["operation"] for record in found}
    return [operation_id for operation_id in operation_ids if operation_id not in running]


class Superseded(Exception):
    """There is an earlier call with the key."""


IsDecided = Callable[[Database, str], Awaitable[bool]]


@dataclass(frozen=True)
class Call:
    """A call with a key. `owner` is its own random id. Calls with the same key must have the same fingerprint."""

    record_id: str
    field: str
    fingerprint: str
    owner: str
    process: Process

    @property
    def operation(self) -> str:
        """The id of the operation, if this call is the first one with the key."""
        return f"{self.record_id}.{self.owner}"


async def begin_first(db: Database, call: Call, *, now: datetime, kept: timedelta) -> bool:
    """Claims the operation if this is the first call with the key. Returns whether it is. Otherwise, see `begin`.

    Writes:   operations; one insert.
    """
    try:
        await OPERATIONS.of(db).insert_one(_new_record(call, now, kept))
    except DuplicateKeyError:
        return False
    return True


async def begin(
    db: Database, call: Call, *, now: datetime, kept: timedelta, is_decided: IsDecided | None = None
) -> OperationRecord:
    """Claims the operation, or waits for the call that has claimed it.

    Args:     kept: how long the record of a new operation is kept.
              is_decided: returns whether an operation is decided, so that repeating its steps finds the decision.
    Returns:  the record. If its state is `done`, the operation has finished. Otherwise the caller must carry it out
              under the id in `operation`.
    Raises:   OperationKeyReused (the key was used with another field or input), OperationUnderWay.
    Writes:   operations; one insert or one guarded update.
    """
    timer = Timer(now)
    delay = 0.01
    while True:
        at = timer.now()
        record = await _claim(db, call, at=at, kept=kept)
        if record["fingerprint"] != call.fingerprint or record["field"] != call.field:
            raise OperationKeyReused
        if record["state"] == "done" or record["owner"] == call.owner:
            return record
        if is_decided is not None and await is_decided(db, record["operation"]):
            return record
        if timer.seconds > _MAX_WAIT:
            raise OperationUnderWay
        await pause(delay)
        delay = min(delay * 1.6, 1.0)


def _new_record(call: Call, at: datetime, kept: timedelta) -> OperationRecord:
    return {
        "_id": call.record_id,
        "operation": call.operation,
        "field": call.field,
        "fingerprint": call.fingerprint,
        "state": "running",
        "started": at,
        "expires_at": at + kept,
        "owner": call.owner,
        "lease_until": at + LEASE,
        "process": call.process.name,
    }


async def _claim(db: Database, call: Call, *, at: datetime, kept: timedelta) -> OperationRecord:
    """Returns the current record. Claims it for the call if no other call holds it."""
    operations = OPERATIONS.of(db)
    record = await operations.find_one({"_id": call.record_id})
    if record is None:
        fresh = _new_record(call, at, kept)
        try:
            await operations.insert_one(fresh)
        except DuplicateKeyError:
            return await operations.find_one({"_id": call.record_id}) or {**fresh, "owner": None}
        return fresh
    lease: _Lease = {"owner": call.owner, "lease_until": at + LEASE, "process": call.process.name}
    if record["fingerprint"] == call.fingerprint and record["state"] == "running" and _is_free(record, call, at):
        guard = {
            "_id": call.record_id,
            "state": "running",
            "owner": record["owner"],
            "lease_until": record["lease_until"],
        }
        if (await operations.update_one(guard, {"$set": lease})).matched_count:
            return {**record, **lease}
    return record


def _is_free(record: OperationRecord, call: Call, at: datetime) -> bool:
    """Returns whether the call that holds the lease has ended: its lease has expired, or its process is gone."""
    process = record.get("process")
    return record["lease_until"] <= at or (process is not None and call.process.is_gone(process))


def _record_key(operation_id: str) -> Document:
    """Returns the filter for the record of this operation."""
    return {"_id": operation_id.partition(".")[0], "operation": operation_id}


def finishing(operation_id: str, outcome: Document) -> Change:
    """Returns the update that stores the outcome of an operation that has succeeded, unless another call has."""
    return {**_record_key(operation_id), "state": "running"}, _done(outcome)


def _done(outcome: Document) -> Document:
    return {"$set": {"state": "done", "outcome": outcome}}


async def finish(db: Database, operation_id: str, *, outcome: Document, owner: str | None = None) -> Document:
    """Stores the outcome. If another call with the id finished first, returns that call's outcome instead.

    Args:     owner: of a call that was refused. A call that has taken the operation over may succeed where this one was
              refused, so a refusal is stored only while the caller owns the lease.
    Raises:   OperationUnderWay (another call has taken the operation over).
    """
    operations = db[OPERATIONS.name]
    guard = {**_record_key(operation_id), "state": "running", **({} if owner is None else {"owner": owner})}
    kept = await operations.update_one(guard, _done(outcome))
    if kept.matched_count:
        return outcome
    record = await operations.find_one(_record_key(operation_id))
    if record is None:
        return outcome
    if record["state"] != "done":
        raise OperationUnderWay
    return dict(record["outcome"])


async def renew(db: Database, operation_id: str, *, now: datetime) -> None:
    """Extends the lease of an operation that can take longer than one lease."""
    if is_repeatable(operation_id):
        running = {**_record_key(operation_id), "state": "running"}
        await db[OPERATIONS.name].update_one(running, {"$max": {"lease_until": now + LEASE}})


async def release(db: Database, operation_id: str, *, owner: str, now: datetime) -> None:
    """Ends the lease, so that the next call with the key can begin immediately. For a failed call that can be retried.

    Database errors are suppressed, so that they don't hide why the call failed. The lease then expires by itself.
    """
    guard = {**_record_key(operation_id), "state": "running", "owner": owner}
    with contextlib.suppress(PyMongoError):
        await db[OPERATIONS.name].update_one(guard, {"$set": {"lease_until": now}})


async def note(db: Database, operation_id: str, **facts: Any) -> None:
    """Stores facts that a repeated call can no longer read, e.g. that the operation is about to delete something."""
    if is_repeatable(operation_id):
        changes = {f"notes.{name}": value for name, value in facts.items()}
        await db[OPERATIONS.name].update_one(_record_key(operation_id), {"$set": changes})


async def require_not_done(db: Database, operation_id: str, gone: DomainError) -> None:
    """Raises `gone` if an earlier call with this id has created the object: it has been deleted since."""
    if (await notes(db, operation_id)).get("done"):
        raise gone


async def notes(db: Database, operation_id: str) -> Document:
    """Returns the facts that earlier calls with this id have stored."""
    if not is_repeatable(operation_id):
        return {}
    record = await db[OPERATIONS.name].find_one(_record_key(operation_id), {"notes": 1})
    return {} if record is None else dict(record.get("notes", {}))
