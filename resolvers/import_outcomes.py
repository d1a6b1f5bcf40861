"""What becomes of imported records: each has an outcome of its own, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Literal

from bson.errors import BSONError
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError, WriteError

from portico.resolvers.writes.sweeps import DAMAGED, SweepFailed, told

from .documents import Database
from .errors import DomainError, InvalidInput, NotFound, SkuTaken, SlugTaken

Outcome = Literal["created", "changed", "unchanged", "waiting"] | DomainError

# What the server answers for a document that an update would make too large.
_TOO_LARGE = {10334, 17419, 17420}
_DUPLICATE_KEY = 11000
_SHOWN = 200


async def outcome_of(work: Awaitable[Outcome]) -> Outcome:
    """What becomes of one record that is stored by itself. Raises what is no fault of the record."""
    try:
        return await work
    except DomainError as error:
        return error
    except (*DAMAGED, SweepFailed, OperationFailure) as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        return refusal


def each_alone(import_one: Callable[..., Awaitable[Outcome]]) -> Callable[..., Awaitable[list[Outcome]]]:
    """Makes an import function for a batch from one for a record: `import_one(db, record, now=…)`.

    A DomainError that `import_one` raises is the outcome of its record.
    """

    async def import_all(db: Database, records: Sequence[Any], *, now: datetime) -> list[Outcome]:
        return [await outcome_of(import_one(db, record, now=now)) for record in records]

    return import_all


def refusal_of(error: Exception) -> DomainError | None:
    """Why the database does not take what it was given, or which damage keeps it out; None for an error that has other
    causes, e.g. a timeout.

    Of a group it is the error after which a caller may try again, if there is one; None if any error has other causes.
    """
    if isinstance(error, DomainError):
        return error
    if isinstance(error, SweepFailed):
        found = [refusal for one in error.exceptions if (refusal := refusal_of(one))]
        return max(found, key=lambda one: one.passes) if len(found) == len(error.exceptions) else None
    if isinstance(error, BulkWriteError):
        is_refusal = not error.details.get("writeConcernErrors")
    else:
        is_too_large = isinstance(error, OperationFailure) and error.code in _TOO_LARGE
        is_refusal = is_too_large or isinstance(error, BSONError | OverflowError | WriteError)
    if is_refusal:
        return _refused(str(error))
    is_damaged = isinstance(error, DAMAGED) and not isinstance(error, PyMongoError)
    return InvalidInput(f"something that is stored is damaged: {told(error)[:_SHOWN]}") if is_damaged else None


def refused_row(row: dict[str, Any]) -> InvalidInput | None:
    """Why the database did not take one document of many; None where there is one with its key."""
    return None if row["code"] == _DUPLICATE_KEY else _refused(row["errmsg"])


def _refused(reason: str) -> InvalidInput:
    return InvalidInput(f"the database does not take it: {reason[:_SHOWN]}")


def is_overtaken(outcome: Outcome) -> bool:
    """Whether somebody else has written just there a moment ago, e.g. another import, so that it may be tried again."""
    if isinstance(outcome, NotFound):
        return outcome.key is not None
    return isinstance(outcome, SlugTaken | SkuTaken) or (isinstance(outcome, DomainError) and outcome.passes)
