"""Runs operations, and turns failures into errors that a client may see."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
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

from portico.gateway.deadlines import Deadlines
from portico.gateway.memory import Memory
from portico.gateway.operations.plans.describe import describe
from portico.gateway.operations.plans.executor import PlanExecutor, run_reference
from portico.gateway.operations.plans.on_error import DEFAULT, OnError
from portico.gateway.operations.plans.plan import Plan
from portico.gateway.operations.plans.reference import ReferenceExecutor
from portico.gateway.operations.plans.run import Run
from portico.gateway.operations.plans.trace import explain_commands, tracing
from portico.gateway.settings import Settings
from portico.resolvers.answer_bounds import Room
from portico.schema.context import Context, derived
from portico.schema.live_directive import is_live, require_condition

from .admission import Admission
from .documents import InvalidOperation, Operation, Operations
from .manifests import read_documents
from .references import References
from .responses import FAULTS, Response, format_error, response_of
from .trusted import Trusted, checked, compile_all

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
        self.memory = Memory(lambda: not (self.queries.running or self.mutations.running))
        room = Room(note_left=self.memory.note_left)
        bytes_: dict[str, Any] = {"most_bytes": settings.max_answer_bytes, "room": room}
        self.queries = Admission(settings.max_running_queries, *queue, **bytes_)
        self.mutations = Admission(settings.max_running_mutations, *queue, **bytes_)
        # An upload waits for its client, without a slot. It still uses memory, so their number is bounded, too.
        self.uploads = Admission(settings.max_uploads, 0, settings.queue_seconds, self.deadlines)
        self.plans = PlanExecutor(self._schema, hide_suggestions=self._hide_suggestions)
        self.operations = Operations(self._schema, settings)
        self.references = References(settings, self.operations, self._trusted(settings))

    def _trusted(self, settings: Settings) -> Trusted:
        """Returns the trusted documents, which then run without being parsed. Raises DocumentsError."""
        documents = read_documents(settings.document_paths)
        self.operations.trusted = checked(documents, self.operations)
        compile_all(self.operations, self.plans)
        return Trusted(documents)

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
        refusal: InvalidOperation | None = None,
        on_error: OnError = DEFAULT,
        may_stream: bool = False,
        must_run: bool = False,
    ) -> Response | Subscription:
        """Runs a query or a mutation. Returns a valid subscription unrun: `streaming.responses` runs it.

        With `may_stream`, a live query is returned unrun, too. Otherwise it is answered once. With `must_run`, it waits
        for a slot even if too many operations wait.

        A mutation times out after `seconds`; with None, after those of the settings. `charge` is called with the cost
        before the operation runs, and may raise. `on_error` says what an error of a field does to its place. `refusal`
        says why a text cannot run, and is answered like an invalid one. `wants_plan` asks for the plan and commands.

        Raises:   Overloaded; MutationNotAllowed for a mutation without `may_write`.
        """
        is_known = refusal is None and self.operations.is_known_mutation(text, name)
        # Parsing a new text is work, too.
        async with nullcontext() if is_known else self.queries.slot(context.connection, must_run=must_run):
            call = self._call(text, variables, name, context, seconds, charge, refusal, on_error)
            if isinstance(call, Response):
                return call
            operation = call.definition.operation
            if operation is OperationType.SUBSCRIPTION or (may_stream and is_live(call.definition, variables)):
                return Subscription(call)
            if operation is OperationType.QUERY:
                return await self._begun(call, wants_plan=wants_plan)
        return await self._write(call, progress, may_write=may_write, wants_plan=wants_plan)

    async def _write(self, call: Call, progress: Progress | None, *, may_write: bool, wants_plan: bool) -> Response:
        if not may_write:
            raise MutationNotAllowed
        # A mutation that is refused, or whose client leaves the queue, has not begun.
        async with self.mutations.slot(call.context.connection):
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
        refusal: InvalidOperation | None,
        on_error: OnError,
    ) -> Call | Response:
        """Parses, checks and charges an operation. Returns the response of one that is invalid."""
        try:
            if refusal is not None:
                raise refusal
            operation = self.operations.get(text)
            definition, cost = self.operations.check(operation, name, variables)
            require_condition(definition, variables)
        except (InvalidOperation, GraphQLError) as invalid:
            if charge is not None:
                charge(_COST_OF_REFUSAL)
            errors = invalid.errors if isinstance(invalid, InvalidOperation) else [invalid]
            return Response({"errors": [format_error(error, context) for error in errors]})
        if context.record is not None:
            context.record.identify(definition, operation.document)
        if charge is not None:
            charge(cost)
        selections = operation.selections
        if definition.operation is OperationType.QUERY:
            here = derived(context, selections=selections)
            return Call(operation, definition, variables, name, here, on_error=on_error)
        # A secondary may not have the caller's own writes, or the newest events.
        here = derived(context, selections=selections, reading=context.db)
        is_mutation = definition.operation is OperationType.MUTATION
        return Call(operation, definition, variables, name, here, seconds if is_mutation else None, on_error=on_error)

    def kind_of(self, text: str, name: str | None) -> OperationType | None:
        """Returns whether the text is a query, a mutation or a subscription; None if it is not valid."""
        try:
            return self.operations.get(text).definition(name).operation
        except InvalidOperation:
            return None

    def max_age(self, text: str, name: str | None) -> int:
        """Returns how many seconds old the answer that a store uses may be; 0 if the text is not valid."""
        try:
            return self.operations.max_age(text, name)
        except InvalidOperation:
            return 0

    def lasts(self, text: str, name: str | None, variables: Mapping[str, Any]) -> bool:
        """Returns whether the text is a subscription or a live query, which can have many responses."""
        try:
            definition = self.operations.get(text).definition(name)
        except InvalidOperation:
            return False
        return definition.operation is OperationType.SUBSCRIPTION or is_live(definition, variables)

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
                on_error=call.on_error,
            )
        return self.plans.run(
            call.operation, call.definition, call.variables, call.context, call.root, on_error=call.on_error
        )

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


@dataclass(slots=True, eq=False)
class Call:
    """One operation to run, as requested. Nothing changes it; declared as frozen, it would take five times as long.

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
    on_error: OnError = DEFAULT


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription or a live query that is valid and within the limits, and has not started."""

    call: Call
