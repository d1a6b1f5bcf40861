"""What one operation may ask for: its depth, and how many fields it may come to answer."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLEnumType,
    GraphQLError,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    VariableNode,
    get_introspection_query,
    get_named_type,
    parse,
)

# What a field costs that reads a whole list for itself, beside the page.
_WHOLE_LIST = {"totalCount": 100, "facets": 500}
# The fields of a connection that answer each row of the page.
_ROWS = {"nodes", "edges"}
_MAX_FIRST = 100
# Introspection may answer so many times what a tool needs that asks for the whole schema.
_WHOLE_SCHEMAS = 2


class Limits:
    """The bounds on the operations of one schema."""

    def __init__(self, schema: GraphQLSchema, *, max_depth: int, max_cost: int) -> None:
        self._schema = schema
        self._max_depth = max_depth
        self._max_cost = max_cost
        self._sizes = _introspection_sizes(schema)
        whole = _whole_introspection()
        operation = next(node for node in whole.definitions if isinstance(node, OperationDefinitionNode))
        self._max_introspection = _WHOLE_SCHEMAS * self._weigh(whole, operation, {}).introspection

    def check(self, document: DocumentNode, operation: OperationDefinitionNode, variables: Mapping[str, Any]) -> None:
        """Raises OPERATION_TOO_COMPLEX for a validated operation that is too deep or may answer too much."""
        found = self._weigh(document, operation, variables)
        if found.depth > self._max_depth:
            raise too_complex(f"The operation is {found.depth} levels deep; {self._max_depth} are allowed.")
        if found.cost > self._max_cost:
            raise too_complex(
                f"The operation may answer more than {self._max_cost:,} fields; "
                "ask for smaller pages or less below them."
            )
        if found.introspection > self._max_introspection:
            raise too_complex("The operation asks for more of the schema than a tool needs; ask for it in parts.")

    def _weigh(
        self, document: DocumentNode, operation: OperationDefinitionNode, variables: Mapping[str, Any]
    ) -> _Weight:
        scale = _Scale(self._schema, self._sizes, document, operation, variables)
        return scale.of(operation.selection_set, self._schema.get_root_type(operation.operation))


class _Weight(NamedTuple):
    """Of a selection: the fields that it may answer for one object, and its levels.

    `paged` are those that a connection answers for each row of its page; those of introspection are counted apart.
    """

    cost: float = 0
    paged: float = 0
    introspection: float = 0
    depth: int = 0


class _Scale:
    """Counts the fields of an operation as often as its page sizes say that they may be answered."""

    def __init__(
        self,
        schema: GraphQLSchema,
        sizes: Mapping[str, float],
        document: DocumentNode,
        operation: OperationDefinitionNode,
        variables: Mapping[str, Any],
    ) -> None:
        self._schema = schema
        self._sizes = sizes
        self._variables = variables
        self._defaults = {node.variable.name.value: node.default_value for node in operation.variable_definitions or ()}
        self._fragments = {
            node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)
        }
        # Each fragment is weighed once, however many spread it: fragments of fragments would take forever.
        self._weighed: dict[str, _Weight] = {}

    def of(self, selection_set: SelectionSetNode, parent: GraphQLNamedType | None) -> _Weight:
        found = [self._selected(node, parent) for node in selection_set.selections]
        return _Weight(
            sum(weight.cost for weight in found),
            sum(weight.paged for weight in found),
            sum(weight.introspection for weight in found),
            max((weight.depth for weight in found), default=0),
        )

    def _selected(self, node: SelectionNode, parent: GraphQLNamedType | None) -> _Weight:
        if isinstance(node, FieldNode):
            return self._field(node, parent)
        if isinstance(node, InlineFragmentNode):
            condition = node.type_condition
            return self.of(node.selection_set, self._schema.type_map[condition.name.value] if condition else parent)
        assert isinstance(node, FragmentSpreadNode)
        name = node.name.value
        if name not in self._weighed:
            fragment = self._fragments[name]
            self._weighed[name] = self.of(
                fragment.selection_set, self._schema.type_map[fragment.type_condition.name.value]
            )
        return self._weighed[name]

    def _field(self, node: FieldNode, parent: GraphQLNamedType | None) -> _Weight:
        name = node.name.value
        if name == "__typename":
            return _Weight(depth=1)
        if name in {"__schema", "__type"}:
            assert node.selection_set is not None
            below = self.of(node.selection_set, self._schema.type_map["__Schema" if name == "__schema" else "__Type"])
            return _Weight(introspection=below.cost, depth=1)
        field = getattr(parent, "fields", {})[name]
        cost: float = 1 + _WHOLE_LIST.get(name, 0)
        if node.selection_set is None:
            return _Weight(cost, depth=1)
        below = self.of(node.selection_set, get_named_type(field.type))
        depth = 1 + below.depth
        if parent is not None and parent.name.endswith("Connection") and name in _ROWS:
            return _Weight(paged=cost + below.cost, introspection=below.introspection, depth=depth)
        cost += below.cost * self._count(node, parent) + below.paged * self._page(node, field)
        return _Weight(cost, introspection=below.introspection, depth=depth)

    def _count(self, node: FieldNode, parent: GraphQLNamedType | None) -> float:
        """How many objects the field answers beside pages: as many as there are `ids`, or types of the schema, …"""
        if parent is not None and parent.name.startswith("__"):
            return self._sizes.get(node.name.value, 1)
        return _MAX_FIRST if any(argument.name.value == "ids" for argument in node.arguments or ()) else 1

    def _page(self, node: FieldNode, field: Any) -> float:
        """How many rows the field may answer."""
        if "first" not in field.args:
            return _MAX_FIRST
        given = next((found.value for found in node.arguments or () if found.name.value == "first"), None)
        default = int(field.args["first"].default_value or 1)
        return min(max(self._number(given, default), 1), _MAX_FIRST)

    def _number(self, value: Any, default: int) -> float:
        """The number that a value stands for; the default of the argument where it is null or left out."""
        if isinstance(value, IntValueNode):
            return int(value.value) if len(value.value) < 10 else _MAX_FIRST  # noqa: PLR2004 - 32 bits
        if not isinstance(value, VariableNode):
            return default
        name = value.name.value
        if name not in self._variables:
            return self._number(self._defaults.get(name), default)
        number = self._variables[name]
        # `20.0` is a whole number to GraphQL, too; what is none will be refused.
        return number if isinstance(number, int | float) else default


@functools.cache
def _whole_introspection() -> DocumentNode:
    return parse(get_introspection_query(specified_by_url=True, input_value_deprecation=True))


def _introspection_sizes(schema: GraphQLSchema) -> dict[str, float]:
    """How long the lists of introspection are: of one object, on average over the schema."""
    types = schema.type_map.values()
    fields = [
        field
        for found in types
        if isinstance(found, GraphQLObjectType | GraphQLInterfaceType)
        for field in found.fields.values()
    ]
    inputs = sum(len(found.fields) for found in types if isinstance(found, GraphQLInputObjectType))
    values = sum(len(found.values) for found in types if isinstance(found, GraphQLEnumType))
    count = len(types)
    return {
        "types": count,
        "fields": len(fields) / count,
        "args": sum(len(field.args) for field in fields) / len(fields),
        "inputFields": inputs / count,
        "enumValues": values / count,
        "directives": len(schema.directives),
    }


def too_complex(message: str) -> GraphQLError:
    return GraphQLError(message, extensions={"code": "OPERATION_TOO_COMPLEX"})
