"""The limits of one operation: its depth, the number of fields that it can return, and its costly fields."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Hashable, Mapping
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
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    get_introspection_query,
    get_named_type,
    introspection_types,
    parse,
)

from portico.schema.fields import MAX_COSTLY, cost_of
from portico.schema.service import SERVICE, ServiceType

from .costly import SCHEMAS_KEPT, CostlyFields, costly_fields
from .sizes import Sizes, facts_of
from .weights import Weighed, Weights, advice

_META_TYPES = {
    "__schema": introspection_types["__Schema"],
    "__type": introspection_types["__Type"],
    SERVICE: ServiceType,
}
# Introspection can return at most this many times the fields that a full introspection query returns.
_WHOLE_SCHEMAS = 2
# Counting the costly fields visits each field of an operation. Only nested fragments have more fields than this.
_MOST_COUNTED = 2_000
# So does weighing them one by one, for each of their levels.
_MOST_EXPLAINED = 1_000
# What a connection costs in addition to its rows: a part of a command, and the page that its fields share.
_PAGE = 20
# This many characters of an alias weigh as much as a field.
_LONG_NAME = 50


class Limits:
    """Checks the limits of the operations of one schema."""

    def __init__(self, schema: GraphQLSchema, *, max_depth: int, max_cost: int, max_fields: int = 4_000) -> None:
        """`max_fields` is the most fields that an operation selects, with each fragment wherever it is spread."""
        self._schema = schema
        self._max_fields = max_fields
        self._max_depth = max_depth
        self._max_cost = max_cost
        self._costly = costly_fields(schema)
        self._introspection = _introspection_sizes(schema)

    def check(self, document: DocumentNode, operation: OperationDefinitionNode, variables: Mapping[str, Any]) -> float:
        """Checks a validated operation.

        Returns:  its cost: about how many fields it can return, at least 1.
        Raises:   OPERATION_TOO_COMPLEX if it is too deep, can return too much, or makes the database read too many
                  whole lists.
        """
        found = self._weigh(document, operation, variables)
        if found.depth > self._max_depth:
            raise too_complex(f"The operation can have at most {self._max_depth} levels of fields; got {found.depth}.")
        if found.fields > self._max_fields:
            raise too_complex(
                f"An operation can select at most {self._max_fields:,} fields, with each fragment wherever it is "
                f"spread; got {found.fields:,}. Select fewer fields, or send separate operations."
            )
        if found.may_be_costly:
            self._check_costly(found, document, operation, variables)
        if found.cost > self._max_cost:
            raise too_complex(
                f"The operation can return more than {self._max_cost:,} fields. "
                + self._advice(found, document, operation, variables)
            )
        if found.introspection and found.introspection > self._max_introspection:
            raise too_complex(
                "The operation asks for too much of the schema. Send several smaller introspection queries."
            )
        return max(1.0, found.cost + found.introspection)

    def _advice(
        self,
        found: _Weight,
        document: DocumentNode,
        operation: OperationDefinitionNode,
        variables: Mapping[str, Any],
    ) -> str:
        if found.fields > _MOST_EXPLAINED:
            return "Ask for smaller pages, or select fewer fields below them."
        scale, sizes = self._scale(document, operation, variables)
        heaviest = advice(self._weights(scale, sizes, operation), found.cost, self._max_cost)
        name, size = sizes.largest()
        return f"{heaviest} The variable `{name}` counts as {size:,} in each field that uses it." if size else heaviest

    def weights(
        self, document: DocumentNode, operation: OperationDefinitionNode, variables: Mapping[str, Any]
    ) -> list[Weighed]:
        """Returns the fields of a validated operation with their weights, see `weights`."""
        return self._weights(*self._scale(document, operation, variables), operation)

    def _weights(self, scale: _Scale, sizes: Sizes, operation: OperationDefinitionNode) -> list[Weighed]:
        def weigh(node: FieldNode, parent: GraphQLNamedType) -> tuple[float, float]:
            weight = scale.field(node, parent)
            return weight.cost, weight.paged

        weights = Weights(self._schema, scale.fragments, sizes, weigh)
        return weights.of(operation.selection_set, self._schema.get_root_type(operation.operation))

    @functools.cached_property
    def _max_introspection(self) -> float:
        # Most operations have no introspection, so a start does not need this.
        whole = _whole_introspection()
        operation = next(node for node in whole.definitions if isinstance(node, OperationDefinitionNode))
        return _WHOLE_SCHEMAS * self._weigh(whole, operation, {}).introspection

    def _check_costly(
        self,
        found: _Weight,
        document: DocumentNode,
        operation: OperationDefinitionNode,
        variables: Mapping[str, Any],
    ) -> None:
        if found.fields > _MOST_COUNTED:
            raise too_complex(
                f"An operation with fields that read a whole list can select at most {_MOST_COUNTED:,} fields, with "
                f"each fragment wherever it is spread; got {found.fields:,}. Select fewer fields, or send separate "
                "operations."
            )
        costly = self._costly.count(document, operation, variables)
        if costly.total() > MAX_COSTLY:
            raise too_complex(_too_costly(costly))

    def facts(self, variables: Mapping[str, Any]) -> Hashable:
        """Returns the facts about the variables that `check` depends on: the same facts have the same outcome."""
        return facts_of(variables, self._costly.input_names)

    def _weigh(
        self, document: DocumentNode, operation: OperationDefinitionNode, variables: Mapping[str, Any]
    ) -> _Weight:
        scale, _ = self._scale(document, operation, variables)
        return scale.of(operation.selection_set, self._schema.get_root_type(operation.operation))

    def _scale(
        self, document: DocumentNode, operation: OperationDefinitionNode, variables: Mapping[str, Any]
    ) -> tuple[_Scale, Sizes]:
        sizes = Sizes(operation, variables)
        return _Scale(self._schema, self._introspection, self._costly, document, sizes), sizes


class _Weight(NamedTuple):
    """The size of a selection: `cost` is the number of fields that it can return for one object, `depth` its levels.

    `paged` counts the fields that a connection returns for each row of its page. `introspection` counts the fields of
    introspection. `fields` counts the selected fields, with each fragment wherever it is spread. `may_be_costly` is
    whether one of the fields can be costly, for some values of the variables.
    """

    cost: float = 0
    paged: float = 0
    introspection: float = 0
    depth: int = 0
    fields: int = 1
    may_be_costly: bool = False


class _Scale:
    """Counts the fields that an operation can return, from its page sizes."""

    def __init__(
        self,
        schema: GraphQLSchema,
        introspection: Mapping[str, float],
        costly: CostlyFields,
        document: DocumentNode,
        sizes: Sizes,
    ) -> None:
        self._schema = schema
        self._introspection = introspection
        self._costly = costly
        self._sizes = sizes
        self.fragments = {
            node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)
        }
        # Each fragment is weighed once. Weighing it for each spread takes exponential time with nested fragments.
        self._weighed: dict[str, _Weight] = {}

    def of(self, selection_set: SelectionSetNode, parent: GraphQLNamedType | None) -> _Weight:
        found = [self._selected(node, parent) for node in selection_set.selections]
        return _Weight(
            sum(weight.cost for weight in found),
            sum(weight.paged for weight in found),
            sum(weight.introspection for weight in found),
            max((weight.depth for weight in found), default=0),
            sum(weight.fields for weight in found),
            any(weight.may_be_costly for weight in found),
        )

    def _selected(self, node: SelectionNode, parent: GraphQLNamedType | None) -> _Weight:
        if isinstance(node, FieldNode):
            return self.field(node, parent)
        if isinstance(node, InlineFragmentNode):
            condition = node.type_condition
            return self.of(node.selection_set, self._schema.type_map[condition.name.value] if condition else parent)
        assert isinstance(node, FragmentSpreadNode)
        name = node.name.value
        if name not in self._weighed:
            fragment = self.fragments[name]
            self._weighed[name] = self.of(
                fragment.selection_set, self._schema.type_map[fragment.type_condition.name.value]
            )
        return self._weighed[name]

    def field(self, node: FieldNode, parent: GraphQLNamedType | None) -> _Weight:
        found = self._selected_field(node, parent)
        # A response repeats the name for each value.
        length = 0 if node.alias is None else len(node.alias.value) // _LONG_NAME
        return found._replace(cost=found.cost + length) if length else found

    def _selected_field(self, node: FieldNode, parent: GraphQLNamedType | None) -> _Weight:
        name = node.name.value
        if name == "__typename":
            # Clients add it to every selection. With an alias, one selection can have it any number of times.
            return _Weight(depth=1, fields=0) if node.alias is None else _Weight(1, depth=1)
        if name in _META_TYPES:
            assert node.selection_set is not None
            return _Weight(introspection=self.of(node.selection_set, _META_TYPES[name]).cost, depth=1)
        field = getattr(parent, "fields", {})[name]
        declared = cost_of(field)
        extra: float = declared.extra + self._sizes.arguments(node)
        for name_of_list, weight in (declared.weights or {}).items():
            extra += weight * self._sizes.given(node, name_of_list, declared.length)
        may_be_costly = self._costly.is_costly(node, field)
        length = self._length(node, parent, self._sizes.length(node, field))
        if node.selection_set is None:
            return _Weight(extra + length, depth=1, may_be_costly=may_be_costly)
        below = self.of(node.selection_set, get_named_type(field.type))
        cost = 1 + extra
        found = below._replace(
            cost=0,
            paged=0,
            depth=1 + below.depth,
            fields=1 + below.fields,
            may_be_costly=may_be_costly or below.may_be_costly,
        )
        if declared.length == "page":
            return found._replace(paged=cost + below.cost)
        if "first" not in field.args and not below.paged:
            return found._replace(cost=cost + below.cost * length)
        cost += _PAGE
        # The database reads the rows, also if the selection shows none of them.
        rows = self._sizes.page(node, field)
        return found._replace(cost=cost + below.cost * length + max(below.paged, declared.row) * rows)

    def _length(self, node: FieldNode, parent: GraphQLNamedType | None, length: float) -> float:
        """Returns how many values the field can return. For introspection, this is the average over the schema."""
        if parent is not None and parent.name.startswith("__"):
            return self._introspection.get(node.name.value, 1)
        return length


@functools.cache
def _whole_introspection() -> DocumentNode:
    return parse(get_introspection_query(specified_by_url=True, input_value_deprecation=True))


@functools.lru_cache(SCHEMAS_KEPT)
def _introspection_sizes(schema: GraphQLSchema) -> Mapping[str, float]:
    """Returns the average length of each list of introspection over the schema."""
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


def _too_costly(found: Counter[str]) -> str:
    times = {1: "once", 2: "twice"}
    counted = ", ".join(f"`{name}` {times.get(count, f'{count:,} times')}" for name, count in sorted(found.items()))
    return (
        f"The operation makes the database read whole lists: {counted}. An operation can do this at most {MAX_COSTLY} "
        "times, counted for each parent that its page sizes allow. Remove some of these fields, ask for smaller pages "
        "above them, or send them in separate operations."
    )
