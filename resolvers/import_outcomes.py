"""Outcomes of imported records. Each record has its own outcome; a failed one does not affect the others."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Literal

from bson.errors import BSONError
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError, WriteError

from portico.resolvers.writes.sweeps import DAMAGED, SweepFailed, describe_damage

from .elections import met_election
from .errors import DomainError, InvalidInput, NotFound

Outcome = Literal["created", "changed", "unchanged", "waiting"] | DomainError

# The server's codes for an update that would make a document too large.
_TOO_LARGE = {10334, 17419, 17420}
_DUPLICATE_KEY = 11000
_SHOWN = 200


async def outcome_of(work: Awaitable[Outcome]) -> Outcome:
    """Returns the outcome of storing one record. Raises errors that the record has not caused."""
    try:
        return await work
    except DomainError as error:
        return error
    except (*DAMAGED, SweepFailed, OperationFailure) as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        return refusal


def refusal_of(error: Exception) -> DomainError | None:
    """Returns why a record was rejected: by a rule, by the database, or because stored data is damaged.

    Returns None for an error with another cause, e.g. a timeout or an election. For a group it returns a retryable
    error if there is one, and None if any of the errors has another cause.
    """
    if isinstance(error, DomainError):
        return error
    if isinstance(error, SweepFailed):
        found = [refusal for one in error.exceptions if (refusal := refusal_of(one))]
        return max(found, key=lambda one: one.is_retryable) if len(found) == len(error.exceptions) else None
    if met_election(error):
        return None
    if isinstance(error, BulkWriteError):
        is_refusal = not error.details.get("writeConcernErrors")
    else:
        is_too_large = isinstance(error, OperationFailure) and error.code in _TOO_LARGE
        is_refusal = is_too_large or isinstance(error, BSONError | OverflowError | WriteError)
    if is_refusal:
        return _refused(str(error))
    is_damaged = isinstance(error, DAMAGED) and not isinstance(error, PyMongoError)
    return InvalidInput(f"stored data is damaged: {describe_damage(error)[:_SHOWN]}") if is_damaged else None


def rejected_rows(error: BulkWriteError) -> list[dict[str, Any]]:
    """Returns the errors of the documents of a batch that the database rejected, one each.

    Raises the error itself if the batch failed for another reason, e.g. an election. Then other documents of the batch
    may be missing, too, or may be rolled back.
    """
    if error.details.get("writeConcernErrors") or met_election(error):
        raise error
    rows: list[dict[str, Any]] = error.details["writeErrors"]
    return rows


def refused_row(row: dict[str, Any]) -> InvalidInput | None:
    """Returns why the database rejected one document of a batch; None for a duplicate key."""
    return None if row["code"] == _DUPLICATE_KEY else _refused(row["errmsg"])


def _refused(reason: str) -> InvalidInput:
    return InvalidInput(f"the database rejected it: {reason[:_SHOWN]}")


def is_overtaken(outcome: Outcome) -> bool:
    """Returns whether another writer interfered, e.g. a concurrent import, so that a retry can succeed."""
    if isinstance(outcome, NotFound):
        return outcome.key is not None
    return isinstance(outcome, DomainError) and (outcome.is_taken or outcome.is_retryable)
