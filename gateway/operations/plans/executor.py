"""The two executors: one runs compiled plans; the other is graphql-core's, the reference and the fallback.

graphql-core runs operations with `__schema`, `__type` or `__service`, fragment variables, and operations where a
variable of `@include` or `@skip` has a default and its value is null; with `PORTICO_EXECUTOR=reference`, everything.
Both executors give the same answers. Two differences are allowed: if several errors cause the same null, each executor
may report a different one, and errors of concurrent fields may come in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, cast

from graphql import (
    DocumentNode,
    ExecutionResult,
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLSchema,
    MiddlewareManager,
    OperationDefinitionNode,
    VariableDefinitionNode,
    execute,
)
from graphql.execution.values import VariableValues, get_variable_values
from graphql.pyutils import is_awaitable

from portico.resolvers.answer_bounds import AnswerTooLarge

from .compiler import compile_operation, conditions_of
from .on_error import DEFAULT, REFERENCES, RUNS, OnError
from .plan import InvalidVariables, NotCompiled, Plan
from .variables import Variables

# The most plans that are cached for an operation. Each is for one combination of its conditions.
_MAX_PLANS = 32
NO_VARIABLES = VariableValues({}, {})

Result = ExecutionResult | Awaitable[ExecutionResult]


class Planned(Protocol):
    """A valid document, with caches for its plans, and for the variables and conditions of each of its operations."""

    document: DocumentNode
    plans: dict[Hashable, Plan | NotCompiled]
    variables: dict[int, Variables]
    conditions: dict[int, tuple[str, ...]]


def run_reference(
    schema: GraphQLSchema,
    document: DocumentNode,
    name: str | None,
    variables: Mapping[str, Any],
    context: Any,
    root_value: Any = None,
    *,
    hide_suggestions: bool = False,
    on_error: OnError = DEFAULT,
) -> Result:
    record = getattr(context, "record", None)
    try:
        result = execute(
            schema,
            document,
            root_value,
            context_value=context,
            variable_values=dict(variables),
            operation_name=name,
            executor_class=REFERENCES[on_error],
            middleware=None if record is None else _recording(record),
            hide_suggestions=hide_suggestions,
        )
    except GraphQLError as error:
        return _stopped_by(error)
    return _finished(result) if is_awaitable(result) else _without_rest(cast("ExecutionResult", result))


async def _finished(result: Awaitable[ExecutionResult]) -> ExecutionResult:
    try:
        return _without_rest(await result)
    except GraphQLError as error:
        return _stopped_by(error)


def _stopped_by(error: GraphQLError) -> ExecutionResult:
    """Returns the result of an operation whose root has too many errors. Raises any other error again."""
    if not isinstance(error.original_error, AnswerTooLarge):
        raise error
    return ExecutionResult(None, [error])


def _without_rest(result: ExecutionResult) -> ExecutionResult:
    """Returns only the error if the answer is too large, as a plan does."""
    for error in result.errors or ():
        if isinstance(error.original_error, AnswerTooLarge):
            return ExecutionResult(None, [error])
    return result


def _recording(record: Any) -> MiddlewareManager:
    """Returns middleware with which telemetry records the resolvers that wait."""

    def resolve(resolver: Callable[..., Any], source: Any, info: GraphQLResolveInfo[Any], **given: Any) -> Any:
        value = resolver(source, info, **given)
        return record.resolving(value, info.parent_type.name, info.field_name) if is_awaitable(value) else value

    return MiddlewareManager(resolve)


class PlanExecutor:
    """Runs operations by plans, which are compiled once and cached with the operation.

    `compiled` counts the operations that ran by a plan. `fallbacks` counts those that graphql-core ran, by the reason.
    With `hide_suggestions`, errors about variables suggest no names of the schema.
    """

    def __init__(self, schema: GraphQLSchema, *, hide_suggestions: bool = False) -> None:
        self._schema = schema
        self._hide_suggestions = hide_suggestions
        self.compiled = 0
        self.fallbacks: Counter[str] = Counter()

    def run(
        self,
        operation: Planned,
        definition: OperationDefinitionNode,
        variables: Mapping[str, Any],
        context: Any,
        root_value: Any = None,
        on_error: OnError = DEFAULT,
    ) -> Result:
        """Runs one operation of a valid document. Returns the result or an awaitable of it."""
        coerced = self._variables(operation, definition, variables)
        if isinstance(coerced, list):
            return ExecutionResult(None, coerced)
        plan = self.plan(operation, definition, coerced.coerced)
        if isinstance(plan, NotCompiled):
            self.fallbacks[str(plan)] += 1
            name = None if definition.name is None else definition.name.value
            return run_reference(
                self._schema,
                operation.document,
                name,
                variables,
                context,
                root_value,
                hide_suggestions=self._hide_suggestions,
                on_error=on_error,
            )
        self.compiled += 1
        return RUNS[on_error](plan, coerced, context, root_value).start()

    def plan_of(
        self, operation: Planned, definition: OperationDefinitionNode, variables: Mapping[str, Any]
    ) -> Plan | NotCompiled:
        """Returns the plan for these variables, or NotCompiled with the reason.

        Variables that no condition uses may be left out, because the plan does not depend on their values.

        Raises:   InvalidVariables.
        """
        conditions = conditions_of(operation.document, definition)
        needed = [
            variable
            for variable in definition.variable_definitions or ()
            if (name := variable.variable.name.value) in variables or name in conditions
        ]
        coerced = self._coerced(needed, variables)
        if isinstance(coerced, list):
            raise InvalidVariables(coerced)
        return self.plan(operation, definition, coerced.coerced)

    def _variables(
        self, operation: Planned, definition: OperationDefinitionNode, given: Mapping[str, Any]
    ) -> VariableValues | list[GraphQLError]:
        """Returns the coerced variables of an operation, or the errors of those that are invalid."""
        definitions = definition.variable_definitions
        if not definitions:
            return NO_VARIABLES
        known = operation.variables.get(id(definition))
        if known is None:
            known = operation.variables[id(definition)] = Variables(self._schema, definitions)
        return known.of(given) or self._coerced(definitions, given)

    def _coerced(
        self, definitions: Sequence[VariableDefinitionNode] | None, variables: Mapping[str, Any]
    ) -> VariableValues | list[GraphQLError]:
        if not definitions:
            return NO_VARIABLES
        given = cast("dict[str, Any]", variables)
        return get_variable_values(
            self._schema, tuple(definitions), given, max_errors=50, hide_suggestions=self._hide_suggestions
        )

    def conditions(self, operation: Planned, definition: OperationDefinitionNode) -> tuple[str, ...]:
        """Returns the names of the variables that the plan depends on."""
        names = operation.conditions.get(id(definition))
        if names is None:
            names = operation.conditions[id(definition)] = conditions_of(operation.document, definition)
        return names

    def plan(
        self, operation: Planned, definition: OperationDefinitionNode, variables: Mapping[str, Any]
    ) -> Plan | NotCompiled:
        """Returns the plan for these coerced variables, or NotCompiled with the reason."""
        names = operation.conditions.get(id(definition))
        if names is None:
            names = self.conditions(operation, definition)
        conditions = {name: variables[name] for name in names if name in variables}
        if any(value.__class__ is not bool for value in conditions.values()):
            # A variable with a default can be null in a condition. Each object with the condition is then an error.
            return NotCompiled("a condition of null")
        key = (id(definition), *conditions.items())
        plan = operation.plans.get(key)
        if plan is None:
            try:
                plan = compile_operation(self._schema, operation.document, definition, conditions)
            except NotCompiled as reason:
                # The cached exception must not keep the frames of this request.
                plan = reason.with_traceback(None)
            if len(operation.plans) >= _MAX_PLANS:
                operation.plans.clear()
            operation.plans[key] = plan
        return plan
