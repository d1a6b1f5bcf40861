"""Where values go, the paths to there, and the errors that have made a place null."""

from __future__ import annotations

from typing import Any

from graphql import GraphQLError
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


class Errors:
    """The errors of a run. Below what is null already nothing is reported any more."""

    def __init__(self) -> None:
        self.found: list[GraphQLError] = []
        self._nulled: set[tuple[str | int, ...]] = set()

    def add(self, error: GraphQLError, path: tuple[str | int, ...]) -> None:
        """Returns an error that has made the place at this path null."""
        if not self._is_null(path):
            self._nulled.add(path)
            self.found.append(error)

    def covers(self, place: Place | None) -> bool:
        """Returns whether the place is null, or in something that is."""
        return self._is_null(tuple(path_of(place)))

    def _is_null(self, path: tuple[str | int, ...]) -> bool:
        return any(path[:length] in self._nulled for length in range(len(path) + 1))
