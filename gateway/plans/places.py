"""Where values go, and the paths to there."""

from __future__ import annotations

from typing import Any

from graphql.pyutils import Path

# Where a value goes: the place of what holds it, that dict or list itself, its key there, whether it may be null, and
# the type that has the field.
Place = tuple[Any, Any, str | int, bool, str | None]


def path_of(here: Place | None) -> list[str | int]:
    path: list[str | int] = []
    while here is not None:
        path.append(here[2])
        here = here[0]
    return path[::-1]


def core_path(here: Place) -> Path:
    above = here[0]
    return Path(None if above is None else core_path(above), here[2], here[4])
