"""Derives interests from read commands. What is not derived exactly is widened, never narrowed.

| read | interests |
|---|---|
| `find`, and a pipeline that only filters, sorts, limits, projects, and continues with further ranges of its collection | `Rows` and `Entering`, up to the last row of a full page |
| a count | `Rows` and `Entering` if it is small (`counting`), `Matches` otherwise, by the paths of its filter |
| any other pipeline | `Matches` by the filter that it begins with, and everything in the collections that it looks up |
"""  # noqa: E501 - a row of the table

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import methodcaller
from typing import Any

from .comparing import row_keys
from .counting import Count, Counts
from .interests import Entering, Interest, Matches, Reader, Rows, Window
from .paths import ALL_PATHS, NO_PATHS, Paths, union
from .pipelines import Stage, paths_in, paths_of
from .plans import Plan, Row, Timed
from .queries import Query

_ANYTHING: Mapping[str, Any] = {}
_ID_OF = methodcaller("get", "_id")


_OF_ARRAYS = {"$elemMatch", "$slice"}
_ALL_BUT_THE_KEY = {"_id": 0}


def _is_expression(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Mapping) and all(name.startswith("$") for name in value))


class Shown:
    """What a projection shows: the paths that its values depend on, and the fields that it shows as they are."""

    __slots__ = ("_plain", "has_key", "paths")

    def __init__(self, projection: Mapping[str, Any] | None) -> None:
        self.has_key = not projection or projection.get("_id", 1) in (1, True)
        named: list[str] = ["_id"]
        self._plain: list[str] | None = None if not projection else ["_id"] if self.has_key else []
        self.paths = ALL_PATHS
        used = NO_PATHS
        for path, value in (projection or {}).items():
            if path == "_id" and not value:
                continue
            if value in (1, True) and isinstance(value, int):
                assert self._plain is not None
                self._plain.append(path)
            elif isinstance(value, dict) and value.keys() <= {"$meta"} | _OF_ARRAYS:
                used = used | (paths_in(value) if "$meta" in value else NO_PATHS)
            else:
                used = used | (paths_in(value) if value and _is_expression(value) else ALL_PATHS)
                continue
            named.append(path.removesuffix(".$"))
        if used.is_all or projection == _ALL_BUT_THE_KEY:
            self._plain = []
        elif projection:
            self.paths = Paths(named) | used

    def has(self, path: str) -> bool:
        """Returns whether rows have the value at this path, as it is in the document."""
        plain = self._plain
        return plain is None or path in plain or any(path.startswith(f"{shown}.") for shown in plain)


def _shown(projection: Mapping[str, Any] | None) -> Shown:
    """Returns what a projection shows. Thousands of reads have the same one."""
    try:
        return _shown_by(tuple((projection or {}).items()))
    except TypeError:
        # It has operators.
        return Shown(projection)


@lru_cache(maxsize=1_024)
def _shown_by(items: tuple[tuple[str, Any], ...]) -> Shown:
    return Shown(dict(items))


@dataclass(slots=True)
class Branch:
    """A part of a list: the documents that match, in this order, at most `limit`."""

    query: Mapping[str, Any]
    order: Sequence[tuple[str, int]] = ()
    limit: int | None = None
    projection: Mapping[str, Any] | None = None
    # The paths that decide about the order, if values are computed before the sort.
    computed: Paths | None = None

    @property
    def places(self) -> Paths:
        """The paths that decide about the place of a document in the list."""
        return (self.computed or NO_PATHS) | Paths(path for path, _ in self.order)


class Listed(Plan):
    """One branch after another, and of these the first `limit` rows."""

    def __init__(self, collection: str, branches: Sequence[Branch], limit: int | None) -> None:
        self.collections = frozenset({collection})
        self._collection = collection
        self._branches = branches
        self._limit = limit
        self._queries = [Query(branch.query) for branch in branches]
        self._shown = [_shown(branch.projection) for branch in branches]
        # It is not known which documents the rows come from, or which ones a search finds.
        self.is_compared = not all(one.has_key for one in self._shown) or any(
            one.filter.is_text for one in self._queries
        )

    def interests(self, reader: Reader, rows: Sequence[Row] | None) -> Iterator[Interest]:
        shown = union(one.paths for one in self._shown)
        places = [
            query.filter.paths | branch.places for query, branch in zip(self._queries, self._branches, strict=True)
        ]
        if rows is None or not all(one.has_key for one in self._shown):
            for query, used in zip(self._queries, places, strict=True):
                yield Matches(reader, self._collection, query.filter, used | shown)
            return
        keys = row_keys(list(map(_ID_OF, rows)))
        if rows:
            yield Rows(reader, self._collection, keys, union([shown, *places]))
        last, window = self._end(rows)
        for number, (query, used) in enumerate(zip(self._queries[: last + 1], places, strict=False)):
            # A read by keys that has found them all is one that nothing else can come into.
            if not query.filter.is_within(keys):
                part = window if number == last else None
                yield Entering(reader, self._collection, query.filter, used, part, keys)

    def compares(self, value: datetime) -> bool:
        return any(query.names(value) for query in self._queries)

    def timed(self, now: datetime) -> Sequence[Timed | None]:
        return [Timed.of(self._collection, query, now) for query in self._queries if query.names(now)]

    def _end(self, rows: Sequence[Row]) -> tuple[int, Window | None]:
        """Returns the number of the last branch that rows can come from, and the part of it that they are."""
        last = len(self._branches) - 1
        if self._limit is None or len(rows) < self._limit or not rows:
            return last, None
        row = rows[-1]
        # What the row does not show may match.
        while last and self._cannot_have(last, row):
            last -= 1
        branch, shown = self._branches[last], self._shown[last]
        if not branch.order or not all(shown.has(path) for path, _ in branch.order):
            return last, None
        return last, Window(branch.order, row)

    def _cannot_have(self, number: int, row: Row) -> bool:
        shown = self._shown[number]
        return any(
            condition.path and shown.has(condition.path) and condition.test(row) is False
            for condition in self._queries[number].filter.conditions
        )


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
    if options.keys() - {"sort", "limit", "batch_size", "hint"} or not isinstance(projection, Mapping | None):
        return Matching([(collection, _ANYTHING, ALL_PATHS)])
    limit = options.get("limit") or None
    branch = Branch(query or {}, _order(options.get("sort")) or (), limit, projection)
    return Listed(collection, [branch], limit)


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
    try:
        found = _together(collection, stages) or _listed(collection, list(stages)) or _counted(collection, stages)
    except (AttributeError, KeyError, TypeError, ValueError):
        found = None
    return Matching(_widened(collection, stages)) if found is None else found


def _order(sort: Any) -> Sequence[tuple[str, int]] | None:
    """Returns the paths and directions of a sort; None if it sorts by something else."""
    found = list(sort.items() if isinstance(sort, Mapping) else sort or ())
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
