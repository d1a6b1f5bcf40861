"""Computes the arguments of a field. Values that do not depend on variables are coerced once."""

from __future__ import annotations

from typing import Any

from graphql import FieldNode, GraphQLField, GraphQLNonNull, ValueNode, VariableNode, Visitor, visit
from graphql.execution.values import VariableValues, get_argument_values
from graphql.language.visitor import BREAK

_NO_ARGUMENTS: dict[str, Any] = {}


class Arguments:
    """The arguments of a field without arguments, and the base class for other fields."""

    def of(self, _variables: VariableValues) -> dict[str, Any]:
        """Returns the values by the parameter names of the resolver. Do not change the dict. Raises GraphQLError."""
        return _NO_ARGUMENTS


class _Given(Arguments):
    """The arguments of a field with arguments. graphql-core coerces them and reports errors."""

    def __init__(self, definition: GraphQLField, node: FieldNode) -> None:
        self._definition = definition
        self._node = node
        given = {argument.name.value: argument.value for argument in node.arguments or ()}
        self._constant: dict[str, Any] | None = None
        # Arguments whose value is one variable, already coerced: (parameter, variable, whether null is allowed).
        self._variables: list[tuple[str, str, bool]] = []
        self._is_simple = True
        for name, argument in definition.args.items():
            value = given.get(name)
            if isinstance(value, VariableNode):
                may_be_null = not isinstance(argument.type, GraphQLNonNull)
                self._variables.append((argument.out_name or name, value.name.value, may_be_null))
            elif value is not None and _has_variable(value):
                self._is_simple = False

    def of(self, variables: VariableValues) -> dict[str, Any]:
        constant = self._constant
        if constant is None:
            coerced = get_argument_values(self._definition, self._node, variables)
            if self._is_simple:
                of_variables = {name for name, _, _ in self._variables}
                self._constant = {name: value for name, value in coerced.items() if name not in of_variables}
            return coerced
        if not self._variables:
            return constant
        values = dict(constant)
        for name, variable, may_be_null in self._variables:
            value = variables.coerced.get(variable)
            if value is None and not (may_be_null and variable in variables.coerced):
                # Left out, or null where it is not allowed: graphql-core applies the default or reports the error.
                return get_argument_values(self._definition, self._node, variables)
            values[name] = value
        return values


class _VariableFinder(Visitor):
    found = False

    def enter_variable(self, *_: Any) -> Any:
        self.found = True
        return BREAK


def _has_variable(value: ValueNode) -> bool:
    finder = _VariableFinder()
    visit(value, finder)
    return finder.found


# Most fields have no arguments, so they share one object.
_NONE = Arguments()


def compile_arguments(definition: GraphQLField, node: FieldNode) -> Arguments:
    return _Given(definition, node) if definition.args or node.arguments else _NONE
