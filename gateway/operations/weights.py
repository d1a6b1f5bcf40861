"""What each field of an operation weighs: for `portico explain`, and for the refusal of an operation over the limit.

The weight of a field is what it adds to the cost of the operation, with everything below it, for all of its parents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLNamedType,
    GraphQLSchema,
    InlineFragmentNode,
    SelectionNode,
    SelectionSetNode,
    get_named_type,
)

from portico.schema.fields import cost_of

from .sizes import Sizes

# The cost of a field for one parent, and of a row of a page if the field belongs to the rows.
Scale = Callable[[FieldNode, GraphQLNamedType], tuple[float, float]]


@dataclass
class Weighed:
    """A field with its weight. `rows` is the size of its page, if it has one."""

    name: str
    weight: float
    rows: int | None = None
    below: list[Weighed] = field(default_factory=list)


@dataclass(frozen=True)
class Weights:
    """Weighs the fields of one operation. Each fragment is weighed wherever it is spread."""

    schema: GraphQLSchema
    fragments: Mapping[str, FragmentDefinitionNode]
    sizes: Sizes
    scale: Scale
    # Whether the fragments have a field that weighs anything.
    _weighty: dict[str, bool] = field(default_factory=dict)

    def of(
        self, selection_set: SelectionSetNode, parent: GraphQLNamedType | None, times: float = 1, rows: float = 1
    ) -> list[Weighed]:
        """Returns the weighed fields. `times` is the number of parents, and `rows` the rows of their pages."""
        found = []
        for node, owner in self._fields(selection_set, parent):
            name = node.name.value
            definition = getattr(owner, "fields", {}).get(name)
            if definition is None:
                continue
            cost, paged = self.scale(node, owner)
            is_row = cost_of(definition).length == "page"
            one = Weighed(node.alias.value if node.alias else name, times * (cost + paged * rows if is_row else cost))
            if node.selection_set is not None:
                is_page = "first" in definition.args
                size = self.sizes.page(node, definition) if is_page else rows
                one.rows = int(size) if is_page else None
                number = rows if is_row else self.sizes.length(node, definition)
                one.below = self.of(node.selection_set, get_named_type(definition.type), times * number, size)
            found.append(one)
        return found

    def _fields(
        self, selection_set: SelectionSetNode, parent: GraphQLNamedType | None
    ) -> Iterator[tuple[FieldNode, Any]]:
        for node in selection_set.selections:
            if isinstance(node, FieldNode):
                yield node, parent
            elif isinstance(node, InlineFragmentNode):
                condition = node.type_condition
                named = parent if condition is None else self.schema.type_map[condition.name.value]
                yield from self._fields(node.selection_set, named)
            elif isinstance(node, FragmentSpreadNode):
                fragment = self.fragments[node.name.value]
                if not self._has_weight(fragment):
                    # Fragments that spread each other could otherwise be walked any number of times.
                    continue
                named = self.schema.type_map[fragment.type_condition.name.value]
                yield from self._fields(fragment.selection_set, named)

    def _has_weight(self, fragment: FragmentDefinitionNode) -> bool:
        """Returns whether anything below the fragment has a cost. Only `__typename` without an alias has none."""
        name = fragment.name.value
        if name not in self._weighty:
            self._weighty[name] = any(map(self._weighs, fragment.selection_set.selections))
        return self._weighty[name]

    def _weighs(self, node: SelectionNode) -> bool:
        if isinstance(node, InlineFragmentNode):
            return any(map(self._weighs, node.selection_set.selections))
        if isinstance(node, FragmentSpreadNode):
            return self._has_weight(self.fragments[node.name.value])
        return not isinstance(node, FieldNode) or node.name.value != "__typename" or node.alias is not None


def advice(fields: list[Weighed], cost: float, most: float) -> str:
    """Returns what weighs most, and what would fit, for an operation that costs more than `most`."""
    path: list[Weighed] = []
    level = fields
    while level:
        heaviest = max(level, key=lambda one: one.weight)
        if path and heaviest.weight < path[-1].weight / 2:
            break
        path.append(heaviest)
        level = heaviest.below
    if not path:
        return "Select fewer fields."
    named = ".".join(one.name for one in path)
    found = f"`{named}` weighs most: {round(path[-1].weight):,} of {round(cost):,}. "
    for one in path:
        if one.rows is not None:
            # The rest of the operation stays as it is.
            left = most - (cost - one.weight)
            size = int(one.rows * left / one.weight)
            if size >= 1:
                return f"{found}With pages of about {size} for `{one.name}`, it fits."
    return f"{found}Ask for smaller pages, or select fewer fields below it."
