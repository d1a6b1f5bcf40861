"""Settings of a domain: a frozen dataclass of `setting`s, which the gateway reads from the environment."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any


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
