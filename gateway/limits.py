"""What one operation may ask for: its depth, and how many fields it may come to answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLNamedType,
    GraphQLSchema,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
    get_named_type,
)

# What a field costs that reads a whole list for itself, beside the page.
_WHOLE_LIST = {"totalCount": 100, "facets": 500}
_MAX_FIRST = 100


class _Cost:
    """Counts the fields of an operation as often as its page sizes say that they may be answered."""

    def __init__(self, schema: GraphQLSchema, document: DocumentNode, variables: Mapping[str, Any]) -> None:
        self._schema = schema
        self._variables = variables
        self._fragments = {
            node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)
        }
        self.deepest = 0
        self.max_cost = 0.0

    def of(self, selection_set: SelectionSetNode, parent: GraphQLNamedType | None, depth: int, times: int) -> int:
        self.deepest = max(self.deepest, depth)
        total = 0
        for node in selection_set.selections:
            if isinstance(node, FieldNode):
                total += self._field(node, parent, depth, times)
            elif isinstance(node, InlineFragmentNode):
                condition = node.type_condition
                below = self._schema.type_map[condition.name.value] if condition else parent
                total += self.of(node.selection_set, below, depth, times)
            elif isinstance(node, FragmentSpreadNode):
                fragment = self._fragments[node.name.value]
                below = self._schema.type_map[fragment.type_condition.name.value]
                total += self.of(fragment.selection_set, below, depth, times)
            if total > self.max_cost:
                break
        return total

    def _field(self, node: FieldNode, parent: GraphQLNamedType | None, depth: int, times: int) -> int:
        name = node.name.value
        if name.startswith("__"):
            return 0
        field = getattr(parent, "fields", {})[name]
        cost = times * (1 + _WHOLE_LIST.get(name, 0))
        if node.selection_set is None:
            return cost
        return cost + self.of(
            node.selection_set, get_named_type(field.type), depth + 1, times * self._page(node, field)
        )

    def _page(self, node: FieldNode, field: Any) -> int:
        """How many objects the field may answer: `first`, or the number of `ids`."""
        given = {argument.name.value: argument.value for argument in node.arguments or ()}
        if "first" in field.args:
            value = given.get("first")
            if value is None:
                return int(field.args["first"].default_value or 1)
            return min(max(self._whole_number(value), 1), _MAX_FIRST)
        if "ids" in given:
            return _MAX_FIRST
        return 1

    def _whole_number(self, value: Any) -> int:
        if isinstance(value, IntValueNode):
            return int(value.value) if len(value.value) < 10 else _MAX_FIRST  # noqa: PLR2004 - 32 bits
        if isinstance(value, VariableNode):
            number = self._variables.get(value.name.value, _MAX_FIRST)
            return number if isinstance(number, int) else 1
        return 1


def check_complexity(
    schema: GraphQLSchema,
    document: DocumentNode,
    operation: OperationDefinitionNode,
    variables: Mapping[str, Any],
    *,
    max_depth: int,
    max_cost: int,
) -> None:
    """Raises OPERATION_TOO_COMPLEX for a validated operation that is too deep or may answer too much."""
    cost = _Cost(schema, document, variables)
    cost.max_cost = max_cost
    total = cost.of(operation.selection_set, schema.get_root_type(operation.operation), 1, 1)
    if cost.deepest > max_depth:
        raise too_complex(f"The operation is {cost.deepest} levels deep; {max_depth} are allowed.")
    if total > max_cost:
        raise too_complex(
            f"The operation may answer more than {max_cost:,} fields; ask for smaller pages or less below them."
        )


def too_complex(message: str) -> GraphQLError:
    return GraphQLError(message, extensions={"code": "OPERATION_TOO_COMPLEX"})
