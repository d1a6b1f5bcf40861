"""Says how old an answer may be that a store between the gateway and its clients uses: as its fields declare.

Each field of an operation counts. The smallest age is that of the answer, and 0 if nothing is declared.

Source: Apollo's `@cacheControl`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLField,
    GraphQLNamedType,
    GraphQLSchema,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    get_named_type,
    is_abstract_type,
)

from portico.schema.fields import max_age_of

_TYPE_NAME = "__typename"


def max_age(schema: GraphQLSchema, document: DocumentNode, operation: OperationDefinitionNode) -> int:
    """Returns how many seconds old the answer to a valid operation may be; 0 if a field does not say."""
    found = _Ages(schema, document).of(operation.selection_set, schema.get_root_type(operation.operation))
    return 0 if found == math.inf else int(found)


class _Ages:
    """The ages of the fields of a document. Each fragment counts once, however often it is spread."""

    def __init__(self, schema: GraphQLSchema, document: DocumentNode) -> None:
        self._schema = schema
        self._fragments = {
            node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)
        }
        self._spread: set[str] = set()

    def of(self, selection_set: SelectionSetNode, parent: GraphQLNamedType | None) -> float:
        least = math.inf
        for node in selection_set.selections:
            if isinstance(node, FieldNode):
                least = min(least, self._field(node, parent))
            elif isinstance(node, InlineFragmentNode):
                condition = node.type_condition
                named = parent if condition is None else self._schema.type_map[condition.name.value]
                least = min(least, self.of(node.selection_set, named))
            elif isinstance(node, FragmentSpreadNode) and node.name.value not in self._spread:
                self._spread.add(node.name.value)
                fragment = self._fragments[node.name.value]
                named = self._schema.type_map[fragment.type_condition.name.value]
                least = min(least, self.of(fragment.selection_set, named))
            if not least:
                break
        return least

    def _field(self, node: FieldNode, parent: GraphQLNamedType | None) -> float:
        if node.name.value == _TYPE_NAME:
            return math.inf
        least = math.inf
        below: GraphQLNamedType | None = None
        for field in self._definitions(node, parent):
            age = max_age_of(field)
            if age is None:
                # A root field comes with no other object.
                age = 0 if parent is self._schema.query_type else None
            least = least if age is None else min(least, age)
            below = below or get_named_type(field.type)
        return least if node.selection_set is None or not least else min(least, self.of(node.selection_set, below))

    def _definitions(self, node: FieldNode, parent: GraphQLNamedType | None) -> Iterator[GraphQLField]:
        """Yields the field, and those of the types that a field of an interface can stand for."""
        if parent is None:
            return
        owners = [parent, *(self._schema.get_possible_types(parent) if is_abstract_type(parent) else ())]
        for owner in owners:
            field = self._schema.get_field(owner, node.name.value)
            if field is not None:
                yield field
