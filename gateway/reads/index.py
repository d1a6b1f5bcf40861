"""Finds the interests that a change affects.

The cost of a change grows with the interests in what has changed, and not with all of them: rows are found by their
keys, and conditions by the value of one of their equalities, or by one of their ranges: that of a comparison, or that
of a sorted page up to its last row. Conditions without either are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from .by_key import ByKey
from .collection_sizes import CollectionSizes
from .comparing import index_key
from .interests import ALL, DELETE, INSERT, UPDATE, Change, Entering, Interest, Matches, Reader, Rows, Size
from .matching import Condition, place_at, values_at
from .paths import TEXT, TEXT_NAME, Paths
from .plans import Plan
from .spans import Spans, is_closed
from .texts import TextIndex
from .used_paths import UsedPaths

Conditional = Entering | Matches
# With more interests in one value, others with a range are found by that.
_FULL = 8


class Index:
    """The interests of all readers of a process, and the reads that are in flight."""

    def __init__(self, text: Mapping[str, TextIndex] | None = None) -> None:
        """`text` has the text indexes, by collection. Of another one, any path can be in its text index."""
        self._text = text or {}
        # How many changes have arrived. They are looked at a little later.
        self.arrived = 0
        # A collection that nobody reads any more stays: there are few, and most are read again.
        self._collections: dict[str, _Collection] = {}

    @property
    def size(self) -> int:
        """How many interests there are."""
        return sum(one.size for one in self._collections.values())

    @property
    def collections(self) -> Collection[str]:
        """The names of the collections that somebody reads."""
        return [name for name, found in self._collections.items() if not found.is_empty]

    def rows_of(self, collection: str) -> Collection[object]:
        """The keys of the documents in a collection that somebody has read."""
        found = self._collections.get(collection)
        return () if found is None else found.rows.keys()

    def add(self, interest: Interest) -> None:
        name = interest.collection
        (self._collections.get(name) or self._of(name)).add(interest)

    def remove(self, interest: Interest) -> None:
        self._collections[interest.collection].remove(interest)

    def begin(self, read: Read) -> None:
        """Keeps the changes that arrive from now on for the read, until `end`."""
        read.since = self.arrived
        for name in read.plan.collections:
            (self._collections.get(name) or self._of(name)).in_flight.add(read)

    def end(self, read: Read) -> None:
        for name in read.plan.collections:
            self._collections[name].in_flight.discard(read)

    def needs_document(self, change: Change) -> bool:
        """Returns whether somebody needs the document of an update to say whether they are affected."""
        found = self._collections.get(change.collection)
        return found is not None and found.needs_document(self._with_text(change))

    def used(self, collection: str) -> Sequence[str]:
        """Returns the paths that decide whether a document is read; none if all may."""
        found = self._collections.get(collection)
        return () if found is None else found.used(self._text.get(collection))

    def dispatch(self, change: Change) -> int:
        """Tells the readers that the change affects. Returns how many."""
        found = self._collections.get(change.collection)
        if found is None:
            return 0
        change.paths = self._with_text(change)
        for read in found.in_flight:
            if change.number > read.since:
                read.changes.append(change)
        readers = found.affected(change)
        for reader in readers:
            reader.affected(change)
        return len(readers)

    def dispatch_all(self) -> None:
        """Tells all readers that anything may have changed."""
        for name in tuple(self._collections):
            self.dispatch(Change(name, ALL))

    def _with_text(self, change: Change) -> Paths:
        """Returns the paths of a change, with that which stands for the text index if one of these is in it."""
        if change.kind != UPDATE:
            return change.paths
        indexed = self._text.get(change.collection)
        is_text = indexed is None or change.paths.touch(indexed.paths)
        return change.paths | TEXT if is_text else change.paths

    def _of(self, name: str) -> _Collection:
        found = self._collections.get(name)
        if found is None:
            text = self._text.get(name)
            found = self._collections[name] = _Collection(is_literal=text is not None and text.is_literal)
        return found


class Read:
    """A command in flight, and the changes since it was sent."""

    __slots__ = ("changes", "plan", "since")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.since = 0
        self.changes: list[Change] = []


class _Collection:
    """The interests in one collection. `is_literal` is that of its text index."""

    def __init__(self, *, is_literal: bool) -> None:
        self._is_literal = is_literal
        self.in_flight: set[Read] = set()
        self.rows: ByKey[Rows] = ByKey()
        self._entering = _ByValue(needs_former=False)
        self._matches = _ByValue(needs_former=True)
        self._sizes = CollectionSizes()
        self.size = 0

    @property
    def is_empty(self) -> bool:
        return not (self.in_flight or self.size)

    def add(self, interest: Interest) -> None:
        self.size += 1
        if isinstance(interest, Rows):
            self.rows.add(interest.keys, interest)
        elif isinstance(interest, Size):
            self._sizes.add(interest)
        elif isinstance(interest, Conditional):
            if not self._is_literal:
                interest.filter = interest.filter.widened()
            self._part_of(interest).add(interest)

    def remove(self, interest: Interest) -> None:
        self.size -= 1
        if isinstance(interest, Rows):
            self.rows.remove(interest.keys, interest)
        elif isinstance(interest, Size):
            self._sizes.remove(interest)
        elif isinstance(interest, Conditional):
            self._part_of(interest).remove(interest)

    def _part_of(self, interest: Conditional) -> _ByValue:
        return self._entering if isinstance(interest, Entering) else self._matches

    def needs_document(self, changed: Paths) -> bool:
        return bool(self.in_flight) or any(one.used.touch(changed) for one in (self._entering, self._matches))

    def used(self, text: TextIndex | None) -> Sequence[str]:
        parts = self._entering.used, self._matches.used
        if self.in_flight or any(part.has_all for part in parts):
            return ()
        named = set().union(*(part.named for part in parts))
        if TEXT_NAME in named:
            if text is None:
                return ()
            named = (named - {TEXT_NAME}) | text.paths.named
        return [path for path in named if not any(path.startswith(f"{other}.") for other in named)] or ["_id"]

    def affected(self, change: Change) -> set[Reader]:
        candidates: Iterable[Interest]
        if change.kind == ALL:
            candidates = chain(self.rows.all(), self._entering.all(), self._matches.all(), self._sizes.all())
        else:
            candidates = chain(
                self.rows.of(change.key),
                self._entering.candidates(change),
                self._matches.candidates(change),
                self._sizes.passed(change),
            )
        found: set[Reader] = set()
        for interest in candidates:
            if interest.reader in found or change.number <= interest.since:
                continue
            if interest.is_affected(change):
                found.add(interest.reader)
        return found


class _ByValue:
    """Interests by the value of one of the equalities in their filters, or by one of their ranges.

    With `needs_former`, it matters to them also whether a document matched before the change.
    """

    def __init__(self, *, needs_former: bool) -> None:
        self._needs_former = needs_former
        self._values: dict[str, _Values] = {}
        self._ranges: dict[str, _Ranges] = {}
        self._rest: set[Conditional] = set()
        self._places: dict[Conditional, _Part | None] = {}
        self.used = UsedPaths()

    def add(self, interest: Conditional) -> None:
        part = self._places[interest] = self._part(interest)
        if part is None:
            self._rest.add(interest)
        else:
            part.add(interest)
        self.used.add(interest.paths)

    def remove(self, interest: Conditional) -> None:
        part = self._places.pop(interest)
        if part is None:
            self._rest.remove(interest)
        else:
            part.remove(interest)
            if part.is_empty:
                parts: dict[str, Any] = self._values if isinstance(part, _Values) else self._ranges
                del parts[part.path]
        self.used.remove(interest.paths)

    def all(self) -> Iterable[Conditional]:
        return self._places

    def candidates(self, change: Change) -> Iterator[Conditional]:
        """Yields the interests that the change can affect, among others. None is left out."""
        if not self._places or (change.kind == DELETE and not self._needs_former):
            return
        if change.kind == UPDATE and not self.used.touch(change.paths):
            return
        yield from self._rest
        has_former = self._needs_former and change.kind != INSERT
        parts: Iterable[_Part] = chain(self._values.values(), self._ranges.values())
        for part in parts:
            if change.document is None or (has_former and change.paths.touch(part.paths)):
                # Its value at the path is not known, or it had another one.
                yield from part.all()
            else:
                yield from part.of(change.document)

    def _part(self, interest: Conditional) -> _Part | None:
        """Returns where the interest is among the fewest others that a change has to look at."""
        path, fullest = self._equality(interest)
        if path is None or fullest > _FULL:
            spans = interest.spans
            by_length = sorted(spans, key=lambda one: not is_closed(spans[one]))
            if by_length:
                range_path = by_length[0]
                return self._ranges.get(range_path) or self._ranges.setdefault(range_path, _Ranges(range_path))
        if path is None:
            return None
        return self._values.get(path) or self._values.setdefault(path, _Values(path))

    def _equality(self, interest: Conditional) -> tuple[str | None, int]:
        """Returns the path of the most selective equality, and how many interests have its value."""
        best: tuple[bool, int, str] | None = None
        for condition in interest.filter.conditions:
            if condition.values is not None:
                path = condition.path
                values = self._values.get(path)
                rank = (path != "_id", 0 if values is None else values.fullest(condition), path)
                best = rank if best is None or rank < best else best
        return (None, 0) if best is None else (best[2], best[1])


class _Values:
    """The interests in documents that have certain values at a path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.paths = Paths([path])
        self._names = path.split(".")
        self._by_key: ByKey[Conditional] = ByKey()

    @property
    def is_empty(self) -> bool:
        return not self._by_key

    def fullest(self, condition: Condition) -> int:
        """Returns how many interests there are in one of the values."""
        return max((len(self._by_key.of(key)) for key in condition.keys), default=0)

    def add(self, interest: Conditional) -> None:
        self._by_key.add(self._keys_of(interest), interest)

    def remove(self, interest: Conditional) -> None:
        self._by_key.remove(self._keys_of(interest), interest)

    def all(self) -> Iterator[Conditional]:
        return self._by_key.all()

    def of(self, document: Mapping[str, Any]) -> Iterator[Conditional]:
        """Yields the interests in a value that the document has."""
        values = values_at(document, self._names)
        if values is None:
            yield from self.all()
            return
        for value in values:
            key = index_key(value)
            if key is not None:
                yield from self._by_key.of(key)
            elif value is not None:
                # It can be equal to a value of which not all bytes are known.
                yield from self.all()

    def _keys_of(self, interest: Conditional) -> Collection[object]:
        """Returns the keys of the first equality of the path. A document must have one of its values."""
        for condition in interest.filter.conditions:
            if condition.path == self.path and condition.values is not None:
                return condition.keys
        raise KeyError(self.path)


class _Ranges:
    """The interests in documents whose value at a path is in a range."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.paths = Paths([path])
        self._names = path.split(".")
        self._spans: Spans[Conditional] = Spans()
        self._keys: dict[Conditional, Any] = {}

    @property
    def is_empty(self) -> bool:
        return not self._keys

    def add(self, interest: Conditional) -> None:
        self._keys[interest] = self._spans.add(interest.spans[self.path], interest)

    def remove(self, interest: Conditional) -> None:
        self._spans.remove(self._keys.pop(interest))

    def all(self) -> Iterator[Conditional]:
        return iter(self._keys)

    def of(self, document: Mapping[str, Any]) -> Iterator[Conditional]:
        """Yields the interests in a range in which the value of the document is."""
        place = place_at(document, self._names)
        return self.all() if place is None else self._spans.at(place)


_Part = _Values | _Ranges
