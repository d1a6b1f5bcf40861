"""Estimates how many objects the fields of one operation can return, from page sizes, list lengths and variables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from operator import itemgetter
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLField,
    GraphQLInt,
    GraphQLList,
    GraphQLNonNull,
    InlineFragmentNode,
    IntValueNode,
    ListValueNode,
    NullValueNode,
    ObjectValueNode,
    OperationDefinitionNode,
    SelectionNode,
    StringValueNode,
    ValueNode,
    VariableNode,
    get_named_type,
)

from portico.schema.fields import Cost, Length, cost_of

MAX_FIRST = 100
# The assumed length of a list whose field declares none.
DEFAULT_LENGTH = 100
# Integers with fewer digits fit into 32 bits.
_BITS_32 = 10
# What the conversion of arguments costs, in units of 10 µs: 22 µs for an object of two texts, in each field that it is
# passed to, and up to 0.3 µs for a character. Smaller arguments than a step are free.
_VALUE, _CHARACTERS, _STEP = 0.75, 50, 20


def facts_of(variables: Mapping[str, Any], names: Container[str]) -> tuple[Any, ...]:
    """Returns what the sizes depend on: numbers, conditions, lengths, and which of the named input fields are set.

    Of an input object, it also has the lengths of its lists: see `Cost.weights`.
    """
    facts: list[Any] = []
    for variable, value in variables.items():
        if value is None or isinstance(value, (bool, int, float)):
            facts.append((variable, value))
        elif isinstance(value, str):
            facts.append((variable, bool(value), stepped(_size_of(value))))
        elif isinstance(value, list):
            facts.append((variable, len(value), stepped(_size_of(value))))
        elif isinstance(value, Mapping):
            of_fields: list[Any] = [name for name, given in value.items() if given and name in names]
            of_fields += [(name, len(given)) for name, given in value.items() if isinstance(given, list)]
            facts.append((variable, stepped(_size_of(value)), *of_fields))
    return tuple(facts)


def stepped(size: float) -> int:
    """Returns the size as it counts: in whole steps, so that most inputs have the same facts."""
    return int(size) // _STEP * _STEP


def _size_of(given: Any) -> float:
    """Returns the size of a value of a variable, by its values and its characters."""
    values = characters = 0
    pending = [given]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, list):
            values += len(value)
            pending += value
        elif isinstance(value, Mapping):
            values += len(value)
            pending += value.values()
    return values * _VALUE + characters / _CHARACTERS


class Sizes:
    """The sizes that an operation asks for with these variables, which are not coerced yet."""

    def __init__(self, operation: OperationDefinitionNode, variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self._of_variables: dict[str, int] = {}
        self._roots = operation.selection_set.selections
        self._defaults = {node.variable.name.value: node.default_value for node in operation.variable_definitions or ()}

    def arguments(self, node: FieldNode) -> int:
        """Returns what the arguments of a field cost by their size. A variable counts in each field that uses it."""
        given = node.arguments
        return sum(stepped(self._size(one.value)) for one in given) if given else 0

    def _size(self, given: ValueNode) -> float:
        if isinstance(given, VariableNode):
            return self._of_variable(given.name.value)
        if isinstance(given, ListValueNode):
            return len(given.values) * _VALUE + sum(map(self._size, given.values))
        if isinstance(given, ObjectValueNode):
            return len(given.fields) * _VALUE + sum(self._size(field.value) for field in given.fields)
        return len(given.value) / _CHARACTERS if isinstance(given, StringValueNode) else 0

    def _of_variable(self, name: str) -> int:
        """Returns the size of a variable, or of its default, in whole steps: it is one of the facts."""
        if name not in self._of_variables:
            default = self._defaults.get(name)
            if name in self._variables:
                self._of_variables[name] = stepped(_size_of(self._variables[name]))
            else:
                self._of_variables[name] = 0 if default is None else stepped(self._size(default))
        return self._of_variables[name]

    def largest(self) -> tuple[str, int]:
        """Returns the variable that costs most by its size, and what it costs wherever it is used."""
        return max(self._of_variables.items(), key=itemgetter(1), default=("", 0))

    def page(self, node: FieldNode, field: GraphQLField) -> float:
        """Returns how many rows a connection can have."""
        if "first" not in field.args:
            return MAX_FIRST
        default = int(field.args["first"].default_value or 1)
        given, last = argument(node, "first"), argument(node, "last")
        size = self._number(given, default)
        if last is not None and "last" in field.args:
            # The page has the one or the other number of rows.
            size = max(self._number(last, default), 1 if given is None else size)
        return min(max(size, 1), MAX_FIRST)

    def length(self, node: FieldNode, field: GraphQLField) -> int:
        """Returns the number of values that the field counts as. The rows of a page count separately."""
        cost = cost_of(field)
        most = length_of(field, cost)
        if cost.each is None:
            return most
        if cost.each not in field.args:
            return min(self._of_roots(cost.each, most), most)
        given = argument(node, cost.each)
        if get_named_type(field.args[cost.each].type) is GraphQLInt:
            default = int(field.args[cost.each].default_value or most)
            return int(min(max(self._number(given, default), 0), most))
        return min(self._values(given, most), most)

    def _of_roots(self, name: str, most: int) -> int:
        """Returns the most values that this argument of a root field has; `most` if a root field is in a fragment."""
        return max(
            self._values(argument(node, name), 0) if isinstance(node, FieldNode) else most for node in self._roots
        )

    def given(self, node: FieldNode, name: str, most: Length | None) -> int:
        """Returns how many values an argument has, up to a number `most`. The name is as in `Cost.weights`."""
        outer, _, field = name.partition(".")
        given = argument(node, outer)
        values = self._values_in(given, field) if field else self._values(given, 0)
        return min(values, most) if isinstance(most, int) else values

    def _values_in(self, given: ValueNode | None, field: str) -> int:
        """Returns how many values a field of an input object has."""
        if isinstance(given, ObjectValueNode):
            return self._values(next((one.value for one in given.fields if one.name.value == field), None), 0)
        if not isinstance(given, VariableNode):
            return 0
        name = given.name.value
        if name not in self._variables:
            return self._values_in(self._defaults.get(name), field)
        value = self._variables[name]
        inner = value.get(field) if isinstance(value, Mapping) else None
        return len(inner) if isinstance(inner, list) else int(inner is not None)

    def _values(self, given: ValueNode | None, default: int) -> int:
        """Returns how many values an argument has. GraphQL coerces a single value to a list of one."""
        if isinstance(given, ListValueNode):
            return len(given.values)
        if not isinstance(given, VariableNode):
            return default if given is None or isinstance(given, NullValueNode) else 1
        name = given.name.value
        if name not in self._variables:
            return self._values(self._defaults.get(name), default)
        value = self._variables[name]
        if value is None:
            return default
        return len(value) if isinstance(value, list) else 1

    def _number(self, value: Any, default: int) -> float:
        """Returns the number of an argument's value; the default of the argument if it is null or left out."""
        if isinstance(value, IntValueNode):
            return int(value.value) if len(value.value) < _BITS_32 else MAX_FIRST
        if not isinstance(value, VariableNode):
            return default
        name = value.name.value
        if name not in self._variables:
            return self._number(self._defaults.get(name), default)
        number = self._variables[name]
        # GraphQL accepts `20.0` as an integer, too. Execution refuses other fractions.
        return number if isinstance(number, int | float) else default

    def is_given(self, given: ValueNode, name: str) -> bool:
        """Returns whether an input object sets this field to a value other than null and ""."""
        if isinstance(given, VariableNode):
            variable = given.name.value
            if variable in self._variables:
                value = self._variables[variable]
                return isinstance(value, Mapping) and bool(value.get(name))
            default = self._defaults.get(variable)
            return default is not None and self.is_given(default, name)
        fields = given.fields if isinstance(given, ObjectValueNode) else ()
        return any(field.name.value == name and self._is_true(field.value) for field in fields)

    def _is_true(self, node: ValueNode) -> bool:
        """Returns whether a value is anything but null, false and ""."""
        if isinstance(node, VariableNode):
            name = node.name.value
            if name in self._variables:
                return bool(self._variables[name])
            default = self._defaults.get(name)
            return default is not None and self._is_true(default)
        return not isinstance(node, NullValueNode) and bool(getattr(node, "value", True))

    def is_included(self, node: Any) -> bool:
        """Returns whether `@skip` and `@include` keep the selection. At execution, a null condition is an error."""
        for directive in node.directives or ():
            if directive.name.value in {"skip", "include"}:
                condition = self._is_true(directive.arguments[0].value)
                if condition is (directive.name.value == "skip"):
                    return False
        return True


