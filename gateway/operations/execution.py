"""Runs operations, and turns failures into errors that a client may see."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import strawberry
from graphql import (
    ExecutionResult,
    GraphQLError,
    OperationDefinitionNode,
    OperationType,
    create_source_event_stream,
)

from portico.gateway.deadlines import Deadlines
from portico.gateway.logs import logger
from portico.gateway.operations.plans.describe import describe
from portico.gateway.operations.plans.executor import PlanExecutor, ReferenceExecutor, run_reference
from portico.gateway.operations.plans.plan import Plan
from portico.gateway.operations.plans.run import Run
from portico.gateway.operations.plans.trace import explain_commands, tracing
from portico.gateway.operations.plans.values import NullValue
from portico.gateway.outages import fault_code, log_fault
from portico.gateway.settings import Settings
from portico.resolvers import errors
from portico.resolvers.answer_bounds import METER, AnswerTooLarge, Room
from portico.schema.context import Context, derived
from portico.schema.errors import camel_case

from .admission import Admission
from .documents import InvalidOperation, Operation, Operations
from .json_text import compact, encode

TOO_LARGE = "ANSWER_TOO_LARGE"
Charge = Callable[[float], None]
_COST_OF_REFUSAL = 1.0


class MutationNotAllowed(Exception):
    """The operation is a mutation, but the HTTP method of the request must not change anything."""


@dataclass(slots=True)
class Progress:
    """How far an operation is, for the connection that it came by.

    `live` is set as soon as a subscription misses no more events. `is_write` is set when a mutation begins: it runs to
    its end, even if its client disconnects.
    """

    live: asyncio.Event = field(default_factory=asyncio.Event)
    is_write: bool = False


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


class Executor:
    """Runs the operations of one schema, and caches the parsed ones."""

    def __init__(self, schema: strawberry.Schema, settings: Settings) -> None:
        self._schema = schema._schema  # noqa: SLF001 - strawberry has no public name for it
        self.name = settings.executor
        self._seconds = settings.operation_seconds
        self._shows_plans = settings.show_plans
        self._hide_suggestions = not settings.allows_introspection
        self.deadlines = Deadlines()
        queue = settings.max_queued, settings.queue_seconds, self.deadlines
        bytes_: dict[str, Any] = {"most_bytes": settings.max_answer_bytes, "room": Room()}
        self.queries = Admission(settings.max_running_queries, *queue, **bytes_)
        self.mutations = Admission(settings.max_running_mutations, *queue, **bytes_)
        # An upload waits for its client, without a slot. It still uses memory, so their number is bounded, too.
        self.uploads = Admission(settings.max_uploads, 0, settings.queue_seconds, self.deadlines)
        self.plans = PlanExecutor(self._schema, hide_suggestions=self._hide_suggestions)
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
        charge: Charge | None = None,
        progress: Progress | None = None,
    ) -> Response | Subscription:
        """Runs a query or a mutation. Returns a valid subscription unrun: `streaming.responses` runs it.

        A mutation times out after `seconds`; with None, after the seconds of the settings.
        `charge` is called with the cost of the operation before it runs, and may raise an error of its own.
        With `wants_plan`, if the settings allow it, the response has the plan and the commands sent to MongoDB.

        Raises:   Overloaded; MutationNotAllowed for a mutation without `may_write`.
        """
        # Parsing a new text is work, too.
        async with self.queries.slot(context.connection):
            call = self._call(text, variables, name, context, seconds, charge)
            if isinstance(call, Response):
                return call
            if call.definition.operation is OperationType.SUBSCRIPTION:
                return Subscription(call)
            if call.definition.operation is OperationType.QUERY:
                return await self._begun(call, wants_plan=wants_plan)
        if not may_write:
            raise MutationNotAllowed
        # A mutation that is refused, or whose client leaves the queue, has not begun.
        async with self.mutations.slot(context.connection):
            if progress is not None:
                progress.is_write = True
            return await self._begun(call, wants_plan=wants_plan)

    def _begun(self, call: Call, *, wants_plan: bool) -> Awaitable[Response]:
        return self._traced(call) if wants_plan and self._shows_plans else self._response(call)

    async def _response(self, call: Call) -> Response:
        return response_of(await self.run(call), call.context)

    def _call(
        self,
        text: str,
        variables: Mapping[str, Any],
        name: str | None,
        context: Context,
        seconds: int | None,
        charge: Charge | None,
    ) -> Call | Response:
        """Parses, checks and charges an operation. Returns the response of one that is invalid."""
        try:
            operation = self.operations.get(text)
            definition, cost = self.operations.check(operation, name, variables)
        except InvalidOperation as invalid:
            if charge is not None:
                charge(_COST_OF_REFUSAL)
            return Response({"errors": [format_error(error, context) for error in invalid.errors]})
        if context.record is not None:
            context.record.identify(definition, operation.document)
        if charge is not None:
            charge(cost)
        selections = operation.selections
        if definition.operation is OperationType.QUERY:
            return Call(operation, definition, variables, name, derived(context, selections=selections))
        # A secondary may not have the caller's own writes, or the newest events.
        here = derived(context, selections=selections, reading=context.db)
        is_mutation = definition.operation is OperationType.MUTATION
        return Call(operation, definition, variables, name, here, seconds if is_mutation else None)

    def kind_of(self, text: str, name: str | None) -> OperationType | None:
        """Returns whether the text is a query, a mutation or a subscription; None if it is not valid."""
        try:
            return self.operations.get(text).definition(name).operation
        except InvalidOperation:
            return None

    async def run(self, call: Call) -> ExecutionResult:
        """Runs a call. Fields that are not finished when the operation times out get an error; the others keep their
        values. If graphql-core runs the operation, a timeout leaves no data at all.
        """
        result: ExecutionResult | Awaitable[ExecutionResult] | None = None
        try:
            # Each command has its own, shorter timeout. This one bounds many commands, and everything else.
            with self.deadlines.limit(call.seconds or self._seconds):
                result = self._begin(call)
                return result if isinstance(result, ExecutionResult) else await result
        except asyncio.CancelledError:
            call.context.loaders.stop()
            if isinstance(result, Run):
                result.discard_pending()
            raise
        except TimeoutError as error:
            call.context.loaders.stop()
            if isinstance(result, Run):
                return result.timed_out(error)
            return ExecutionResult(None, [GraphQLError(FAULTS["TIMEOUT"], original_error=error)])
        finally:
            call.context.forget_reads()

    async def source_of(self, call: Call) -> Any:
        """Returns the stream of a subscription's occurrences, or an ExecutionResult without data if it fails."""
        executor = ReferenceExecutor.build(
            self._schema,
            call.operation.document,
            context_value=call.context,
            raw_variable_values=dict(call.variables),
            operation_name=call.name,
            hide_suggestions=self._hide_suggestions,
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
                self._schema,
                call.operation.document,
                call.name,
                call.variables,
                call.context,
                call.root,
                hide_suggestions=self._hide_suggestions,
            )
        return self.plans.run(call.operation, call.definition, call.variables, call.context, call.root)

    async def _traced(self, call: Call) -> Response:
        with tracing() as trace:
            response = response_of(await self.run(call), call.context)
        if not response.has_begun:
            # Nothing ran, so there is nothing to show. There may be no plan for these variables.
            return response
        plan = self.plans.plan_of(call.operation, call.definition, call.variables)
        shown: dict[str, Any] = {"executor": self.name, "commands": await explain_commands(trace, call.context.db)}
        if isinstance(plan, Plan):
            shown |= describe(plan)
        else:
            shown |= {"executor": "reference", "not compiled": str(plan)}
        response.payload["extensions"] = {"plan": shown}
        return response


@dataclass(frozen=True, slots=True)
class Call:
    """One operation to run, as requested.

    It times out after `seconds`; with None, after the seconds of the settings. `root` is the root value of one event
    of a subscription.
    """

    operation: Operation
    definition: OperationDefinitionNode
    variables: Mapping[str, Any]
    name: str | None
    context: Context
    seconds: int | None = None
    root: Any = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription that is valid and within the limits, and has not started."""

    call: Call


def response_of(result: ExecutionResult, context: Context) -> Response:
    payload: dict[str, Any] = {}
    if result.errors:
        payload["errors"] = [format_error(error, context) for error in result.errors]
        for error in result.errors:
            _drop_frames(error)
        # An error without a path means that nothing ran, unless the whole operation timed out.
        begun = any(error.path or isinstance(error.original_error, TimeoutError) for error in result.errors)
        if result.data is None and not begun:
            return Response(payload)
    payload["data"] = result.data
    meter = METER.get()
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
            extensions["argument"] = [*(camel_case(part) for part in cause.path), *cause.within]
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
    "UNAVAILABLE": "The gateway cannot reach the database. Try again later.",
}
