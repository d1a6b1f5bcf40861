"""Derives interests from read commands. What is not derived exactly is widened, never narrowed.

| read | interests |
|---|---|
| `find`, and a pipeline that only filters, sorts, limits, projects, and continues with further ranges of its collection | `Rows` and `Entering`, up to the last row of a full page |
| a count | `Rows` and `Entering` if it is small (`counting`), `Matches` otherwise, by the paths of its filter |
| any other pipeline | `Matches` by the filter that it begins with, and everything in the collections that it looks up |
"""  # noqa: E501 - a row of the table

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from .comparing import decoded, encoded
from .counting import Count, Counts
from .interests import Interest, Matches, Reader
from .lists import Branch, ByIds, Listed, ids_of
from .paths import ALL_PATHS, Paths
from .pipelines import Stage, paths_in, paths_of
from .plans import Plan, Row, Timed
from .queries import Query

_ANYTHING: Mapping[str, Any] = {}
_MAPPINGS = (dict, Mapping)
_FIND_OPTIONS = {"sort", "limit", "batch_size", "hint"}
# The plans of the commands that were sent last. A query that runs again sends the same ones, mostly.
_MOST_PLANS = 1_024
# How long a command may be whose plan is kept, as BSON.
_MOST_BYTES = 2_048


class Matching(Plan):
    """Everything in some collections that matches, with the paths that the result depends on."""

    def __init__(self, parts: Iterable[tuple[str, Mapping[str, Any], Paths]]) -> None:
        self._parts = [(collection, Query(query), paths) for collection, query, paths in parts]
        self.collections = frozenset(collection for collection, _, _ in self._parts)

    def interests(self, reader: Reader, rows: Sequence[Row] | None) -> Iterator[Interest]:
        del rows
        for collection, query, paths in self._parts:
            yield Matches(reader, collection, query.filter, paths)

    def compares(self, value: datetime) -> bool:
        return any(query.names(value) for _, query, _ in self._parts)

    def timed(self, now: datetime) -> Sequence[Timed | None]:
        return [Timed.of(name, query, now) for name, query, _ in self._parts if query.names(now)]


class Together(Plan):
    """Several lists by one command. Each row is a document, with the number of its list."""

    def __init__(self, parts: Sequence[Listed]) -> None:
        self._parts = parts
        self.collections = frozenset().union(*(part.collections for part in parts))
        self.is_compared = any(part.is_compared for part in parts)

    def interests(self, reader: Reader, rows: Sequence[Row] | None) -> Iterator[Interest]:
        for number, part in enumerate(self._parts):
            own = None if rows is None else [row["document"] for row in rows if row["part"] == number]
            yield from part.interests(reader, own)

    def compares(self, value: datetime) -> bool:
        return any(part.compares(value) for part in self._parts)

    def timed(self, now: datetime) -> Sequence[Timed | None]:
        return [one for part in self._parts for one in part.timed(now)]


