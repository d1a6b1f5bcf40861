"""Coerces the variables of an operation by functions that are made once for it.

graphql-core looks at the types again for each value. The functions here accept only what is certainly valid; for
everything else, graphql-core coerces the same variables again, and reports the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from graphql import (
    GraphQLError,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLSchema,
    Undefined,
    VariableDefinitionNode,
    assert_leaf_type,
    is_required_input_field,
)
from graphql.execution.get_variable_signature import GraphQLVariableSignature, get_variable_signature
from graphql.execution.values import VariableValues, VariableValueSource
from graphql.utilities.coerce_input_value import coerce_default_value

# Coerces a value that is not null. Raises an exception if it may be invalid.
Coerce = Callable[[Any], Any]


class _Unfit(Exception):
    """The value may be invalid."""


class _Unknown(Exception):
    """Only graphql-core coerces values of this type."""


class Variables:
    """The variables of one operation."""

    def __init__(self, schema: GraphQLSchema, definitions: Sequence[VariableDefinitionNode]) -> None:
        self._known: list[_Variable] | None
        try:
            self._known = [_variable(schema, definition) for definition in definitions]
        except _Unknown:
            self._known = None

    def of(self, given: Mapping[str, Any]) -> VariableValues | None:
        """Returns the coerced values, as graphql-core does; None if only graphql-core can coerce them."""
        if self._known is None:
            return None
        sources: dict[str, VariableValueSource] = {}
        coerced: dict[str, Any] = {}
        try:
            for signature, typed, may_be_missing in self._known:
                name = signature.name
                if name in given:
                    value = given[name]
                    sources[name] = VariableValueSource(signature, value)
                    coerced[name] = typed.coerced(value)
                elif may_be_missing:
                    sources[name] = VariableValueSource(signature)
                else:
                    return None
        except Exception:  # noqa: BLE001 - of a scalar, or `_Unfit`: graphql-core raises it again, and reports it
            return None
        return VariableValues(sources, coerced)


class _Typed(NamedTuple):
    """How to coerce the values of a type."""

    coerce: Coerce
    is_nullable: bool

    def coerced(self, value: Any) -> Any:
        if value is not None:
            return self.coerce(value)
        if self.is_nullable:
            return None
        raise _Unfit


class _Variable(NamedTuple):
    signature: GraphQLVariableSignature
    typed: _Typed
    may_be_missing: bool


def _variable(schema: GraphQLSchema, definition: VariableDefinitionNode) -> _Variable:
    signature = get_variable_signature(schema, definition)
    if isinstance(signature, GraphQLError):
        raise _Unknown
    typed = _typed(signature.type, ())
    return _Variable(signature, typed, definition.default_value is None and typed.is_nullable)


def _typed(of_type: GraphQLInputType, within: tuple[GraphQLInputObjectType, ...]) -> _Typed:
    """Returns how to coerce values of a type, inside of these types.

    Raises:   _Unknown, e.g. for a type that contains itself: graphql-core bounds the depth of its values.
    """
    if isinstance(of_type, GraphQLNonNull):
        return _typed(of_type.of_type, within)._replace(is_nullable=False)
    if isinstance(of_type, GraphQLList):
        return _Typed(_of_list(_typed(of_type.of_type, within)), is_nullable=True)
    if isinstance(of_type, GraphQLInputObjectType):
        if of_type in within:
            raise _Unknown
        return _Typed(_of_object(of_type, (*within, of_type)), is_nullable=True)
    return _Typed(_of_leaf(assert_leaf_type(of_type).coerce_input_value), is_nullable=True)


def _of_leaf(coerce: Coerce) -> Coerce:
    def coerced(value: Any) -> Any:
        found = coerce(value)
        if found is Undefined:
            raise _Unfit
        return found

    return coerced


def _of_list(item: _Typed) -> Coerce:
    def coerced(values: Any) -> Any:
        # A value that is no list is a list of one. graphql-core makes it.
        if values.__class__ is not list:
            raise _Unfit
        return [item.coerced(value) for value in values]

    return coerced


def _of_object(of_type: GraphQLInputObjectType, within: tuple[GraphQLInputObjectType, ...]) -> Coerce:
    fields = [
        (
            name,
            field.out_name or name,
            *_typed(field.type, within),
            # What a missing field is: `_Unfit` if it must be there, and Undefined if it stays missing.
            _Unfit if is_required_input_field(field) else coerce_default_value(field),
        )
        for name, field in of_type.fields.items()
    ]
    is_one_of = of_type.is_one_of
    # Of a type with exactly one field, strawberry checks that here.
    made = None if of_type.out_type is GraphQLInputObjectType.out_type else of_type.out_type

    def coerced(value: Any) -> Any:
        if value.__class__ is not dict:
            raise _Unfit
        found, unknown = {}, len(value)
        for name, out_name, coerce, is_nullable, missing in fields:
            if name in value:
                unknown -= 1
                given = value[name]
                if given is not None:
                    found[out_name] = coerce(given)
                elif is_nullable:
                    found[out_name] = None
                else:
                    raise _Unfit
            elif missing is _Unfit:
                raise _Unfit
            elif missing is not Undefined:
                found[out_name] = missing
        if unknown or (is_one_of and (len(value) != 1 or len(found) != 1 or None in found.values())):
            raise _Unfit
        return found if made is None else made(found)

    return coerced
