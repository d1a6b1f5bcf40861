"""Calls the function of a resolver without strawberry's wrappers.

For every call, strawberry looks up the arguments of the field and their types, and passes through a chain of functions
for extensions and handled exceptions. A plan knows the field, so it does this once. Fields with extensions, those
with errors in their result, and those of a class of their own keep strawberry's resolver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphql import GraphQLField, GraphQLSchema, is_union_type
from graphql.type import get_named_type
from strawberry.types.arguments import convert_argument
from strawberry.types.field import StrawberryField

from portico.schema.inputs import is_made_by_core, unwrapped

Resolver = Callable[..., Any]


def direct_resolver(schema: GraphQLSchema, definition: GraphQLField, field: StrawberryField | None) -> Resolver | None:
    """Returns a function that calls the resolver of a field as strawberry would; None if only strawberry can."""
    of_strawberry: Any = getattr(schema, "_strawberry_schema", None)
    if field is None or of_strawberry is None or field.base_resolver is None or field.extensions:
        return None
    if type(field).get_result is not StrawberryField.get_result:
        # A class of its own calls the resolver in another way.
        return None
    if field.is_subscription:
        # Its function starts the subscription. An event has its own resolver.
        return None
    # Strawberry turns an exception into a member of a union.
    if is_union_type(get_named_type(definition.type)) or not callable(field.base_resolver.wrapped_func):
        return None
    return _caller(field, of_strawberry.config, of_strawberry.schema_converter.scalar_registry)


def _caller(field: StrawberryField, config: Any, scalars: Any) -> Resolver:
    resolver: Any = field.base_resolver
    function, info_class = resolver.wrapped_func, config.info_class
    arguments = [
        (config.name_converter.from_argument(argument), argument.python_name, _conversion(argument.type, scalars))
        for argument in field.arguments
    ]
    takes_self = resolver.self_parameter is not None
    of_source = {found.name for found in (resolver.parent_parameter, resolver.root_parameter) if found is not None}
    of_info = None if resolver.info_parameter is None else resolver.info_parameter.name

    def resolve(source: Any, info: Any, **given: Any) -> Any:
        wrapped = info_class(_raw_info=info, _field=field)
        values = {}
        for name, python_name, conversion in arguments:
            if name in given:
                value = given[name]
                if conversion is not None:
                    value = convert_argument(value, conversion, scalars, config, wrapped, path=(name,))
                values[python_name] = value
        for name in of_source:
            values[name] = source
        if of_info is not None:
            values[of_info] = wrapped
        return function(source, **values) if takes_self else function(**values)

    return resolve


def _conversion(argument_type: Any, scalars: Any) -> Any:
    """Returns the type to convert a value to; None if graphql-core has made the value that the resolver gets."""
    return None if is_made_by_core(unwrapped(argument_type), scalars) else argument_type
