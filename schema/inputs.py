"""Arguments and input fields that several types share."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Annotated, Any, NamedTuple, ParamSpec, TypeVar

import strawberry
from strawberry.relay import GlobalID
from strawberry.scalars import is_scalar
from strawberry.types.arguments import InputContext
from strawberry.types.base import StrawberryMaybe, StrawberryObjectDefinition, StrawberryOptional
from strawberry.types.enum import StrawberryEnumDefinition, has_enum_definition

from portico.resolvers.errors import InvalidInput
from portico.resolvers.paging import page_size

P = ParamSpec("P")
R = TypeVar("R")

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


class LeftOut(int):
    """The default of an argument that the operation has left out, as opposed to the same value that it gives."""


class Span(NamedTuple):
    """The arguments of a connection that say which page is wanted."""

    first: int | None
    after: str | None
    last: int | None
    before: str | None

    @property
    def is_backwards(self) -> bool:
        """Whether the page ends at the end of the list, or before a row."""
        return self.last is not None or self.before is not None

    def size(self, default: int) -> int:
        """Returns the size of the page.

        Raises:   InvalidInput, with all invalid arguments but the cursors.
        """
        if not self.is_backwards:
            # Later code gets a plain number, and none that was left out.
            return int(page_size(self.first, default))
        with InvalidInput.collect() as check:
            size = check(page_size, self.last, default, name="last")
            if self.first is not None and not isinstance(self.first, LeftOut):
                text = "Use `first` without `last` and `before`."
                check.refuse(InvalidInput(text, "first", code=InvalidInput.NOT_ALLOWED))
            if self.after is not None:
                text = "Use `after` with `first`, or `before` with `last`."
                check.refuse(InvalidInput(text, "after", code=InvalidInput.NOT_ALLOWED))
        return size

    def beside(self, default: int, make: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Returns what `make` returns of the other arguments of the field.

        If it raises InvalidInput, names the invalid arguments of the page, too. Otherwise the page checks them: its
        cursors are those of a listing.
        """
        try:
            return make(*args, **kwargs)
        except InvalidInput as error:
            with InvalidInput.collect() as check:
                check.refuse(error)
                check(self.size, default)
            raise


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
