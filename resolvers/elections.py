"""Errors of commands that met an election: the server was no longer the primary, or was shutting down."""

from __future__ import annotations

from collections.abc import Iterator

from pymongo.errors import BulkWriteError, ConnectionFailure, OperationFailure, PyMongoError

# The server's codes for a node that is no longer the primary or shuts down. Source: the specification "Server Discovery
# And Monitoring" of MongoDB's drivers, "not writable primary" and "node is recovering".
_CODES = frozenset({91, 189, 10058, 10107, 11600, 11602, 13435, 13436})


def met_election(error: BaseException) -> bool:
    """Returns whether the command failed because the server is not the primary, or because no server could be reached.

    For most of these errors the driver raises a `ConnectionFailure`. But a server can lose its role while it carries
    out a write. Then the error is one of the write's own, and the driver does not send the write again.
    """
    return isinstance(error, ConnectionFailure) or (
        isinstance(error, PyMongoError) and any(code in _CODES for code in _codes_of(error))
    )


def _codes_of(error: PyMongoError) -> Iterator[int | None]:
    if isinstance(error, BulkWriteError):
        details = error.details
        yield from (one.get("code") for one in [*details["writeErrors"], *details["writeConcernErrors"]])
    elif isinstance(error, OperationFailure):
        yield error.code
