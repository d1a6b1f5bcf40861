"""Failures as data: every domain error becomes the member of the same name in a mutation's union."""

from __future__ import annotations

import re
from typing import Any, cast

import strawberry
from strawberry.schema.exception_handlers import ExceptionHandler
from strawberry.types.field import StrawberryField

from portico.resolvers import errors

from .fields import costs
from .nodes import encode_id


@strawberry.interface(
    description="A failure that the caller can act on. "
    "Every mutation returns a union of its payload and the errors it can meet."
)
class UserError:
    message: str = strawberry.field(description="What went wrong, for people.")


@strawberry.type(description="The object does not exist, or the viewer may not know that it does.")
class NotFound(UserError):
    missing_id: strawberry.ID | None = strawberry.field(default=None, description="The `id` that was looked for.")


@strawberry.type(description="A value that no retry will make acceptable.")
class InvalidInput(UserError):
    path: list[str] = strawberry.field(
        metadata=costs(length=10),
        description='The way to the offending value below `input`, e.g. `["pricing", "retail"]`.',
    )


@strawberry.type(
    description="Somebody else changed the object first, and there is nothing to merge: read it again, then retry."
)
class Conflict(UserError):
    pass


@strawberry.type(description="Another category has the slug, or another node below the same section.")
class SlugTaken(UserError):
    slug: str = strawberry.field(description="The slug in question.")


def camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


HANDLERS: list[ExceptionHandler[Any, Any]] = []


def member(error: type[errors.DomainError]) -> Any:
    """Marks the strawberry type that stands for a domain error. Its fields are the error's facts, by name."""

    def mark(error_type: type) -> type:
        handler = _ToMember(error, error_type)
        HANDLERS.append(cast("ExceptionHandler[Any, Any]", handler))
        return error_type

    return mark


class _ToMember:
    def __init__(self, exception_type: type[errors.DomainError], error_type: type) -> None:
        self.exception_type = exception_type
        self.error_type = error_type

    def handle(self, exception: errors.DomainError, *, field: StrawberryField, info: Any) -> Any:  # noqa: ARG002
        return self.error_type(message=exception.message, **_facts(exception))


def _facts(error: errors.DomainError) -> dict[str, Any]:
    """Returns the public facts as the schema shows them: ids global, paths in the words of the input."""
    if isinstance(error, errors.NotFound):
        return {"missing_id": None if error.key is None else encode_id(error.kind, error.key)}
    if isinstance(error, errors.InvalidInput):
        return {"path": [*(camel_case(part) for part in error.path), *error.within]}
    return {name: getattr(error, name) for name in error.facts}


member(errors.NotFound)(NotFound)
member(errors.InvalidInput)(InvalidInput)
member(errors.Conflict)(Conflict)
member(errors.SlugTaken)(SlugTaken)