def of_find(
    collection: str,
    query: Mapping[str, Any] | None,
    projection: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> Plan:
    """Returns the plan of a `find`."""
    if not (_FIND_OPTIONS.issuperset(options) and (projection is None or isinstance(projection, _MAPPINGS))):
        return of_collection(collection)
    query, sort, limit = query or {}, options.get("sort") or (), options.get("limit") or None
    if not sort and (ids := ids_of(query)) is not None:
        return ByIds(collection, ids, query, limit, projection)
    command = _encoded(query)
    if command is not None:
        order = tuple(sort.items() if isinstance(sort, _MAPPINGS) else sort)
        shown = tuple(projection.items()) if projection else ()
        try:
            return _equal_find(collection, command, order, limit, shown)
        except TypeError:
            # The projection has operators.
            pass
    return Listed(collection, [Branch(query, _order(sort) or (), limit, projection)], limit)


def _encoded(command: Mapping[str, Any]) -> bytes | None:
    """Returns what a plan is found by, which is exact; None if the command is too long, or cannot be encoded."""
    try:
        found = encoded(command)
    except Exception:  # noqa: BLE001 - nothing is derived from it, so it may match anything
        return None
    return found if len(found) <= _MOST_BYTES else None


@lru_cache(maxsize=_MOST_PLANS)
def _equal_find(
    collection: str,
    query: bytes,
    order: Sequence[tuple[str, int]],
    limit: int | None,
    shown: Sequence[tuple[str, Any]],
) -> Plan:
    return Listed(collection, [Branch(decoded(query), _order(order) or (), limit, dict(shown))], limit)


def of_count(collection: str, query: Mapping[str, Any]) -> Counts:
    """Returns the plan of a count."""
    return Counts(collection, [Count(query, None, "", {})])


def of_values(collection: str, path: str, query: Mapping[str, Any] | None) -> Plan:
    """Returns the plan of a read of the different values at a path."""
    return Matching([(collection, query or {}, Paths([path]))])


def of_collection(collection: str) -> Plan:
    """Returns the plan of a read of which nothing is known but the collection."""
    return Matching([(collection, _ANYTHING, ALL_PATHS)])


def of_pipeline(collection: str, stages: Sequence[Stage]) -> Plan:
    """Returns the plan of an aggregation."""
    command = _encoded({"": stages})
    return derived(collection, stages) if command is None else _equal_pipeline(collection, command)


@lru_cache(maxsize=_MOST_PLANS)
def _equal_pipeline(collection: str, command: bytes) -> Plan:
    return derived(collection, decoded(command)[""])


def derived(collection: str, stages: Sequence[Stage]) -> Plan:
    try:
        found = _together(collection, stages) or _listed(collection, list(stages)) or _counted(collection, stages)
    except (AttributeError, KeyError, TypeError, ValueError):
        found = None
    return Matching(_widened(collection, stages)) if found is None else found


def _order(sort: Any) -> Sequence[tuple[str, int]] | None:
    """Returns the paths and directions of a sort; None if it sorts by something else."""
    found = list(sort.items() if isinstance(sort, _MAPPINGS) else sort or ())
    return found if all(direction in (1, -1) and isinstance(direction, int) for _, direction in found) else None


class _Stages:
    """The stages that are not read yet."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._left = list(stages)

    def take(self, name: str) -> Any:
        """Returns the argument of the next stage, and goes on, if it has this name; otherwise None."""
        if self._left and list(self._left[0]) == [name]:
            return self._left.pop(0)[name]
        return None

    def take_all(self, name: str) -> list[Any]:
        found = []
        while (one := self.take(name)) is not None:
            found.append(one)
        return found

    @property
    def is_empty(self) -> bool:
        return not self._left


def _branch(left: _Stages) -> Branch | None:
    """Reads a filter, computed values, a sort, a limit and a projection."""
    matches = left.take_all("$match")
    values = left.take("$set")
    order = _order(left.take("$sort"))
    if order is None:
        return None
    computed: Paths | None = None
    if values is not None:
        # Rows may not show by what they are sorted. Whatever matches may come into the list.
        computed, order = paths_in(values) | Paths(path for path, _ in order), ()
    query = {"$and": matches} if matches else {}
    return Branch(query, order, left.take("$limit"), left.take("$project"), computed)


def _unions(collection: str, left: _Stages) -> list[Sequence[Stage]] | None:
    """Reads the pipelines that follow the first one; None if one reads another collection."""
    found = left.take_all("$unionWith")
    if any(not isinstance(one, Mapping) or one["coll"] != collection for one in found):
        return None
    return [one["pipeline"] for one in found]


def _listed(collection: str, stages: list[Stage]) -> Listed | None:
    left = _Stages(stages)
    branches = [_branch(left)]
    unions = _unions(collection, left)
    if unions is None:
        return None
    for union_stages in unions:
        inner = _Stages(union_stages)
        branches.append(_branch(inner))
        if not inner.is_empty:
            return None
    limit = left.take("$limit")
    if not left.is_empty or None in branches:
        return None
    found = [branch for branch in branches if branch is not None]
    if unions and any(branch.computed is not None for branch in found):
        # A row does not say which branch it comes from.
        return None
    return Listed(collection, found, limit if limit is not None or unions else found[0].limit)


def _together(collection: str, stages: Sequence[Stage]) -> Together | None:
    """Returns the plan of several lists, if each ends with its number: `paging.find_pages` sends them so."""
    places = [place for place, stage in enumerate(stages) if "$replaceWith" in stage]
    if not places:
        return None
    first, others = stages[: places[0] + 1], _Stages(stages[places[0] + 1 :])
    pipelines = _unions(collection, others)
    if pipelines is None or not others.is_empty:
        return None
    parts: list[Listed] = []
    for number, part in enumerate([first, *pipelines]):
        if part[-1] != {"$replaceWith": {"part": {"$literal": number}, "document": "$$ROOT"}}:
            return None
        listed = _listed(collection, list(part[:-1]))
        if listed is None:
            return None
        parts.append(listed)
    return Together(parts)


def _counted(collection: str, stages: Sequence[Stage]) -> Plan | None:
    """Returns the plan of counts: `paging.count_listings` sends them."""
    left = _Stages(stages)
    found = [_count(left)]
    unions = _unions(collection, left)
    if unions is None or not left.is_empty:
        return None
    for part in unions:
        inner = _Stages(part)
        found.append(_count(inner))
        if not inner.is_empty:
            return None
    counts = [one for one in found if one is not None]
    return Counts(collection, counts) if len(counts) == len(found) else None


def _count(left: _Stages) -> Count | None:
    matches = left.take_all("$match")
    # The order of the documents does not change their number.
    left.take("$sort")
    limit = left.take("$limit")
    name = left.take("$count")
    if name is None:
        return None
    also = left.take("$set") or {}
    if not all(isinstance(one, Mapping) and list(one) == ["$literal"] for one in also.values()):
        return None
    values = {path: one["$literal"] for path, one in also.items()}
    return Count({"$and": matches} if matches else {}, limit, name, values)


def _widened(collection: str, stages: Sequence[Stage]) -> Iterator[tuple[str, Mapping[str, Any], Paths]]:
    """Yields what any pipeline reads: what its first filter matches, and everything that it reads elsewhere."""
    matches = _Stages(stages).take_all("$match")
    yield collection, {"$and": matches} if matches else {}, paths_of(stages)
    for stage in stages:
        yield from _elsewhere(collection, stage)


def _elsewhere(collection: str, stage: Stage) -> Iterator[tuple[str, Mapping[str, Any], Paths]]:
    for name, argument in stage.items():
        if name == "$unionWith":
            other = argument if isinstance(argument, str) else argument.get("coll", collection)
            yield from _widened(other, () if isinstance(argument, str) else argument.get("pipeline", ()))
        elif name in ("$lookup", "$graphLookup"):
            other = argument.get("from", collection)
            yield other, _ANYTHING, ALL_PATHS
            for inner in argument.get("pipeline", ()):
                yield from _elsewhere(other, inner)
        elif name == "$facet":
            for pipeline in argument.values():
                for inner in pipeline:
                    yield from _elsewhere(collection, inner)