def variables_used(
    document: DocumentNode, operation: OperationDefinitionNode, variables: Mapping[str, Any]
) -> dict[str, set[str]]:
    """Returns the variables in the arguments of an operation's root fields, each with the names of these fields."""
    sizes, used = Sizes(operation, variables), defaultdict[str, set[str]](set)
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    left: list[SelectionNode] = [*operation.selection_set.selections]
    while left:
        node = left.pop()
        if not sizes.is_included(node):
            continue
        if isinstance(node, FieldNode):
            for given in node.arguments or ():
                for name in _variables_in(given.value):
                    used[name].add((node.alias or node.name).value)
        elif isinstance(node, InlineFragmentNode):
            left += node.selection_set.selections
        elif isinstance(node, FragmentSpreadNode) and (fragment := fragments.pop(node.name.value, None)) is not None:
            left += fragment.selection_set.selections
    return used


def _variables_in(given: ValueNode) -> Iterator[str]:
    if isinstance(given, VariableNode):
        yield given.name.value
    elif isinstance(given, ListValueNode):
        for value in given.values:
            yield from _variables_in(value)
    elif isinstance(given, ObjectValueNode):
        for field in given.fields:
            yield from _variables_in(field.value)


def argument(node: FieldNode, name: str) -> ValueNode | None:
    return next((given.value for given in node.arguments or () if given.name.value == name), None)


def length_of(field: GraphQLField, cost: Cost | None = None) -> int:
    """Returns the most values that the field counts as. The rows of a page count separately."""
    declared = (cost or cost_of(field)).length
    if isinstance(declared, int):
        return declared
    output = field.type.of_type if isinstance(field.type, GraphQLNonNull) else field.type
    return DEFAULT_LENGTH if isinstance(output, GraphQLList) else 1
