"""The filters of commands, and when the clock changes what they match."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .comparing import stored_form
from .matching import TESTS, Filter, Unknown


class Query:
    """The filter of a command, and its dates."""

    __slots__ = ("_stored", "filter")

    def __init__(self, query: Mapping[str, Any]) -> None:
        self._stored: Mapping[str, Any] | None = None
        try:
            self._stored = stored_form(query)
            self.filter = Filter.of(self._stored)
        except Exception:  # noqa: BLE001 - whatever cannot be encoded or understood may match anything
            self.filter = Filter([Unknown()])

    def names(self, value: Any) -> bool:
        """Returns whether the value is in a condition."""
        return self._stored is None or _has(self._stored, value)

    def later(self, now: datetime) -> tuple[str, Mapping[str, Any]] | None:
        """Returns the path whose dates are compared with this time, and a filter of the documents with later ones.

        Returns None if the filter does anything else with the time.
        """
        try:
            paths, rest = _without_comparisons(self._stored or {}, now)
        except _NotCompared:
            return None
        if len(paths) != 1:
            return None
        (path,) = paths
        return path, {"$and": [rest, {path: {"$gt": now}}]}


class _NotCompared(Exception):
    """A filter uses a time in another way than to compare it."""


def _without_comparisons(query: Mapping[str, Any], now: datetime) -> tuple[set[str], Mapping[str, Any]]:
    """Returns the paths that a filter compares with this time, and the filter without that."""
    paths: set[str] = set()
    rest: dict[str, Any] = {}
    for name, wanted in query.items():
        if name == "$and":
            parts = [_without_comparisons(part, now) for part in wanted]
            paths.update(*(found for found, _ in parts))
            rest[name] = [part for _, part in parts]
            continue
        kept = wanted
        if isinstance(wanted, dict) and not name.startswith("$"):
            kept = {key: operand for key, operand in wanted.items() if key not in TESTS or operand != now}
            if len(kept) < len(wanted):
                paths.add(name)
        if _has(kept, now):
            raise _NotCompared
        if kept or not isinstance(kept, dict):
            rest[name] = kept
    return paths, rest


def _has(query: Any, value: Any) -> bool:
    if isinstance(query, dict | list):
        return any(_has(below, value) for below in (query.values() if isinstance(query, dict) else query))
    return bool(query == value)
