"""Interests: what of a read can make an answer change.

A read of documents has two kinds of them. `Rows` are the documents that it has returned: a change of one of them
affects it if a path that the read uses has changed. `Entering` is the condition under which another document would
have been returned. A read whose documents are not known, such as a count, has an interest of the kind `Matches`.

An interest may take a change for one that affects it although it does not. The contrary must not happen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from .comparing import class_of, compare, is_own
from .matching import Filter, Found
from .paths import ALL_PATHS, Paths, names_of
from .spans import Span, sorted_before, together

INSERT, UPDATE, REPLACE, DELETE, ALL = "insert", "update", "replace", "delete", "all"


@dataclass(slots=True, eq=False)
class Change:
    """A change of one document, or of `ALL`: the collection was dropped, or changes of it are lost.

    `key` is a form of the `_id` that is hashable. `document` is the document after the change; None if it is deleted,
    or if nobody needs it. Of an update, `paths` are those that have changed. `number` counts changes as they arrive.
    """

    collection: str
    kind: str
    key: Any = None
    document: Mapping[str, Any] | None = None
    paths: Paths = ALL_PATHS
    number: float = inf


class Reader(Protocol):
    """What has read something: a run."""

    def affected(self, change: Change) -> None:
        """Is called after a change that affects it."""
        ...


# Paths as their names, each with its direction.
Order = Sequence[tuple[Sequence[str], int]]


def order_of(sort: Sequence[tuple[str, int]]) -> Order:
    return [(names_of(path), direction) for path, direction in sort]


class Window:
    """The part of a sorted list before and at its last row."""

    __slots__ = ("_order", "last")

    def __init__(self, order: Order, last: Mapping[str, Any]) -> None:
        self._order = order
        self.last = [last.get(names[0]) if len(names) == 1 else _sorted_by(last, names) for names, _ in order]

    @property
    def span(self) -> tuple[str, Span | None]:
        """The path that decides first, and the range in which a value of it is in this part."""
        (names, direction), last = self._order[0], self.last[0]
        return ".".join(names), None if last is _UNSORTABLE else sorted_before(last, direction)

    def may_have(self, document: Mapping[str, Any]) -> bool:
        """Returns whether the document can be in this part."""
        for (names, direction), last in zip(self._order, self.last, strict=True):
            order = _compare(_sorted_by(document, names), last)
            if order is None:
                return True
            if order:
                return order * direction < 0
        return True


_UNSORTABLE = object()


def _sorted_by(document: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Returns the value that a document is sorted by, or something that cannot be compared."""
    if len(names) == 1:
        return document.get(names[0])
    found = Found(document, names)
    if not found.is_certain or len(found.values) > 1:
        return _UNSORTABLE
    return found.values[0] if found.values else None


def _compare(one: Any, other: Any) -> int | None:
    if one is _UNSORTABLE or other is _UNSORTABLE or class_of(one) is None or class_of(other) is None:
        return None
    return compare(one, other)


class Interest:
    """An interest of a reader in the documents of a collection.

    `since` is the number of the last change that had arrived when the read began. The read has seen the changes up to
    this one.
    """

    __slots__ = ("collection", "reader", "since")
    reader: Reader
    collection: str
    since: float

    def is_affected(self, change: Change) -> bool:
        """Returns whether the change can affect what was read."""
        raise NotImplementedError


class Rows(Interest):
    """Documents that were read, by their keys. `paths` are those that the read uses."""

    __slots__ = ("keys", "paths")

    def __init__(self, reader: Reader, collection: str, keys: frozenset[Any], paths: Paths) -> None:
        self.reader = reader
        self.collection = collection
        self.since = 0
        self.keys = keys
        self.paths = paths

    def is_affected(self, change: Change) -> bool:
        if change.kind == ALL:
            return True
        if change.key not in self.keys:
            return False
        if change.kind == INSERT:
            # The read has found the document, so it has seen this. If it was deleted since, that has affected it.
            return not is_own(change.key)
        return change.kind == DELETE or change.paths.touch(self.paths)


class Entering(Interest):
    """The documents that were not read, and would be if they matched. `paths` are those of the filter and the sort."""

    __slots__ = ("filter", "keys", "paths", "window")

    def __init__(
        self,
        reader: Reader,
        collection: str,
        wanted: Filter,
        paths: Paths,
        window: Window | None = None,
        keys: frozenset[Any] = frozenset(),
    ) -> None:
        """`keys` are those of the documents that were read, if all that decides about these is known as `Rows`."""
        self.reader = reader
        self.collection = collection
        self.since = 0
        self.keys = keys
        self.filter = wanted
        self.paths = paths
        self.window = window

    @property
    def spans(self) -> Mapping[str, Span]:
        """The ranges in which values of a document must be, by path, if it has one value at the path."""
        of_window = () if self.window is None else (self.window.span,)
        return together([*self.filter.spans, *of_window])

    def is_affected(self, change: Change) -> bool:
        if change.kind == ALL:
            return True
        if change.kind == DELETE or not change.paths.touch(self.paths):
            # Its place has not changed: it is one of the rows, or was and is none of them.
            return False
        if change.key in self.keys and is_own(change.key):
            return False
        document = change.document
        if document is None:
            return True
        return self.filter.may_match(document) and (self.window is None or self.window.may_have(document))


class Size(Interest):
    """Whether a collection has more documents than some number. `inserted` and `deleted` are how many insertions, and
    how many deletions, can change that; None if none can.

    The index counts them. An insertion that the read has seen already counts, too, so the interest may be affected too
    early.
    """

    __slots__ = ("deleted", "inserted")

    def __init__(self, reader: Reader, collection: str, inserted: int | None, deleted: int | None) -> None:
        self.reader = reader
        self.collection = collection
        self.since = 0
        self.inserted = inserted
        self.deleted = deleted

    def is_affected(self, change: Change) -> bool:
        if change.kind == INSERT:
            return self.inserted is not None
        return change.kind == ALL or (change.kind == DELETE and self.deleted is not None)


class Matches(Interest):
    """All documents that match, of which the keys are not known. `paths` are those of the filter and what is shown."""

    __slots__ = ("filter", "paths")

    def __init__(self, reader: Reader, collection: str, wanted: Filter, shown: Paths) -> None:
        self.reader = reader
        self.collection = collection
        self.since = 0
        self.filter = wanted
        self.paths = wanted.paths | shown

    @property
    def spans(self) -> Mapping[str, Span]:
        """The ranges in which values of a document must be, by path, if it has one value at the path."""
        return together(self.filter.spans)

    def is_affected(self, change: Change) -> bool:
        if change.kind in (DELETE, REPLACE, ALL):
            # Nobody knows whether it matched before.
            return True
        if change.kind == INSERT:
            return change.document is None or self.filter.may_match(change.document)
        if not change.paths.touch(self.paths):
            return False
        # Whether it matched before depends on what has not changed.
        return change.document is None or self.filter.may_match(change.document, change.paths)
