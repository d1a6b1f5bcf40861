"""Adds the plain fields of products to types and inputs of the schema."""

from collections.abc import Callable
from typing import Any, TypeVar

import strawberry

from portico.resolvers.catalog.product_fields import PLAIN, PlainField
from portico.schema.fields import stored

T = TypeVar("T")
Declare = Callable[[PlainField], tuple[Any, Any]]


def _shown(field: PlainField) -> tuple[Any, Any]:
    return (field.kind if field.is_required else field.kind | None), stored(description=field.about)


def _given(field: PlainField) -> tuple[Any, Any]:
    if field.is_required:
        return field.kind, strawberry.field(description=field.about)
    return field.kind | None, strawberry.field(default=None, description=field.about)


def _changed(field: PlainField) -> tuple[Any, Any]:
    clearing = "It cannot be cleared." if field.is_required else "Null clears it."
    maybe: Any = strawberry.Maybe
    return maybe[field.kind | None], strawberry.field(description=f"{field.about} {clearing}")


def _adding(declare: Declare, before: str) -> Callable[[type[T]], type[T]]:
    """Returns a decorator that adds the plain fields to a class, before the field of this name."""

    def add(cls: type[T]) -> type[T]:
        annotations: dict[str, Any] = {}
        for own, kind in cls.__annotations__.items():
            if own == before:
                for name, field in PLAIN.items():
                    annotations[name], value = declare(field)
                    setattr(cls, name, value)
            annotations[own] = kind
        cls.__annotations__ = annotations
        return cls

    return add


def shows_plain_fields(*, before: str) -> Callable[[type[T]], type[T]]:
    """Adds the plain fields to a type."""
    return _adding(_shown, before)


def takes_plain_fields(*, before: str) -> Callable[[type[T]], type[T]]:
    """Adds the plain fields to the input of a new product."""
    return _adding(_given, before)


def changes_plain_fields(*, before: str) -> Callable[[type[T]], type[T]]:
    """Adds the plain fields to the input of an edit, where each can be left out."""
    return _adding(_changed, before)
