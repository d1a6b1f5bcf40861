"""Errors as data: each domain error becomes the member that represents its class in the union of a field."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

import strawberry
from graphql.pyutils import is_awaitable
from strawberry.types.base import get_object_definition

from portico.resolvers import errors
from portico.resolvers.errors import Conflict, InvalidInput, NotFound, SlugTaken, UnacceptableFile
from portico.schema.kinds import Kind

from .fields import costs, kept_privately
from .scalars import BIG, BigInt


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


def camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


# The errors of several domains are failures of mutations: a union names their classes.
__all__ = [
    "Conflict",
    "InvalidField",
    "InvalidInput",
    "NotFound",
    "SlugTaken",
    "UnacceptableFile",
    "UserError",
    "camel_case",
    "failure",
    "member",
    "member_name",
    "members_of",
    "path_of",
    "showing",
    "shown_error",
    "value_class",
    "value_facts",
]

E = TypeVar("E", bound=errors.DomainError)
Facts = Callable[[Any], dict[str, Any]]
Resolver = Callable[..., Any]
# What makes the values of the types that represent errors, by the class of the error.
Members = Mapping[type[errors.DomainError], "_ToMember"]
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
        _MEMBERS[error] = _ToMember(error_type, facts or _facts)
        return error_type

    return mark


def failure(description: str, **facts: str) -> Callable[[type[E]], type[E]]:
    """Makes a domain error a failure of mutations: they raise it, and the union of their results names the same class.

    Args:     description: of the type in the schema, which has the name of the class.
              facts: the description of each fact, by its name. The class annotates the types of its facts.
    Raises:   ValueError if another type represents this error, or if the class does not annotate a fact.
    """

    def mark(error: type[E]) -> type[E]:
        annotations = inspect.get_annotations(error)
        if missing := [name for name in facts if name not in annotations]:
            raise ValueError(f"{error.__name__} must annotate its fact `{missing[0]}`, e.g. `{missing[0]}: str`.")
        error.facts = tuple(dict.fromkeys((*error.facts, *facts)))
        types = {name: annotations[name] for name in facts}
        fields = {name: _described(about) for name, about in facts.items()}
        return _declare(
            error, description, types, fields, lambda raised: {name: getattr(raised, name) for name in facts}
        )

    return mark


def _described(about: str, **more: Any) -> Any:
    return strawberry.field(description=about, **more)


def _declare(
    error: type[E], description: str, types: dict[str, Any], fields: dict[str, Any], facts: Facts | None = None
) -> type[E]:
    """Creates the type that represents the error, and makes the class of the error stand for it in unions.

    graphql-core raises every exception that it is given as a value. So the values are of a class of their own.
    """
    body = {"__module__": error.__module__, "__annotations__": types, **fields}
    shown: Any = strawberry.type(type(error.__name__, (UserError,), body), description=description)
    # Strawberry wants the class in an annotation to be the origin of its definition.
    definition = shown.__strawberry_definition__
    definition.origin = error
    member(error, facts)(shown)
    error.__strawberry_definition__ = definition  # type: ignore[attr-defined]
    return error


def members_of(origins: Collection[type]) -> Members:
    """Returns what a union of these types has for errors."""
    return {error: known for error, known in _MEMBERS.items() if known.error_type in origins}


def showing(resolve: Resolver, members: Members) -> Resolver:
    """Returns a resolver that answers with the member for a domain error, which it raises if there is none.

    Strawberry's own handlers of exceptions would compare each field of the schema with each error when a process
    starts.
    """

    def resolve_shown(source: Any, info: Any, **given: Any) -> Any:
        try:
            result = resolve(source, info, **given)
        except errors.DomainError as error:
            return _shown_as(error, members)
        return ended(result) if is_awaitable(result) else result

    async def ended(result: Awaitable[Any]) -> Any:
        try:
            return await result
        except errors.DomainError as error:
            return _shown_as(error, members)

    return resolve_shown


def _shown_as(error: errors.DomainError, members: Members) -> Any:
    """Returns the value of the member for the nearest base of the error. Raises the error if there is none."""
    nearest = next((members[base] for base in type(error).__mro__ if base in members), None)
    if nearest is None:
        raise error
    return nearest.value_of(error)


def member_name(error: type[errors.DomainError]) -> str | None:
    """Returns the name of the GraphQL type that represents this error or its nearest base; None if there is none."""
    found = next((_MEMBERS[base] for base in error.__mro__ if base in _MEMBERS), None)
    return None if found is None else get_object_definition(found.error_type, strict=True).name


def shown_error(error: E) -> E:
    """Returns the value of an error, for a field that has the class of the error as its type."""
    shown: E = _MEMBERS[type(error)].value_of(error)
    return shown


def value_class(origin: type) -> type:
    """Returns the class of the values of a type, from the origin of its definition: for errors, it is another one."""
    shown = _MEMBERS.get(origin)
    return origin if shown is None else shown.value_class


class _ToMember:
    def __init__(self, error_type: type, facts: Facts) -> None:
        # What unions name: the class of the error, if it is a failure.
        self.error_type = get_object_definition(error_type, strict=True).origin
        self.value_class = error_type
        self._facts = facts

    def value_of(self, error: errors.DomainError) -> Any:
        return self.value_class(message=error.message, **self._facts(error))


def _facts(error: errors.DomainError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in error.facts}


_PRIVATE: Any = strawberry.Private
_PATH = (
    'The path of the invalid value below `input`, for example `["pricing", "retail"]`. Positions of lists begin at 0.'
)
_MINIMUM = "The least that is allowed, if the value or its length is beyond a bound."
_MAXIMUM = "The most that is allowed, if the value or its length is beyond a bound."
_PATTERN = "The regular expression that the whole value must match, if it does not."


@strawberry.type(description="A value of the input that is not valid.")
class InvalidField:
    message: str = _described("A description of the error for people.")
    code: str = _described("What is wrong with the value, for programs, for example `TOO_LONG`.")
    path: list[str] = _described(_PATH, metadata=costs(length=4))
    minimum: BigInt | None = _described(_MINIMUM, default=None)
    maximum: BigInt | None = _described(_MAXIMUM, default=None)
    pattern: str | None = _described(_PATTERN, default=None)


def path_of(error: errors.InvalidInput) -> list[str]:
    """Returns the path of the invalid value as the schema shows it."""
    return [*map(camel_case, error.path), *error.within]


def value_facts(error: errors.InvalidInput) -> dict[str, Any]:
    """Returns what is wrong with one value, by the names of the fields in the schema."""
    return {
        "path": path_of(error),
        "code": error.code,
        "minimum": _shown_bound(error.least),
        "maximum": _shown_bound(error.most),
        "pattern": error.pattern,
    }


def _shown_bound(bound: int | None) -> int | None:
    """Returns the bound, or None if it exceeds `BigInt`. The message has such a bound, e.g. that of 64 bits."""
    return None if bound is None or not -BIG <= bound <= BIG else bound


def _invalid_field(error: errors.InvalidInput) -> InvalidField:
    return InvalidField(message=error.message, **value_facts(error))


_declare(
    NotFound,
    "The object does not exist, or the viewer may not see it.",
    {"missing_id": strawberry.ID | None},
    {"missing_id": _described("The `id` of the missing object.", default=None)},
    lambda error: {"missing_id": None if error.key is None else Kind.encode_id(error.kind, error.key)},
)
_declare(
    InvalidInput,
    "Values of the input are not valid. Change them before you retry. `fields` has all of them; the other fields are "
    "about the first one.",
    {
        "path": list[str],
        "minimum": BigInt | None,
        "maximum": BigInt | None,
        "pattern": str | None,
        "fields": list[InvalidField],
    },
    {
        "path": _described(_PATH, metadata=costs(length=4)),
        "minimum": _described(_MINIMUM, default=None),
        "maximum": _described(_MAXIMUM, default=None),
        "pattern": _described(_PATTERN, default=None),
        "fields": _described(
            "Each value that is not valid, up to 100.", default_factory=list, metadata=costs(length=4)
        ),
    },
    lambda error: {**value_facts(error), "fields": [_invalid_field(one) for one in error.each()]},
)
_declare(
    Conflict,
    "Another call changed the object first. Read the object again, then retry.",
    # The fields that domains add read it.
    {"about": _PRIVATE[Any]},
    {"about": kept_privately()},
    lambda error: {"about": error.about},
)
failure(
    "Another category, or another node in the same section, already has the slug.",
    slug="The slug that is already in use.",
)(SlugTaken)
failure("The file is not a picture of an accepted type, or it is too large.")(UnacceptableFile)
