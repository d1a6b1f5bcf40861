"""Runs operations, and turns what went wrong into errors that a client may see."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import strawberry
from graphql import ExecutionResult, GraphQLError, OperationType, execute
from graphql.execution.executor import Executor as CoreExecutor
from pymongo.errors import ConnectionFailure, NetworkTimeout, PyMongoError

from resolvers import errors
from schema.context import Context
from schema.errors import camel_case

from .executor import DocumentExecutor
from .logs import logger
from .operations import InvalidOperation, Operations
from .settings import Settings


class MutationRefused(Exception):
    """A mutation came by a method that must not change anything."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: `data` is absent where the operation did not begin."""

    payload: dict[str, Any]

    @property
    def has_begun(self) -> bool:
        return "data" in self.payload

    @property
    def codes(self) -> set[str]:
        return {error["extensions"]["code"] for error in self.payload.get("errors", ())}


class Executor:
    """One schema with its cache of operations."""

    executor_class: type[CoreExecutor[Any]] = DocumentExecutor

    def __init__(self, schema: strawberry.Schema, settings: Settings) -> None:
        self._schema = schema._schema  # noqa: SLF001 - strawberry has no public way to it
        self.operations = Operations(self._schema, settings)

    async def execute(
        self,
        text: str,
        *,
        variables: Mapping[str, Any],
        name: str | None,
        context: Context,
        may_write: bool = True,
    ) -> Response:
        """Runs the operation. Raises MutationRefused where it is a mutation and may not write."""
        try:
            operation = self.operations.get(text)
            definition = self.operations.check(operation, name, variables)
        except InvalidOperation as refused:
            return Response({"errors": [format_error(error, context) for error in refused.errors]})
        if definition.operation is not OperationType.QUERY:
            if not may_write:
                raise MutationRefused
            # What the caller has just written is read where it was written.
            context.reading = context.db
        context.selections = operation.selections
        result = execute(
            self._schema,
            operation.document,
            context_value=context,
            variable_values=dict(variables),
            operation_name=name,
            executor_class=self.executor_class,
        )
        if inspect.isawaitable(result):
            result = await result
        return _response(result, context)


def _response(result: ExecutionResult, context: Context) -> Response:
    payload: dict[str, Any] = {}
    if result.errors:
        payload["errors"] = [format_error(error, context) for error in result.errors]
        begun = result.data is not None or any(error.path for error in result.errors)
        if not begun:
            return Response(payload)
    payload["data"] = result.data
    return Response(payload)


def format_error(error: GraphQLError, context: Context) -> dict[str, Any]:
    """The error as a client may see it, with a code. A fault is logged, and shows its request id alone."""
    cause = error.original_error
    extensions = dict(error.extensions or {})
    formatted: dict[str, Any] = {"message": error.message}
    if isinstance(cause, errors.DomainError):
        formatted["message"] = cause.message
        extensions = {"code": _CODES.get(type(cause), "CONFLICT")}
        if isinstance(cause, errors.InvalidInput):
            extensions["argument"] = [*(camel_case(part) for part in cause.path), *cause.within]
    elif cause is not None and "code" not in extensions and _is_fault(error, cause):
        extensions = {"code": _fault_code(cause), "requestId": context.request_id}
        formatted["message"] = FAULTS[extensions["code"]]
        logger().error("fault", request_id=context.request_id, path=error.path, exc_info=cause)
    extensions.setdefault("code", "BAD_USER_INPUT")
    if error.locations:
        formatted["locations"] = [{"line": place.line, "column": place.column} for place in error.locations]
    if error.path is not None:
        formatted["path"] = error.path
    return {**formatted, "extensions": extensions}


def _is_fault(error: GraphQLError, cause: BaseException) -> bool:
    """Whether the gateway, and not the caller, is to blame.

    A stored value that does not fit its type fails in a field, too, but names no node of the operation, as a wrong
    argument does.
    """
    return not isinstance(cause, GraphQLError) or (error.path is not None and not cause.nodes)


_CODES: dict[type[errors.DomainError], str] = {
    errors.InvalidInput: "BAD_USER_INPUT",
    errors.NotFound: "NOT_FOUND",
    errors.Conflict: "CONFLICT",
}
FAULTS = {
    "INTERNAL": "Something went wrong inside the gateway. The request id leads to it in the log.",
    "TIMEOUT": "The database did not answer in time.",
    "UNAVAILABLE": "The database cannot be reached.",
}


def _fault_code(cause: BaseException) -> str:
    # That no server was found in time is no slowness of a server.
    if isinstance(cause, ConnectionFailure) and not isinstance(cause, NetworkTimeout):
        return "UNAVAILABLE"
    return "TIMEOUT" if isinstance(cause, PyMongoError) and cause.timeout else "INTERNAL"
