"""The directive `@live`: the client wants each newer answer to its query, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import (
    BooleanValueNode,
    DirectiveLocation,
    GraphQLArgument,
    GraphQLBoolean,
    GraphQLDirective,
    GraphQLNonNull,
    GraphQLSchema,
    OperationDefinitionNode,
    OperationType,
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
    if definition.operation is not OperationType.QUERY:
        return False
    for directive in definition.directives or ():
        if directive.name.value == LIVE.name:
            return all(_is_true(argument.value, definition, variables) for argument in directive.arguments or ())
    return False


def _is_true(value: Any, definition: OperationDefinitionNode, variables: Mapping[str, Any]) -> bool:
    if isinstance(value, VariableNode):
        name = value.name.value
        if name in variables:
            return variables[name] is True
        defaults = (
            one.default_value for one in definition.variable_definitions or () if one.variable.name.value == name
        )
        value = next(defaults, None)
    return isinstance(value, BooleanValueNode) and value.value
