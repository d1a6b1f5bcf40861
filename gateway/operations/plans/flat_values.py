"""What the compiled functions of `flat` call for values that need more than a check of their class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphql import GraphQLLeafType

from portico.resolvers.answer_bounds import Size
from portico.schema.fields import Getter

from .plan import Complete, CompleteAll


class Unfit(Exception):
    """A value does not fit its type."""


def coercion(leaf: GraphQLLeafType, *, is_required: bool) -> Getter:
    coerce = leaf.coerce_output_value

    def coerced(value: Any) -> Any:
        if value is None and not is_required:
            return None
        if value is None or isinstance(value, Exception):
            raise Unfit
        found = coerce(value)
        if found is None:
            raise Unfit
        return found

    return coerced


def sequence(complete: CompleteAll, *, is_required: bool) -> Callable[[Any, Size], Any]:
    """Returns the function that completes a list, whatever the value is."""

    def completed(values: Any, size: Size) -> Any:
        if isinstance(values, list | tuple):
            return complete(values, size)
        return _none_unless(values, is_required=is_required)

    return completed


def some_texts(values: Sequence[Any], _size: Size) -> list[Any]:
    # Fails if one of them is no text.
    "".join(values)
    return list(values)


def counted_texts(values: Sequence[Any], size: Size) -> list[Any]:
    size[0] += len("".join(values))
    return list(values)


def _none_unless(values: Any, *, is_required: bool) -> None:
    """Returns the answer of a value that is no list. Raises Unfit unless it is a null that may be there."""
    if values is not None or is_required:
        raise Unfit


def each(complete: Callable[[Any, Size], Any]) -> CompleteAll:
    return lambda values, size: [complete(value, size) for value in values]


def required(complete: Complete) -> Complete:
    def completed(value: Any, size: Size) -> Any:
        if value is None:
            raise Unfit
        return complete(value, size)

    return completed


def unfit() -> None:
    raise Unfit
