"""The records of operations with an idempotency key. See `idempotency`."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, Literal, NotRequired

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Document, Versioned
from portico.resolvers.typed import TypedDict

# How the id of an operation with a key begins.
KEYED = "k-"


class Lease(TypedDict):
    """Which call carries an operation out."""

    # The call that carries the operation out, until when it has it for itself, and its process.
    owner: str | None
    lease_until: datetime
    process: str | None


class OperationRecord(Lease, Versioned):
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


def record_id_of(subject: str | None, key: str) -> str:
    """Returns the id of the operation record for this caller and key."""
    caller = "anonymous" if subject is None else f"subject:{subject}"
    return KEYED + hashlib.blake2b(f"{caller}\0{key}".encode(), digest_size=20).hexdigest()


def record_key(operation_id: str) -> Document:
    """Returns the filter for the record of this operation."""
    return {"_id": operation_id.partition(".")[0], "operation": operation_id}
