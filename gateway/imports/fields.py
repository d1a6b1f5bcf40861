"""Reads the fields of imported records. Each function raises InvalidInput, with the path of the invalid value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from graphql import GraphQLError

from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import MAX_SLUG, check_length
from portico.schema.scalars import parse_instant

__all__ = [
    "Record",
    "as_day",
    "as_instant",
    "as_key",
    "as_list",
    "as_number",
    "as_text",
    "as_texts",
    "key_at",
    "object_of",
    "optional",
    "text_at",
]

Record = Mapping[str, Any]
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def object_of(value: Any, known: set[str] | None, *path: str) -> Record:
    """Returns the value, which must be an object with no other fields than these. With None, any field is allowed."""
    if not isinstance(value, dict):
        raise InvalidInput("must be an object", *path)
    if known is not None and not known.issuperset(value):
        raise InvalidInput("unknown field", *path, next(name for name in value if name not in known))
    return value


def text_at(record: Record, *path: str) -> str:
    """Returns the text in a required field."""
    if record.get(path[-1]) is None:
        raise InvalidInput("is missing", *path)
    return as_text(record[path[-1]], *path)


def as_text(value: Any, *path: str) -> str:
    """Returns the value, which must be a string."""
    if not isinstance(value, str):
        raise InvalidInput("must be a string", *path)
    return value


def key_at(record: Record, name: str, *, longest: int = MAX_SLUG) -> str:
    """Returns a required key. Its length is limited, because one query contains the keys of many records."""
    return check_length(text_at(record, name).strip(), name, longest=longest)


def as_key(value: Any, *path: str) -> str:
    """Returns the value, which must be a string that is not longer than a key."""
    return check_length(as_text(value, *path), *path, longest=MAX_SLUG)


def optional(record: Record, name: str, read: Callable[..., Any], *path: str) -> Any:
    """Reads the value of a field with `read`. Returns None if the field is missing or null."""
    return None if record.get(name) is None else read(record[name], *path, name)


def as_list(value: Any, *path: str) -> list[Any]:
    """Returns the value, which must be a list."""
    if not isinstance(value, list):
        raise InvalidInput("must be a list", *path)
    return value


def as_texts(value: Any, *path: str) -> list[str]:
    """Returns the value, which must be a list of strings."""
    return [as_text(item, *path, str(number)) for number, item in enumerate(as_list(value, *path))]


def as_number(value: Any, *path: str) -> float:
    """Returns the value, which must be a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput("must be a number", *path)
    return float(value)


def as_instant(value: Any, *path: str) -> Any:
    """Parses a date and time in RFC 3339 with a zone. Returns it in UTC."""
    try:
        return parse_instant(value)
    except GraphQLError as error:
        raise InvalidInput(error.message, *path) from None


def as_day(value: Any, *path: str) -> Any:
    """Parses a date and time, or a day, which stands for its midnight in UTC."""
    text = as_text(value, *path)
    return as_instant(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text, *path)
