"""How a domain declares its settings: a frozen dataclass of `setting`s. The gateway reads them from the environment."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any


class Secret(str):
    """A text that does not print itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


# The type of a setting that must be the URL of a server.
HttpUrl = Annotated[str, "http or https"]


def setting(default: Any, doc: str) -> Any:
    """A setting with its default. `doc` says what it does, and its unit. Its type tells how its text is read.

    Types: str, int and float above zero, bool, Path, Secret, HttpUrl, a Literal of texts; with `| None` unset, too.
    """
    return field(default=default, metadata={"doc": doc})
