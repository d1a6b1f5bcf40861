"""Compares values with types: what a TypedDict says about a stored document, and what the document has."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

from bson.datetime_ms import DatetimeMS


@functools.cache
def fields_of(shape: type) -> dict[str, tuple[Any, bool]]:
    """The type of each key of a TypedDict, and whether a document must have the key."""
    hints = get_type_hints(shape, include_extras=True)
    return {
        name: (get_args(hint)[0], False) if get_origin(hint) is NotRequired else (hint, True)
        for name, hint in hints.items()
    }


def differences(value: Any, hint: Any, path: str) -> Iterator[str]:
    """Yields what is wrong with a value of this type: unknown and missing keys, and values of another type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return
    if isinstance(hint, type) and issubclass(hint, dict) and hint is not dict:
        yield from _in_document(value, hint, path)
    elif origin in {Union, UnionType}:
        found = [list(differences(value, one, path)) for one in inner]
        if all(found):
            yield min(found, key=len)[0]
    elif origin is list and isinstance(value, list):
        for one in value:
            yield from differences(one, inner[0], f"{path}[]")
    elif origin is dict and isinstance(value, Mapping):
        for name, one in value.items():
            yield from differences(name, inner[0], f"{path}.{name}")
            yield from differences(one, inner[1], f"{path}.{name}")
    elif not (value in inner if origin is Literal else _is(value, origin or hint)):
        yield f"{path} is {value!r:.60}, not {getattr(hint, '__name__', hint)}"


def _in_document(value: Any, shape: type, path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{path} is {value!r:.60}, not a document"
        return
    fields = fields_of(shape)
    yield from (f"{path}.{name} is not a key of {shape.__name__}" for name in value if name not in fields)
    for name, (hint, is_required) in fields.items():
        if name in value:
            yield from differences(value[name], hint, f"{path}.{name}")
        elif is_required:
            yield f"{path}.{name} is missing"


def _is(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, (int, float))
    if kind is datetime:
        return isinstance(value, (datetime, DatetimeMS))
    return value is None if kind in {None, type(None)} else isinstance(value, kind)
