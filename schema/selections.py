"""Derives the projection of a database query from the selection of a client.

The selection below a field, through fragments, interfaces and `@include`/`@skip`, becomes the projection of the query
for the field. It is computed once for an operation and cached with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

from graphql import (
    BooleanValueNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    SelectionSetNode,
    VariableNode,
    get_named_type,
    get_nullable_type,
    is_abstract_type,
    is_list_type,
    is_object_type,
)
from strawberry.schema.schema_converter import GraphQLCoreConverter

from portico.resolvers.documents import ComparedProjection, Projection

from .fields import Computed, Method, Related, Stored, declaration_of
from .shown_values import Elements, Shown, Value

_MAX_KEPT = 256
_BACKREF = GraphQLCoreConverter.DEFINITION_BACKREF


class _WholeDocument(Exception):
    """A selected field may read any path."""


class Selection:
    """The selections of one or more field nodes, for one set of variables."""

    # Compiled operations keep many.
    __slots__ = ("_fragments", "_leaf", "_sets", "_variables", "schema")

    def __init__(
        self,
        schema: GraphQLSchema,
        fragments: Mapping[str, FragmentDefinitionNode],
        variables: Mapping[str, Any],
        sets: Sequence[SelectionSetNode],
    ) -> None:
        self.schema = schema
        self._fragments = fragments
        self._variables = variables
        self._sets = sets
        self._leaf: Selection | None = None

    def fields(self, object_type: GraphQLObjectType) -> dict[str, list[FieldNode]]:
        """Returns the field nodes selected on this type, by the name of the field."""
        found: dict[str, list[FieldNode]] = {}
        for node in self._nodes(object_type):
            found.setdefault(node.name.value, []).append(node)
        return found

    def responses(self, object_type: GraphQLObjectType) -> dict[str, list[FieldNode]]:
        """Returns the field nodes selected on this type, by response name, in the order of the response."""
        found: dict[str, list[FieldNode]] = {}
        for node in self._nodes(object_type):
            found.setdefault((node.alias or node.name).value, []).append(node)
        return found

    def _nodes(self, object_type: GraphQLObjectType) -> Iterator[FieldNode]:
        seen: set[str] = set()
        for selection_set in self._sets:
            yield from self._flat(selection_set, object_type, seen)

    def below(self, nodes: Sequence[FieldNode]) -> Selection:
        sets = [node.selection_set for node in nodes if node.selection_set is not None]
        if sets:
            return Selection(self.schema, self._fragments, self._variables, sets)
        # Most fields have nothing below them, so they share one object.
        if self._leaf is None:
            self._leaf = Selection(self.schema, self._fragments, self._variables, ())
        return self._leaf

    def projection(self, types: Sequence[GraphQLObjectType], always: Sequence[str] = ()) -> Projection | None:
        """Returns the paths that the selection needs of documents of these types; None for the whole document."""
        paths: set[str] = set(always)
        try:
            for object_type in types:
                paths.update(self._paths(object_type, ""))
        except _WholeDocument:
            return None
        shortest = {path for path in paths if not any(path.startswith(f"{other}.") for other in paths)}
        return self._compared(types, always, dict.fromkeys(sorted(shortest) or ["_id"], 1))

    def _compared(
        self, types: Sequence[GraphQLObjectType], always: Sequence[str], projection: Projection
    ) -> Projection:
        """Returns the projection. If a row can change without a change of the answer, it says what to compare."""
        if len(types) != 1:
            return projection
        values = list(self._values(types[0]))
        if not values and not self._has_lists(types[0]):
            return projection
        others = {"_id", *always, *self._paths(types[0], "", besides={name for name, _ in values})}
        return ComparedProjection(projection, Shown.of([value for _, value in values], projection, others))

    def _values(self, object_type: GraphQLObjectType) -> Iterator[tuple[str, Value]]:
        """Yields the fields whose values are compared, with what is shown of these."""
        for name, declared, nodes in self._declared(object_type):
            if isinstance(declared, Computed) and declared.is_compared:
                inner = get_named_type(object_type.fields[name].type)
                yield name, Value(declared.function, self.below(nodes)._elements(inner))  # noqa: SLF001 - same class

    def _has_lists(self, object_type: GraphQLObjectType) -> bool:
        """Returns whether a list of objects in the document is selected. A write often replaces the whole list."""
        return any(
            isinstance(declared, Stored) and _is_list_of_documents(object_type.fields[name].type)
            for name, declared, _ in self._declared(object_type)
        )

    def _elements(self, object_type: Any) -> Elements | None:
        """Returns what is shown of the objects of a type in a document; None for everything."""
        if not (is_object_type(object_type) and _is_document(object_type)):
            return None
        functions: list[Callable[[Any], Any]] = []
        paths: set[str] = set()
        for _, declared, _ in self._declared(object_type):
            match declared:
                case Computed(function=function):
                    functions.append(function)
                case Stored(path=path) | Related(path=path):
                    paths.add(path)
                case Method(needs=needs):
                    paths.update(needs)
                case None:
                    return None
        return Elements.of(functions, paths)

    def _declared(self, object_type: GraphQLObjectType) -> Iterator[tuple[str, Any, list[FieldNode]]]:
        """Yields the selected fields of this type, with their declarations."""
        for name, nodes in self.fields(object_type).items():
            if (field := object_type.fields.get(name)) is not None:
                yield name, declaration_of(field.extensions[_BACKREF]), nodes

    def _flat(
        self, selection_set: SelectionSetNode, object_type: GraphQLObjectType, seen: set[str]
    ) -> Iterator[FieldNode]:
        for node in selection_set.selections:
            if not self._is_included(node):
                continue
            if isinstance(node, FieldNode):
                yield node
            elif isinstance(node, InlineFragmentNode):
                condition = node.type_condition.name.value if node.type_condition else None
                if self._applies(condition, object_type):
                    yield from self._flat(node.selection_set, object_type, seen)
            elif isinstance(node, FragmentSpreadNode) and node.name.value not in seen:
                seen.add(node.name.value)
                fragment = self._fragments[node.name.value]
                if self._applies(fragment.type_condition.name.value, object_type):
                    yield from self._flat(fragment.selection_set, object_type, seen)

    def _is_included(self, node: Any) -> bool:
        for directive in node.directives or ():
            if directive.name.value not in {"skip", "include"}:
                continue
            value = directive.arguments[0].value
            if isinstance(value, VariableNode):
                # A condition of null is an error of the object at execution, so the result does not matter here.
                condition = bool(self._variables.get(value.name.value))
            else:
                condition = isinstance(value, BooleanValueNode) and value.value
            if condition is (directive.name.value == "skip"):
                return False
        return True

    def _applies(self, condition: str | None, object_type: GraphQLObjectType) -> bool:
        if condition is None or condition == object_type.name:
            return True
        named = self.schema.type_map[condition]
        return is_abstract_type(named) and self.schema.is_sub_type(named, object_type)

    def _paths(self, object_type: GraphQLObjectType, prefix: str, besides: Collection[str] = ()) -> Iterator[str]:
        for name, nodes in self.fields(object_type).items():
            if name.startswith("__") or name in besides:
                continue
            field = object_type.fields.get(name)
            if field is None:
                # The field is selected on another type of the kind.
                continue
            match declaration_of(field.extensions[_BACKREF]):
                case Stored(path=path):
                    inner = get_named_type(field.type)
                    below = self.below(nodes)
                    if is_object_type(inner) and _is_document(inner):
                        # A selection without paths (`__typename`) still needs to know whether the object exists.
                        yield from list(below._paths(inner, f"{prefix}{path}.")) or [prefix + path]  # noqa: SLF001 - same class
                    else:
                        yield prefix + path
                case Computed(needs=needs) | Method(needs=needs):
                    yield from (prefix + path for path in needs)
                case Related(path=path):
                    yield prefix + path
                case None:
                    raise _WholeDocument


def _is_list_of_documents(field_type: Any) -> bool:
    inner = get_named_type(field_type)
    return is_list_type(get_nullable_type(field_type)) and is_object_type(inner) and _is_document(inner)


def _is_document(object_type: GraphQLObjectType) -> bool:
    return any(declaration_of(field.extensions[_BACKREF]) is not None for field in object_type.fields.values())


def selection_of(info: Any) -> Selection:
    """Returns the selection below the current field. Takes graphql-core's info."""
    sets = [node.selection_set for node in info.field_nodes if node.selection_set is not None]
    return Selection(info.schema, info.fragments, info.variable_values, sets)


def cached(info: Any, purpose: Hashable, compute: Any) -> Any:
    """Returns `compute()`, cached with the operation by field, purpose and the values of Boolean variables."""
    conditions = tuple(item for item in info.variable_values.items() if isinstance(item[1], bool))
    key = (*map(id, info.field_nodes), purpose, conditions)
    selections = info.context.selections
    if key not in selections:
        if len(selections) >= _MAX_KEPT:
            selections.clear()
        selections[key] = compute()
    return selections[key]
