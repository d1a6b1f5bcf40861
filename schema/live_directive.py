"""The directive `@live`: the client wants each newer answer to its query, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import (
    BooleanValueNode,
    DirectiveLocation,
    DirectiveNode,
    GraphQLArgument,
    GraphQLBoolean,
    GraphQLDirective,
    GraphQLError,
    GraphQLNonNull,
    GraphQLSchema,
    OperationDefinitionNode,
    OperationType,
    ValueNode,
    VariableNode,
)

LIVE = GraphQLDirective(
    "live",
    [DirectiveLocation.QUERY],
    args={
        "if": GraphQLArgument(
            GraphQLNonNull(GraphQLBoolean), default_value=True, description="Whether to send newer answers."
        )
    },
    description="Sends the answer, and again whenever it has changed, over a WebSocket or as server-sent events. Other "
    "requests are answered once.",
)


def add_live(schema: GraphQLSchema) -> None:
    """Adds the directive to the schema."""
    schema.directives = (*schema.directives, LIVE)


def is_live(definition: OperationDefinitionNode, variables: Mapping[str, Any]) -> bool:
    """Returns whether the operation is a live query, with these variables."""
    found = _directive(definition)
    return found is not None and _condition(found, definition, variables) is True


def require_condition(definition: OperationDefinitionNode, variables: Mapping[str, Any]) -> None:
    """Raises a GraphQLError if `if` of the directive is null by a variable."""
    found = _directive(definition)
    if found is not None and _condition(found, definition, variables) is None:
        raise GraphQLError(
            f"Argument 'if' of `@{LIVE.name}` must not be null.", found, extensions={"code": "BAD_USER_INPUT"}
        )


def _directive(definition: OperationDefinitionNode) -> DirectiveNode | None:
    if not definition.directives or definition.operation is not OperationType.QUERY:
        return None
    return next((directive for directive in definition.directives if directive.name.value == LIVE.name), None)


def _condition(directive: DirectiveNode, definition: OperationDefinitionNode, variables: Mapping[str, Any]) -> Any:
    """Returns the value of `if`, which is not coerced yet."""
    given = next((argument.value for argument in directive.arguments or ()), None)
    return True if given is None else _value(given, definition, variables)


def _value(given: ValueNode, definition: OperationDefinitionNode, variables: Mapping[str, Any]) -> Any:
    if isinstance(given, VariableNode):
        name = given.name.value
        if name in variables:
            return variables[name]
        declared = definition.variable_definitions or ()
        default = next((one.default_value for one in declared if one.variable.name.value == name), None)
        if default is None:
            # A variable without a value leaves the argument out.
            return True
        given = default
    return given.value if isinstance(given, BooleanValueNode) else None
