"""Selections of everything that a type leads to, made from the schema. So a test sees fields that are added later."""

from __future__ import annotations

from graphql import (
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    get_named_type,
    is_leaf_type,
    is_required_argument,
)

from portico.schema.fields import cost_of

# Rows are selected wherever their list is.
_LISTS = ("Connection", "Edge", "PageInfo")


def all_fields(schema: GraphQLSchema, name: str, *, first: int, without: frozenset[str]) -> str:
    """Returns a selection that has every field of every type to which this one leads.

    It leaves out fields with required arguments, and those of which one operation can have only two.

    Where a type comes again, only its plain values and its lists are selected.

    Args:     first: the size of all pages.  without: names of fields to leave out.
    """
    return _Selecting(schema, first, without).below(schema.type_map[name])


class _Selecting:
    def __init__(self, schema: GraphQLSchema, first: int, without: frozenset[str]) -> None:
        self._schema, self._first, self._without = schema, first, without
        self._selected: set[str] = set()

    def below(self, found: GraphQLNamedType) -> str:
        """Returns the selection on a type, in braces."""
        is_whole = found.name not in self._selected or found.name.endswith(_LISTS)
        self._selected.add(found.name)
        parts = ["__typename", *self._fields(found, frozenset(), is_whole)]
        if isinstance(found, GraphQLInterfaceType | GraphQLUnionType):
            shared = frozenset(found.fields if isinstance(found, GraphQLInterfaceType) else ())
            for possible in self._schema.get_possible_types(found):
                own = " ".join(self._fields(possible, shared, is_whole))
                parts.append(f"... on {possible.name} {{ __typename {own} }}")
        return f"{{ {' '.join(parts)} }}"

    def _fields(self, found: GraphQLNamedType, shared: frozenset[str], is_whole: bool) -> list[str]:
        if not isinstance(found, GraphQLObjectType | GraphQLInterfaceType):
            return []
        fields = {name: field for name, field in found.fields.items() if name not in self._without | shared}
        return [text for name, field in fields.items() if (text := self._field(found.name, name, field, is_whole))]

    def _field(self, owner: str, name: str, field: GraphQLField, is_whole: bool) -> str:
        named = get_named_type(field.type)
        is_plain = bool(is_leaf_type(named))
        if any(is_required_argument(argument) for argument in field.args.values()) or not (is_plain or is_whole):
            return ""
        if cost_of(field).costly:
            return ""
        # A list that is no connection has a bound of its own, and is whole without an argument.
        has_pages = "first" in field.args and "after" in field.args
        # Types of a union have fields of one name with different types.
        shown = f"{owner}_{name}: {name}{f'(first: {self._first})' if has_pages else ''}"
        return shown if is_plain else f"{shown} {self.below(named)}"
