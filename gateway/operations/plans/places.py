"""The places of values in the answer, their paths, and the errors that have made places null."""

from __future__ import annotations

from typing import Any

from graphql import GraphQLError, located_error
from graphql.pyutils import Path

from portico.resolvers.answer_bounds import AnswerTooLarge, Size

# Where a value goes: (the place of its holder, the holder itself, the key in the holder, whether the value is nullable,
# the name of the type that has the field). The holder is a dict or a list. A plain tuple, because each list item and
# each field with a resolver has one: a NamedTuple takes seven times as long to build.
Place = tuple[Any, Any, str | int, bool, str | None]


def path_of(here: Place | None) -> list[str | int]:
    path: list[str | int] = []
    while here is not None:
        here, _, key, _, _ = here
        path.append(key)
    return path[::-1]


def core_path(here: Place) -> Path:
    """Returns the path in graphql-core's form."""
    above, _, key, _, type_name = here
    return Path(None if above is None else core_path(above), key, type_name)


class Stopped(BaseException):
    """Ends a run at once, with this error alone. Not an Exception, because it is no error of a field."""

    def __init__(self, error: GraphQLError) -> None:
        super().__init__(error.message)
        self.error = error


class Errors:
    """The errors of a run. An error below a place that is already null is not reported."""

    def __init__(self, size: Size) -> None:
        """`size` is that of the answer, where the errors count, too."""
        self._size = size
        self.found: list[GraphQLError] = []
        # Whether an error has ended the run.
        self.has_ended = False
        self._nulled: set[tuple[str | int, ...]] = set()

    def add(self, error: GraphQLError, path: tuple[str | int, ...]) -> None:
        """Records an error that has made the place at this path null. Raises Stopped if the answer is too large."""
        if isinstance(error.original_error, AnswerTooLarge):
            self.has_ended = True
            raise Stopped(error)
        if not self._is_null(path):
            try:
                self._size.add_error(path)
            except AnswerTooLarge as too_large:
                self.has_ended = True
                raise Stopped(located_error(too_large, error.nodes, path)) from None
            self._nulled.add(path)
            self.found.append(error)

    def covers(self, place: Place | None) -> bool:
        """Returns whether the place, or a place above it, is null because of an error."""
        return self._is_null(tuple(path_of(place)))

    def _is_null(self, path: tuple[str | int, ...]) -> bool:
        return any(path[:length] in self._nulled for length in range(len(path) + 1))
