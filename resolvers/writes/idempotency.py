"""Operation records, which give a repeated mutation one effect and one answer.

Transfers and deposits have their record only after their answer: see `deciding`. All others follow this protocol.

1. Every mutation has an operation id. If the caller sends an idempotency key, a record of the operation is stored for
   some time, by default a day. The id of the record is derived from the caller and the key.
2. A crash leaves the record `running`. When its lease has expired, or the process of the call is known to have ended,
   the next call with the key takes the operation over and repeats its steps with the same operation id. If it is
   refused, it repeats them once more: the earlier call may have gone on in the meantime, and be the reason.
   An earlier call that goes on only after the refusal can still have its effect, unless a record of the domain decides.
   Its outcome then replaces the refusal, so that later calls are told what is true.
3. Every step is idempotent for its operation id: see `marks`.
4. The record is on a majority before the operation decides. Otherwise, a new primary could lack the record and have the
   decision, and a repeated call would begin another operation.
5. After the record has expired, the same key starts an operation with another id.

An operation record has the mutation, a fingerprint of its input, the state, and the outcome: references to the objects
of the answer, or the error and its facts. A repeated call reads the objects again, and leaves out those that the caller
may no longer see. See `schema.stored_answers`.

If a record of the domain decides an operation, and shows its outcome, the first call need not store the outcome again.
A repeated call finds the decision and repeats the steps, which have no second effect; it need not wait for the lease.
Then the outcome is stored for further calls. A refusal that no record of the domain has is always stored. Only records
that are never deleted decide in this way: transfers, offers of trades and moves of stacks. A comment or a
post can be deleted, and a repeated call must not write it again. Marks of operations, e.g. in carts, are dropped when
the operation is done. So these calls store their outcome, in the same bulk as those of other calls.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pymongo.errors import DuplicateKeyError, PyMongoError

from portico.resolvers.documents import Change, Database, Document
from portico.resolvers.errors import DomainError, OperationKeyReused, OperationUnderWay

from .marks import is_repeatable
from .operation_records import OPERATIONS, Lease, OperationRecord, record_key
from .retries import pause
from .timer import Timer

T = TypeVar("T")

LEASE = timedelta(seconds=30)
# A call waits this long for a concurrent call with its key, whose lease has expired by then.
_MAX_WAIT = 40.0
# A guard: no call with the key has stored that it has succeeded.
_NOT_SUCCEEDED: Document = {"$or": [{"state": "running"}, {"outcome.error": {"$exists": True}}]}


@dataclass(frozen=True)
class Process:
    """The process of a call. `name` is None where processes cannot see each other.

    `is_gone` returns whether the process with this name has certainly ended. A process that sleeps has not.
    """

    name: str | None = None
    is_gone: Callable[[str], bool] = lambda _name: False


class Superseded(Exception):
    """There is an earlier call with the key."""


IsDecided = Callable[[Database, str], Awaitable[bool]]


@dataclass(frozen=True)
class Call:
    """A call with a key. `owner` is its own random id. Calls with the same key must have the same fingerprint.

    `former_fingerprint` returns the one that former versions stored.
    """

    record_id: str
    field: str
    fingerprint: str
    owner: str
    process: Process
    former_fingerprint: Callable[[], str]

    @property
    def operation(self) -> str:
        """The id of the operation, if this call is the first one with the key."""
        return f"{self.record_id}.{self.owner}"

    def is_recorded_by(self, record: OperationRecord) -> bool:
        """Returns whether this record of the key is of a call of the same mutation with the same input."""
        stored = record["fingerprint"]
        return record["field"] == self.field and (stored == self.fingerprint or stored == self.former_fingerprint())


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
        if not call.is_recorded_by(record):
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
    lease: Lease = {"owner": call.owner, "lease_until": at + LEASE, "process": call.process.name}
    if record["state"] == "running" and call.is_recorded_by(record) and _is_free(record, call, at):
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


def finishing(operation_id: str, outcome: Document) -> Change:
    """Returns the update that stores the outcome of an operation that has succeeded, unless another call has.

    It replaces a refusal: see `finish`.
    """
    return {**record_key(operation_id), **_NOT_SUCCEEDED}, _done(outcome)


def _done(outcome: Document) -> Document:
    return {"$set": {"state": "done", "outcome": outcome}}


async def finish(db: Database, operation_id: str, *, outcome: Document, owner: str | None = None) -> Document:
    """Stores the outcome. If another call with the id finished first, returns that call's outcome instead.

    A success replaces a refusal: both calls ran at the same time, and the operation has had its effect.

    Args:     owner: of a call that was refused. A call that has taken the operation over may succeed where this one was
              refused, so a refusal is stored only while the caller owns the lease.
    Raises:   OperationUnderWay (another call has taken the operation over).
    """
    operations = db[OPERATIONS.name]
    allowed = _NOT_SUCCEEDED if owner is None else {"state": "running", "owner": owner}
    guard = {**record_key(operation_id), **allowed}
    kept = await operations.update_one(guard, _done(outcome))
    if kept.matched_count:
        return outcome
    record = await operations.find_one(record_key(operation_id))
    if record is None:
        return outcome
    if record["state"] != "done":
        raise OperationUnderWay
    return dict(record["outcome"])


async def renew(db: Database, operation_id: str, *, now: datetime) -> None:
    """Extends the lease of an operation that can take longer than one lease."""
    if is_repeatable(operation_id):
        running = {**record_key(operation_id), "state": "running"}
        await db[OPERATIONS.name].update_one(running, {"$max": {"lease_until": now + LEASE}})


async def release(db: Database, operation_id: str, *, owner: str, now: datetime) -> None:
    """Ends the lease, so that the next call with the key can begin immediately. For a failed call that can be retried.

    Database errors are suppressed, so that they don't hide why the call failed. The lease then expires by itself.
    """
    guard = {**record_key(operation_id), "state": "running", "owner": owner}
    with contextlib.suppress(PyMongoError):
        await db[OPERATIONS.name].update_one(guard, {"$set": {"lease_until": now}})


async def note(db: Database, operation_id: str, **facts: Any) -> None:
    """Stores facts that a repeated call can no longer read, e.g. that the operation is about to delete something."""
    if is_repeatable(operation_id):
        changes = {f"notes.{name}": value for name, value in facts.items()}
        await db[OPERATIONS.name].update_one(record_key(operation_id), {"$set": changes})


async def find_created(
    db: Database, operation_id: str, find: Callable[[], Awaitable[T | None]], gone: DomainError
) -> T | None:
    """Returns what an earlier call with this id has created, as `find` finds it; None if there is nothing yet.

    Raises `gone` if it has been deleted since. The note is read first: the earlier call may still go on, and create and
    note the object in between.
    """
    if not is_repeatable(operation_id):
        return None
    was_created = (await notes(db, operation_id)).get("done")
    found = await find()
    if found is None and was_created:
        raise gone
    return found


async def notes(db: Database, operation_id: str) -> Document:
    """Returns the facts that earlier calls with this id have stored."""
    if not is_repeatable(operation_id):
        return {}
    record = await db[OPERATIONS.name].find_one(record_key(operation_id), {"notes": 1})
    return {} if record is None else dict(record.get("notes", {}))
