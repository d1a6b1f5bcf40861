"""What a command reads, and what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from .interests import Interest, Reader
from .queries import Query

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Timed:
    """The documents that match from a later time on, or up to then: those of a filter, by the date at a path."""

    collection: str
    path: str
    query: Mapping[str, Any]

    @classmethod
    def of(cls, collection: str, wanted: Query, now: datetime) -> Self | None:
        """Returns them for a query that compares dates at a path with now; None if it does something else with it."""
        found = wanted.later(now)
        return None if found is None else cls(collection, *found)


class Plan:
    """What a command reads, and the interests that follow from it."""

    collections: Collection[str] = ()
    # Whether nothing of the documents is returned but their number.
    is_count = False
    # Whether the rows are often the same after a change of what is read, so that reading them again saves runs.
    is_compared = False

    def compares(self, value: datetime) -> bool:
        """Returns whether a condition names this value."""
        raise NotImplementedError

    def timed(self, now: datetime) -> Sequence[Timed | None]:
        """Returns, for each condition that names this time, the documents that it lets come or go."""
        raise NotImplementedError

    def signature(self, rows: Sequence[Row] | None) -> Hashable:
        """Returns what the interests follow from: equal signatures have equal interests. None if that is not known."""
        del rows
        return None

    def interests(self, reader: Reader, rows: Sequence[Row] | None) -> Iterable[Interest]:
        """Returns the interests after the command has returned these rows; None if its rows are not known."""
        raise NotImplementedError
