"""Errors as data: each domain error becomes the member that represents its class in a mutation's union."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import strawberry
from strawberry.schema.exception_handlers import ExceptionHandler
from strawberry.types.base import get_object_definition
from strawberry.types.field import StrawberryField

from portico.resolvers import errors

from .fields import costs
from .nodes import encode_id
from .scalars import BigInt


@strawberry.interface(
    description="An error that the caller can handle. "
    "Every mutation returns a union of its payload and its possible errors."
)
class UserError:
    message: str = strawberry.field(description="A description of the error for people.")
    code: str = strawberry.field(
        default="",
        description="What is wrong, for programs: the name of the type in capitals, for example `SLUG_TAKEN`; of an "
        "`InvalidInput`, what is wrong with the value.",
    )

    def __post_init__(self) -> None:
        self.code = self.code or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).upper()


@strawberry.type(description="The object does not exist, or the viewer may not see it.")
class NotFound(UserError):
    missing_id: strawberry.ID | None = strawberry.field(default=None, description="The `id` of the missing object.")


@strawberry.type(description="A value of the input is not valid. Change it before you retry.")
class InvalidInput(UserError):
    path: list[str] = strawberry.field(
        metadata=costs(length=10),
        description='The path of the invalid value below `input`, for example `["pricing", "retail"]`.',
    )
    minimum: BigInt | None = strawberry.field(
        default=None, description="The least that is allowed, if the value or its length is beyond a bound."
    )
    maximum: BigInt | None = strawberry.field(
        default=None, description="The most that is allowed, if the value or its length is beyond a bound."
    )


@strawberry.type(description="Another call changed the object first. Read the object again, then retry.")
class Conflict(UserError):
    pass


@strawberry.type(description="Another category, or another node in the same section, already has the slug.")
class SlugTaken(UserError):
    slug: str = strawberry.field(description="The slug that is already in use.")


def camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


Facts = Callable[[Any], dict[str, Any]]
# By the class of the error.
_MEMBERS: dict[type[errors.DomainError], _ToMember] = {}


def member(error: type[errors.DomainError], facts: Facts | None = None) -> Any:
    """Marks the strawberry type that represents a domain error. Its fields are the error's facts, by name.

    Args:     facts: returns the values of the fields, if they differ from the error's facts.
    Raises:   ValueError if another type represents this error.
    """

    def mark(error_type: type) -> type:
        if error in _MEMBERS:
            known = _MEMBERS[error].error_type.__name__
            raise ValueError(f"{error_type.__name__} cannot represent {error.__name__}: {known} already does.")
        _MEMBERS[error] = _ToMember(error, error_type, facts or _facts)
        return error_type

    return mark


def handlers() -> list[ExceptionHandler[Any, Any]]:
    """Returns what turns errors into members, subclasses first: strawberry takes the first that fits."""
    ordered = sorted(_MEMBERS, key=lambda error: len(error.__mro__), reverse=True)
    return [_MEMBERS[error] for error in ordered]


def member_name(error: type[errors.DomainError]) -> str | None:
    """Returns the name of the GraphQL type that represents this error or its nearest base; None if there is none."""
    found = next((_MEMBERS[base] for base in error.__mro__ if base in _MEMBERS), None)
    return None if found is None else get_object_definition(found.error_type, strict=True).name


class _ToMember:
    def __init__(self, exception_type: type[errors.DomainError], error_type: type, facts: Facts) -> None:
        self.exception_type = exception_type
        self.error_type = error_type
        self._facts = facts

    def handle(self, exception: errors.DomainError, *, field: StrawberryField, info: Any) -> Any:  # noqa: ARG002
        return self.error_type(message=exception.message, **self._facts(exception))


def _facts(error: errors.DomainError) -> dict[str, Any]:
    """Returns the facts of an error as the schema shows them: with global ids, and with paths in camel case."""
    if isinstance(error, errors.NotFound):
        return {"missing_id": None if error.key is None else encode_id(error.kind, error.key)}
    if isinstance(error, errors.InvalidInput):
        return invalid_facts(error)
    return {name: getattr(error, name) for name in error.facts}


def invalid_facts(error: errors.InvalidInput) -> dict[str, Any]:
    """Returns the values of the fields of `InvalidInput`."""
    return {"path": path_of(error), "code": error.code, "minimum": error.least, "maximum": error.most}


def path_of(error: errors.InvalidInput) -> list[str]:
    """Returns the path of the invalid value as the schema shows it."""
    return [*map(camel_case, error.path), *error.within]


member(errors.NotFound)(NotFound)
member(errors.InvalidInput)(InvalidInput)
member(errors.Conflict)(Conflict)
member(errors.SlugTaken)(SlugTaken)
