"""Arguments and input fields that several types share."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import strawberry
from strawberry.types.arguments import InputContext

T = TypeVar("T")

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


def flat(input_type: type[T]) -> type[T]:
    """Builds the values of an input type whose fields are all scalars or enums in a tenth of the time. A decorator.

    For the entries of long lists. Strawberry resolves the type and the name of each field again for each value. The
    values of scalars and enums have their final form already. Fields that can be left out must have a default.
    """
    definition: Any = input_type.__strawberry_definition__  # type: ignore[attr-defined]
    names: dict[str, str] = {}

    def build(own_type: type, value: Mapping[str, Any], context: InputContext) -> Any:
        if not names:
            public_name = context.config.name_converter.from_field
            names.update((public_name(field), field.python_name) for field in definition.fields)
        return own_type(**{names[name]: one for name, one in value.items()})

    definition.from_input = build
    return input_type
