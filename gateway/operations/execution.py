"""Runs operations, and turns what went wrong into errors that a client may see."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any

import strawberry
from graphql import (
    ExecutionResult,
    GraphQLError,
    OperationDefinitionNode,
    OperationType,
    create_source_event_stream,
)
from pymongo.errors import ConnectionFailure, NetworkTimeout, PyMongoError

from portico.gateway.logs import logger
from portico.gateway.operations.plans.describe import describe
from portico.gateway.operations.plans.executor import PlanExecutor, ReferenceExecutor, run_reference
from portico.gateway.operations.plans.plan import Plan
from portico.gateway.operations.plans.run import Run
from portico.gateway.operations.plans.trace import examined, tracing
from portico.gateway.settings import Settings
from portico.resolvers import errors
from portico.schema.context import Context
from portico.schema.errors import camel_case

from .documents import InvalidOperation, Operation, Operations


class MutationRefused(Exception):
    """A mutation came by a method that must not change anything."""


class SubscriptionRefused(Exception):
    """A subscription came by a way that takes one answer. It is valid, and within the limits."""

    def __init__(self, operation: Operation, definition: OperationDefinitionNode) -> None:
        super().__init__()
        self.operation, self.definition = operation, definition


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: `data` is absent where the operation did not begin. `headers` go with it."""

    payload: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_begun(self) -> bool:
        return "data" in self.payload

    @property
    def codes(self) -> set[str]:
        return {error["extensions"]["code"] for error in self.payload.get("errors", ())}


class Executor:
    """One schema with its cache of operations."""

    def __init__(self, schema: strawberry.Schema, settings: Settings) -> None:
        self._schema = schema._schema  # noqa: SLF001 - strawberry has no public way to it
        self.name = settings.executor
        self._seconds = settings.operation_seconds
        self._shows_plans = settings.show_plans
        self.plans = PlanExecutor(self._schema)
        self.operations = Operations(self._schema, settings)

    async def execute(
        self,
        text: str,
        *,
        variables: Mapping[str, Any],
        name: str | None,
        context: Context,
        may_write: bool = True,
        wants_plan: bool = False,
        seconds: int | None = None,
    ) -> Response:
        """Runs the operation. Raises MutationRefused where it is a mutation and may not write, and SubscriptionRefused
        where it is a subscription: `streaming.responses` runs those, too.

        A mutation may take `seconds`, with None as long as the settings say.
        With `wants_plan`, and where the settings allow it, the answer has its plan and what was sent to MongoDB.
        """
        try:
            operation = self.operations.get(text)
            definition = self.operations.check(operation, name, variables)
        except InvalidOperation as refused:
            return Response({"errors": [format_error(error, context) for error in refused.errors]})
        if definition.operation is OperationType.SUBSCRIPTION:
            raise SubscriptionRefused(operation, definition)
        is_mutation = definition.operation is OperationType.MUTATION
        if is_mutation:
            if not may_write:
                raise MutationRefused
            # What the caller has just written is read where it was written.
            context.reading = context.db
            context.is_write = True
        context.selections = operation.selections
        call = Call(operation, definition, variables, name, context, seconds if is_mutation else None)
        if wants_plan and self._shows_plans:
            return await self._traced(call)
        return response_of(await self.run(call), context)

    def kind_of(self, text: str, name: str | None) -> OperationType | None:
        """Whether it is a query, a mutation or a subscription; None where it is not valid."""
        try:
            return self.operations.get(text).definition(name).operation
        except InvalidOperation:
            return None

    async def run(self, call: Call) -> ExecutionResult:
        """The result. Fields that take longer than an operation may are time-outs, and the others are answered.

        Of what graphql-core runs, nothing can be had before all of it has ended.
        """
        result: ExecutionResult | Awaitable[ExecutionResult] | None = None
        try:
            # A command has less time, and ends by itself; this is for many of them, and for all else.
            async with asyncio.timeout(call.seconds or self._seconds):
                result = self._begin(call)
                return await result if inspect.isawaitable(result) else result
        except asyncio.CancelledError:
            call.context.loaders.stop()
            if isinstance(result, Run):
                result.drop()
            raise
        except TimeoutError as error:
            call.context.loaders.stop()
            if isinstance(result, Run):
                return result.given_up(error)
            return ExecutionResult(None, [GraphQLError(FAULTS["TIMEOUT"], original_error=error)])

    async def source_of(self, call: Call) -> Any:
        """The stream of a subscription's occurrences; an ExecutionResult, which has no data, where there is none."""
        executor = ReferenceExecutor.build(
            self._schema,
            call.operation.document,
            context_value=call.context,
            raw_variable_values=dict(call.variables),
            operation_name=call.name,
        )
        if isinstance(executor, list):
            return ExecutionResult(None, executor)
        source = create_source_event_stream(executor)
        try:
            async with asyncio.timeout(self._seconds):
                return await source if inspect.isawaitable(source) else source
        except TimeoutError as error:
            return ExecutionResult(None, [GraphQLError(FAULTS["TIMEOUT"], original_error=error)])

    def _begin(self, call: Call) -> ExecutionResult | Awaitable[ExecutionResult]:
        if self.name == "reference":
            return run_reference(
                self._schema, call.operation.document, call.name, call.variables, call.context, call.root
            )
        return self.plans.run(call.operation, call.definition, call.variables, call.context, call.root)

    async def _traced(self, call: Call) -> Response:
        with tracing() as trace:
            response = response_of(await self.run(call), call.context)
        if not response.has_begun:
            # Nothing ran, so there is nothing to show; it may be that no plan is for these variables.
            return response
        plan = self.plans.plan_of(call.operation, call.definition, call.variables)
        shown: dict[str, Any] = {"executor": self.name, "commands": await examined(trace, call.context.db)}
        if isinstance(plan, Plan):
            shown |= describe(plan)
        else:
            shown |= {"executor": "reference", "not compiled": str(plan)}
        response.payload["extensions"] = {"plan": shown}
        return response


@dataclass(frozen=True, slots=True)
class Call:
    """One operation to run, as it was asked for.

    It may take `seconds`, or as long as the settings say. `root` is what one event of a subscription is about.
    """

    operation: Operation
    definition: OperationDefinitionNode
    variables: Mapping[str, Any]
    name: str | None
    context: Context
    seconds: int | None = None
    root: Any = None


def response_of(result: ExecutionResult, context: Context) -> Response:
    payload: dict[str, Any] = {}
    if result.errors:
        payload["errors"] = [format_error(error, context) for error in result.errors]
        for error in result.errors:
            _drop_frames(error)
        # What is refused before anything runs has no path; the whole operation has none, either, when it is given up.
        begun = any(error.path or isinstance(error.original_error, TimeoutError) for error in result.errors)
        if result.data is None and not begun:
            return Response(payload)
    payload["data"] = result.data
    return Response(payload)


def _drop_frames(error: GraphQLError) -> None:
    """Drops the tracebacks of an error and of its causes.

    Their frames hold the run, and the run holds the error: without the collector, the request would stay in memory.
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
    "TIMEOUT": "It took too long, and was given up.",
    "UNAVAILABLE": "The database cannot be reached.",
}


def _fault_code(cause: BaseException) -> str:
    # That no server was found in time is no slowness of a server.
    if isinstance(cause, ConnectionFailure) and not isinstance(cause, NetworkTimeout):
        return "UNAVAILABLE"
    is_late = isinstance(cause, TimeoutError) or (isinstance(cause, PyMongoError) and cause.timeout)
    return "TIMEOUT" if is_late else "INTERNAL"
