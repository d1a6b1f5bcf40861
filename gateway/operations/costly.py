"""Counts the fields of an operation that make the database read a whole list.

A field counts once for each read that it causes: for each response name, and for each parent that a page or a list
above it can have. Selections that merge into one field of the response count once. Fields that `@skip` and `@include`
leave out do not count.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLInputObjectType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    get_named_type,
)

from portico.schema.fields import cost_of

from .sizes import Sizes

# A selection set, and the type on which it selects.
Selected = tuple[SelectionSetNode, GraphQLNamedType]
# Values that are computed from a schema are kept for this many schemas. A process that serves has one.
SCHEMAS_KEPT = 4


class _Reads(NamedTuple):
    """How often each costly field is read: for one object, and for each row of the page of a connection."""

    own: Counter[str]
    paged: Counter[str]


class CostlyFields:
    """Counts the costly fields of the operations of one schema."""

    def __init__(self, schema: GraphQLSchema) -> None:
        self._schema = schema
        # The costly fields of each input object that an argument can hold.
        self._inputs = {
            found.name: [name for name, field in found.fields.items() if cost_of(field).costly]
            for found in schema.type_map.values()
            if isinstance(found, GraphQLInputObjectType)
        }

    @functools.cached_property
    def input_names(self) -> frozenset[str]:
        """The fields of inputs that an operation's cost depends on: costly ones, and those with weights."""
        types = (found for found in self._schema.type_map.values() if isinstance(found, GraphQLObjectType))
        costs = (cost_of(field) for found in types for field in found.fields.values())
        weighed = {name.partition(".")[2] for cost in costs for name in cost.weights or ()}
        return frozenset({name for names in self._inputs.values() for name in names} | weighed - {""})

    def count(
        self, document: DocumentNode, operation: OperationDefinitionNode, variables: Mapping[str, Any]
    ) -> Counter[str]:
        """Returns how often each costly field is read, by its name. The operation must be valid."""
        root = self._schema.get_root_type(operation.operation)
        assert root is not None
        fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
        count = _Count(self._schema, self._inputs, fragments, Sizes(operation, variables))
        return count.reads([(operation.selection_set, root)]).own

    def is_costly(self, node: FieldNode, field: Any) -> bool:
        """Returns whether the field itself can be costly, for some values of the variables."""
        return cost_of(field).costly or any(
            self._inputs.get(get_named_type(field.args[given.name.value].type).name) for given in node.arguments or ()
        )


@functools.lru_cache(SCHEMAS_KEPT)
def costly_fields(schema: GraphQLSchema) -> CostlyFields:
    """Returns the costly fields of the schema. They are found once for all gateways of a process."""
    return CostlyFields(schema)


class _Count:
    """Counts in one operation."""

    def __init__(
        self,
        schema: GraphQLSchema,
        inputs: Mapping[str, list[str]],
        fragments: Mapping[str, FragmentDefinitionNode],
        sizes: Sizes,
    ) -> None:
        self._schema = schema
        self._inputs = inputs
        self._fragments = fragments
        self._sizes = sizes

    def reads(self, selected: Iterable[Selected]) -> _Reads:
        """Returns the reads of all selections on one object, even if they are on types that exclude each other."""
        merged: dict[tuple[str, str, str], list[tuple[FieldNode, Any]]] = {}
        for node, field in self._fields(selected):
            key = ((node.alias or node.name).value, node.name.value, str(field.type))
            merged.setdefault(key, []).append((node, field))
        found = _Reads(Counter(), Counter())
        names = {name for _, name, _ in merged}
        for (_, name, _), nodes in merged.items():
            if cost_of(nodes[0][1]).shares in names:
                continue
            own, is_paged = self._field(name, nodes)
            (found.paged if is_paged else found.own).update(own)
        return found

    def _fields(self, selected: Iterable[Selected]) -> Iterator[tuple[FieldNode, Any]]:
        waiting = list(selected)
        seen: set[str] = set()
        while waiting:
            selection_set, parent = waiting.pop()
            for node in filter(self._sizes.is_included, selection_set.selections):
                if isinstance(node, FieldNode):
                    field = getattr(parent, "fields", {}).get(node.name.value)
                    if field is not None:
                        yield node, field
                elif isinstance(node, InlineFragmentNode):
                    condition = node.type_condition
                    named = parent if condition is None else self._schema.type_map[condition.name.value]
                    waiting.append((node.selection_set, named))
                elif isinstance(node, FragmentSpreadNode) and node.name.value not in seen:
                    seen.add(node.name.value)
                    fragment = self._fragments[node.name.value]
                    waiting.append((fragment.selection_set, self._schema.type_map[fragment.type_condition.name.value]))

    def _field(self, name: str, nodes: list[tuple[FieldNode, Any]]) -> tuple[Counter[str], bool]:
        """Returns how often the field and the fields below it are read, and whether that is for each row of a page."""
        field = nodes[0][1]
        cost = cost_of(field)
        below = self.reads(
            (node.selection_set, get_named_type(found.type)) for node, found in nodes if node.selection_set is not None
        )
        length = max(self._sizes.length(node, one) for node, one in nodes)
        found: Counter[str] = Counter()
        if cost.costly:
            found[name] += 1
        elif not below.own:
            # A costly field below, such as the count of the same list, counts already, and shares the read.
            given = [self._costly_inputs(node, one) for node, one in nodes]
            longest = max(given, key=len)
            found.update(longest)
        if cost.length == "page":
            return found + below.own, True
        rows = max(self._sizes.page(node, one) for node, one in nodes) if below.paged else 0
        for part, times in ((below.own, length), (below.paged, int(rows))):
            found.update({label: count * times for label, count in part.items()})
        return found, False

    def _costly_inputs(self, node: FieldNode, field: Any) -> list[str]:
        """Returns the costly input fields in the arguments."""
        found: list[str] = []
        for given in node.arguments or ():
            names = self._inputs.get(get_named_type(field.args[given.name.value].type).name)
            found += [name for name in names or () if self._sizes.is_given(given.value, name)]
        return found
