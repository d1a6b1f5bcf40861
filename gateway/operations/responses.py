"""The response to an operation, and its errors as a client may see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from graphql import ExecutionResult, GraphQLError

from portico.gateway.logs import logger
from portico.gateway.operations.plans.values import NullValue
from portico.gateway.outages import fault_code, log_fault
from portico.resolvers import errors
from portico.resolvers.answer_bounds import METER, AnswerTooLarge
from portico.schema.context import Context
from portico.schema.errors import path_of, value_facts

from .json_text import compact, encode

TOO_LARGE = "ANSWER_TOO_LARGE"


@dataclass(frozen=True, slots=True)
class Response:
    """A response: `data` is absent if the operation did not start. `headers` are HTTP headers to add.

    `order` is the place of the state that it shows, if it is that of a subscription to states.
    """

    payload: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    order: int | None = None

    @property
    def has_begun(self) -> bool:
        return "data" in self.payload

    @property
    def codes(self) -> set[str]:
        return {error["extensions"]["code"] for error in self.payload.get("errors", ())}


def response_of(result: ExecutionResult, context: Context) -> Response:
    payload: dict[str, Any] = {}
    meter = METER.get()
    if result.errors:
        if meter is not None:
            meter.has_failed = True
        payload["errors"] = [format_error(error, context) for error in result.errors]
        for error in result.errors:
            _drop_frames(error)
        # An error without a path means that nothing ran, unless the whole operation timed out.
        begun = any(error.path or isinstance(error.original_error, TimeoutError) for error in result.errors)
        if result.data is None and not begun:
            return Response(payload)
    payload["data"] = result.data
    return _encoded(payload, meter.most) if meter is not None and meter.is_large else Response(payload)


def _encoded(payload: dict[str, Any], most: float) -> Response:
    """Returns a large answer with its data encoded, so that the operation holds nothing else when it ends."""
    data = compact(encode(payload["data"]))
    if len(data) > most:
        path = _path_to_most(payload["data"], len(data))
        error = {"message": str(AnswerTooLarge(most)), "path": path, "extensions": {"code": TOO_LARGE}}
        return Response({"errors": [error], "data": None})
    return Response({**payload, "data": orjson.Fragment(data)})


def _path_to_most(data: Any, size: int) -> list[str | int]:
    """Returns the path of the smallest part that has more than half of the bytes of the data."""
    path: list[str | int] = []
    while isinstance(data, dict | list):
        items: Iterable[tuple[str | int, Any]] = data.items() if isinstance(data, dict) else enumerate(data)
        found = next(((key, value) for key, value in items if 2 * len(encode(value)) > size), None)
        if found is None:
            break
        key, data = found
        path.append(key)
    return path


def _drop_frames(error: GraphQLError) -> None:
    """Drops the tracebacks of an error and of its causes.

    Their frames reference the run, and the run references the error. Until the garbage collector breaks this cycle,
    the request stays in memory.
    """
    left: list[BaseException | None] = [error, error.original_error]
    seen: set[int] = set()
    while left:
        found = left.pop()
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            found.__traceback__ = None
            left += [found.__cause__, found.__context__]


def format_error(error: GraphQLError, context: Context) -> dict[str, Any]:
    """Returns the error as a client may see it, with a code. Logs a fault and shows only its request id."""
    cause = error.original_error
    extensions = dict(error.extensions or {})
    formatted: dict[str, Any] = {"message": error.message}
    if isinstance(cause, errors.DomainError):
        formatted["message"] = cause.message
        extensions = {"code": next((_CODES[base] for base in type(cause).__mro__ if base in _CODES), "CONFLICT")}
        if isinstance(cause, errors.InvalidInput):
            extensions["argument"] = path_of(cause)
            if cause.others:
                extensions["fields"] = [{"message": one.message, **value_facts(one)} for one in cause.each()]
    elif isinstance(cause, AnswerTooLarge):
        formatted["message"] = str(cause)
        extensions = {"code": TOO_LARGE}
    elif cause is not None and "code" not in extensions and _is_fault(error, cause):
        extensions = {"code": fault_code(cause), "requestId": context.request_id}
        formatted["message"] = FAULTS[extensions["code"]]
        _log_fault(error, cause, context.request_id)
    extensions.setdefault("code", "BAD_USER_INPUT")
    if error.locations:
        formatted["locations"] = [{"line": place.line, "column": place.column} for place in error.locations]
    if error.path is not None:
        formatted["path"] = error.path
    return {**formatted, "extensions": extensions}


def _log_fault(error: GraphQLError, cause: BaseException, request_id: str) -> None:
    """Logs a fault with its traceback; a stored value that does not fit its type with the document, in one line."""
    notes = getattr(cause, "__notes__", ())
    if isinstance(cause, GraphQLError | NullValue):
        document = notes[0] if notes else None
        about = {"document": document, "path": error.path, "request_id": request_id}
        logger().error("stored value does not fit", **about, error=cause.args[0] if cause.args else str(cause))
    else:
        log_fault("fault", cause, request_id=request_id, path=error.path)


def _is_fault(error: GraphQLError, cause: BaseException) -> bool:
    """Returns whether the gateway caused the error, and not the caller.

    A wrong argument and a stored value that does not fit its type both fail in a field. Only the error of a wrong
    argument names a node of the operation.
    """
    return not isinstance(cause, GraphQLError) or (error.path is not None and not cause.nodes)


_CODES: dict[type[errors.DomainError], str] = {
    errors.InvalidInput: "BAD_USER_INPUT",
    errors.NotFound: "NOT_FOUND",
    errors.Conflict: "CONFLICT",
}
FAULTS = {
    "INTERNAL": "Internal error in the gateway. To find it in the log, search for the request id.",
    "TIMEOUT": "The operation timed out.",
    "UNAVAILABLE": "The gateway cannot reach the database, or an index is being built. Try again later.",
}
