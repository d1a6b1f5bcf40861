"""Calls the function of a resolver without strawberry's wrappers.

For every call, strawberry looks up the arguments of the field and their types, and passes through a chain of functions
for extensions and handled exceptions. A plan knows the field, so it does this once. So does it for mutations, whose one
extension is `Write`. Other fields with extensions, and those of a class of their own, keep strawberry's resolver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import strawberry
from graphql import GraphQLField, GraphQLSchema
from strawberry.types.arguments import InputContext, convert_argument
from strawberry.types.base import StrawberryMaybe, has_object_definition
from strawberry.types.field import StrawberryField

from portico.schema.errors import Resolver, showing
from portico.schema.fields import Getter
from portico.schema.inputs import is_made_by_core, unwrapped
from portico.schema.installation import ERRORS
from portico.schema.mutations import Write


def own_value(field: StrawberryField | None) -> Getter | None:
    """Returns a function that reads a field without a resolver from its object; None for any other field."""
    if field is None or not field.is_basic_field or type(field).get_result is not StrawberryField.get_result:
        return None
    read, name = field.default_resolver, field.python_name
    return lambda source: read(source, name)


def direct_resolver(schema: GraphQLSchema, definition: GraphQLField, field: StrawberryField | None) -> Resolver | None:
    """Returns a function that calls the resolver of a field as strawberry would; None if only strawberry can."""
    of_strawberry: Any = getattr(schema, "_strawberry_schema", None)
    if field is None or of_strawberry is None or field.base_resolver is None:
        return None
    if type(field).get_result is not StrawberryField.get_result:
        # A class of its own calls the resolver in another way.
        return None
    if field.is_subscription:
        # Its function starts the subscription. An event has its own resolver.
        return None
    if not callable(field.base_resolver.wrapped_func):
        return None
    config, scalars = of_strawberry.config, of_strawberry.schema_converter.scalar_registry
    call = _writer(field, config, scalars) if field.extensions else _caller(field, config, scalars)
    errors = definition.extensions.get(ERRORS)
    return call if call is None or errors is None else showing(call, errors)


def _caller(field: StrawberryField, config: Any, scalars: Any) -> Resolver:
    resolver: Any = field.base_resolver
    function, info_class = resolver.wrapped_func, config.info_class
    converted = _converter(field, config, scalars)
    takes_self = resolver.self_parameter is not None
    of_source = {found.name for found in (resolver.parent_parameter, resolver.root_parameter) if found is not None}
    of_info = None if resolver.info_parameter is None else resolver.info_parameter.name

    def resolve(source: Any, info: Any, **given: Any) -> Any:
        wrapped = info_class(_raw_info=info, _field=field)
        values = converted(given, wrapped)
        for name in of_source:
            values[name] = source
        if of_info is not None:
            values[of_info] = wrapped
        return function(source, **values) if takes_self else function(**values)

    return resolve


def _writer(field: StrawberryField, config: Any, scalars: Any) -> Resolver | None:
    """Returns the resolver of a mutation; None for a field with other extensions than `Write`, or another signature."""
    resolver: Any = field.base_resolver
    [write, *more] = field.extensions
    sources = resolver.parent_parameter, resolver.root_parameter
    if type(write) is not Write or more or sources != (None, None) or not resolver.is_async:
        return None
    function, info_class = resolver.wrapped_func, config.info_class
    converted = _converter(field, config, scalars)
    takes_self = resolver.self_parameter is not None
    of_info = None if resolver.info_parameter is None else resolver.info_parameter.name

    def call(source: Any, info: Any, **values: Any) -> Awaitable[Any]:
        if of_info is not None:
            values[of_info] = info
        done: Awaitable[Any] = function(source, **values) if takes_self else function(**values)
        return done

    def resolve(source: Any, info: Any, **given: Any) -> Awaitable[Any]:
        wrapped = info_class(_raw_info=info, _field=field)
        done: Awaitable[Any] = write.resolve_async(call, source, wrapped, **converted(given, wrapped))
        return done

    return resolve


def _converter(field: StrawberryField, config: Any, scalars: Any) -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """Returns a function that makes the arguments of the resolver from those of graphql-core."""
    arguments = [
        (name, argument.python_name, _conversion(name, argument.type, config, scalars))
        for argument in field.arguments
        for name in (config.name_converter.from_argument(argument),)
    ]

    def converted(given: Mapping[str, Any], info: Any) -> dict[str, Any]:
        values = {}
        for name, python_name, conversion in arguments:
            if name in given:
                value = given[name]
                if conversion is not None:
                    value = conversion(value, info)
                values[python_name] = value
        return values

    return converted


def _conversion(name: str, argument_type: Any, config: Any, scalars: Any) -> Callable[[Any, Any], Any] | None:
    """Returns what makes the value of the resolver from that of graphql-core; None if they are the same."""
    inner = unwrapped(argument_type)
    if is_made_by_core(inner, scalars):
        return None
    build = inner.__strawberry_definition__.from_input if has_object_definition(inner) else None
    if build is None or isinstance(argument_type, StrawberryMaybe):
        return lambda value, info: convert_argument(value, argument_type, scalars, config, info, path=(name,))

    def built(value: Any, info: Any) -> Any:
        if value is None or value is strawberry.UNSET:
            return value
        return build(inner, value, InputContext(info, config, scalars, (name,)))

    return built
