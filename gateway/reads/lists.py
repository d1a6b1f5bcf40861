"""Plans of reads that return documents."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import methodcaller
from typing import Any

from .comparing import EXACT, OBJECT_IDS, row_keys
from .interests import Entering, Interest, Matches, Reader, Rows, Window, order_of
from .paths import ALL_PATHS, NO_PATHS, Paths, union
from .pipelines import paths_in
from .plans import Plan, Row, Timed
from .queries import Query

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
    """One branch after another, and of these the first `limit` rows.

    What follows from the command alone is derived once: equal commands have one plan (`deriving`).
    """

    def __init__(self, collection: str, branches: Sequence[Branch], limit: int | None) -> None:
        self.collections = (collection,)
        self._collection = collection
        self._limit = limit
        self._queries = [Query(branch.query) for branch in branches]
        self._shown = [_shown(branch.projection) for branch in branches]
        self._has_keys = all(one.has_key for one in self._shown)
        # It is not known which documents the rows come from, or which ones a search finds.
        self.is_compared = not self._has_keys or any(one.filter.is_text for one in self._queries)
        self._filters = [query.filter for query in self._queries]
        self._places = [wanted.paths | branch.places for wanted, branch in zip(self._filters, branches, strict=True)]
        self._shown_paths = union([one.paths for one in self._shown])
        self._paths = union([self._shown_paths, *self._places])
        # The order of each branch, if a row shows where it is in that.
        self._orders = [
            order_of(branch.order) if branch.order and all(shown.has(path) for path, _ in branch.order) else None
            for branch, shown in zip(branches, self._shown, strict=True)
        ]

    def interests(self, reader: Reader, rows: Sequence[Row] | None) -> Iterator[Interest]:
        if rows is None or not self._has_keys:
            for wanted, used in zip(self._filters, self._places, strict=True):
                yield Matches(reader, self._collection, wanted, used | self._shown_paths)
            return
        keys = row_keys(list(map(_ID_OF, rows)))
        if keys:
            yield Rows(reader, self._collection, keys, self._paths)
        last, window = self._end(rows)
        for number in range(last + 1):
            wanted = self._filters[number]
            # A read by keys that has found them all is one that nothing else can come into.
            if not wanted.is_within(keys):
                part = window if number == last else None
                yield Entering(reader, self._collection, wanted, self._places[number], part, keys)

    def signature(self, rows: Sequence[Row] | None) -> Hashable:
        if rows is None or not self._has_keys or len(self._filters) > 1:
            # Of several branches, it depends on the last row which one the rows end in.
            return None
        keys = row_keys(list(map(_ID_OF, rows)))
        order = self._orders[0]
        if order is None or self._limit is None or len(rows) < self._limit:
            return self, keys
        last = Window(order, rows[-1]).last
        # Python takes some values for equal that MongoDB does not.
        return (self, keys, *last, *map(type, last)) if EXACT.issuperset(map(type, last)) else None

    def compares(self, value: datetime) -> bool:
        return any(query.names(value) for query in self._queries)

    def timed(self, now: datetime) -> Sequence[Timed | None]:
        return [Timed.of(self._collection, query, now) for query in self._queries if query.names(now)]

    def _end(self, rows: Sequence[Row]) -> tuple[int, Window | None]:
        """Returns the number of the last branch that rows can come from, and the part of it that they are."""
        last = len(self._filters) - 1
        if self._limit is None or len(rows) < self._limit or not rows:
            return last, None
        row = rows[-1]
        # What the row does not show may match.
        while last and self._cannot_have(last, row):
            last -= 1
        order = self._orders[last]
        return last, None if order is None else Window(order, row)

    def _cannot_have(self, number: int, row: Row) -> bool:
        shown = self._shown[number]
        return any(
            condition.path and shown.has(condition.path) and condition.test(row) is False
            for condition in self._filters[number].conditions
        )


class ByIds(Plan):
    """The documents with these object ids. Most reads are of this kind, and each one has other ids.

    If it has found all of them, only a change of these can affect it. Otherwise it is like every list.
    """

    def __init__(
        self,
        collection: str,
        ids: Sequence[Any],
        query: Mapping[str, Any],
        limit: int | None,
        projection: Mapping[str, Any] | None,
    ) -> None:
        """`query` is the filter, which names the ids."""
        self.collections = (collection,)
        self._number = len(ids)
        self._query, self._limit, self._projection = query, limit, projection
        self._shown = _shown(projection)
        self.is_compared = not self._shown.has_key

    def interests(self, reader: Reader, rows: Sequence[Row] | None) -> Iterable[Interest]:
        [collection] = self.collections
        if rows is not None and len(rows) == self._number and self._shown.has_key:
            keys = row_keys(list(map(_ID_OF, rows)))
            if len(keys) == self._number:
                return [Rows(reader, collection, keys, self._shown.paths)] if keys else []
        branch = Branch(self._query, (), self._limit, self._projection)
        return Listed(collection, [branch], self._limit).interests(reader, rows)

    def signature(self, rows: Sequence[Row] | None) -> Hashable:
        if rows is None or len(rows) != self._number or not self._shown.has_key:
            return None
        keys = row_keys(list(map(_ID_OF, rows)))
        return (self.collections, self._shown.paths, keys) if len(keys) == self._number else None

    def compares(self, value: datetime) -> bool:
        del value
        return False

    def timed(self, now: datetime) -> Sequence[Timed | None]:
        del now
        return ()


def ids_of(query: Mapping[str, Any]) -> Sequence[Any] | None:
    """Returns the object ids that a filter names; None if it is another filter."""
    if len(query) != 1 or "_id" not in query:
        return None
    wanted = query["_id"]
    if type(wanted) in OBJECT_IDS:
        return [wanted]
    ids = wanted.get("$in") if type(wanted) is dict and len(wanted) == 1 else None
    return ids if type(ids) is list and OBJECT_IDS.issuperset(map(type, ids)) else None
