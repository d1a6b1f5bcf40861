"""Arguments and input fields that several types share."""

from collections.abc import Mapping
from dataclasses import MISSING
from typing import Annotated, Any, NamedTuple

import strawberry
from strawberry.relay import GlobalID
from strawberry.scalars import is_scalar
from strawberry.types.arguments import InputContext
from strawberry.types.base import StrawberryMaybe, StrawberryObjectDefinition, StrawberryOptional
from strawberry.types.enum import StrawberryEnumDefinition, has_enum_definition

First = Annotated[int | None, strawberry.argument(description="The size of the page, 1 to 100.")]
Last = Annotated[
    int | None,
    strawberry.argument(
        description="The size of a page that ends at the end of the list or before `before`, 1 to 100."
    ),
]
Before = Annotated[
    str | None, strawberry.argument(description="A cursor. The page ends before its row. Use it with `last`.")
]
After = Annotated[str | None, strawberry.argument(description="A cursor. The page starts after its row.")]


class Span(NamedTuple):
    """The arguments of a connection that say which page is wanted."""

    first: int | None
    after: str | None
    last: int | None
    before: str | None


def described(description: str) -> Any:
    """Returns an argument with this description, for `Annotated`."""
    return strawberry.argument(description=description)


def idempotency_key(*, is_required: bool = False) -> Any:
    """Returns the input field of the idempotency key."""
    description = "Repeated calls with the same key take effect once, and return the same answer."
    if is_required:
        return strawberry.field(description=description)
    return strawberry.field(default=None, description=description)


def build_directly(definition: StrawberryObjectDefinition) -> None:
    """Builds the values of an input type by what is known of its fields, which strawberry looks up for each value.

    Leaves a type alone that builds its own values, or has a field that tells null from a missing value.
    """
    types = {
        field.python_name: unwrapped(field.resolve_type(type_definition=definition)) for field in definition.fields
    }
    if definition.from_input is not None or any(isinstance(one, StrawberryMaybe) for one in types.values()):
        return
    fields: dict[str, tuple[str, Any]] = {}
    # As strawberry does: a field without a default is None if it is missing.
    missing = {
        field.python_name: None
        for field in definition.fields
        if field.default_value is MISSING and field.default_factory is MISSING
    }

    def build(own_type: type, value: Mapping[str, Any], context: InputContext) -> Any:
        if not fields:
            public_name = context.config.name_converter.from_field
            found = ((field, types[field.python_name]) for field in definition.fields)
            made = context.scalar_registry
            fields.update(
                {
                    public_name(field): (field.python_name, None if is_made_by_core(one, made) else one)
                    for field, one in found
                }
            )
        values: dict[str, Any] = dict(missing)
        for name, given in value.items():
            python_name, inner = fields[name]
            values[python_name] = given if inner is None else context.convert(given, inner, name)
        return own_type(**values)

    definition.from_input = build


def is_made_by_core(input_type: Any, scalars: Any) -> bool:
    """Returns whether graphql-core has made the final value of a type: one of a scalar or of an enum."""
    is_enum = isinstance(input_type, StrawberryEnumDefinition) or has_enum_definition(input_type)
    return is_enum or (input_type is not GlobalID and is_scalar(input_type, scalars))


def unwrapped(input_type: Any) -> Any:
    """Returns the type of the values that are not null."""
    while isinstance(input_type, StrawberryOptional) and not isinstance(input_type, StrawberryMaybe):
        input_type = input_type.of_type
    return input_type
