"""Settings of a domain: a frozen dataclass of `setting`s, which the gateway reads from the environment."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import Field, field, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints


class Secret(str):
    """A string whose `repr` hides its value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


# The type of a setting that must be the URL of a server.
HttpUrl = Annotated[str, "http or https"]
# The type of a setting that must be the host and the port of an address to listen on.
HostPort = Annotated[str, "host and port"]


def setting(default: Any, doc: str) -> Any:
    """Declares a setting with its default. `doc` says what it does, and its unit. Its type says how its text is parsed.

    Types: str, int and float above zero, bool, Path, Secret, HttpUrl, HostPort, a Literal of strings. With `| None` it
    can be unset.
    """
    return field(default=default, metadata={"doc": doc})


_TYPES = (int, float, bool, str, Secret, Path, HttpUrl, HostPort)


def is_setting(declared: Field[Any]) -> bool:
    """Returns whether a field of a dataclass was declared by `setting`."""
    return "doc" in declared.metadata


@functools.cache
def types_of(kind: type) -> Mapping[str, Any]:
    """Returns the type of each setting, without None. Raises TypeError for a type that no setting has."""
    found = {name: _without_none(given) for name, given in get_type_hints(kind, include_extras=True).items()}
    for declared in fields(kind):
        given = found[declared.name]
        if is_setting(declared) and given not in _TYPES and get_origin(given) is not Literal:
            raise TypeError(f"the setting {declared.name} has the type {given}, which no setting has.")
    return found


def _without_none(kind: Any) -> Any:
    given = [one for one in get_args(kind) if one is not NoneType]
    return given[0] if NoneType in get_args(kind) else kind
