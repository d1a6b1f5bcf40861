"""Ranges of values, and which of them contain a value.

A place is a tuple that sorts as MongoDB sorts values: the class of the value, then the value. `(class,)` is before all
values of the class. A range has both of its ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Generic, TypeVar

from .comparing import ORDERED, class_of, is_decimal, is_plain

T = TypeVar("T")
Place = tuple[Any, ...]
Span = tuple[Place, Place]
_FIRST, _LAST = (-1,), (99,)
# An odd constant that spreads numbers in a row. Source: Knuth, "The Art of Computer Programming", 6.4.
_SPREAD = 2_654_435_761


def place_of(value: Any) -> Place | None:
    """Returns the place of a value; None if it is not known how it sorts."""
    kind = class_of(value)
    if kind is None or kind not in ORDERED or is_decimal(value) or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, str) and not is_plain(value):
        return None
    return (kind,) if value is None else (kind, value)


def compared_with(operator: str, value: Any) -> Span | None:
    """Returns the range of the values for which a comparison holds: those of the same class."""
    place = None if value is None else place_of(value)
    if place is None:
        return None
    return (place, (place[0] + 1,)) if operator in {"$gt", "$gte"} else ((place[0],), place)


def sorted_before(value: Any, direction: int) -> Span | None:
    """Returns the range of all values that sort before this one, and of itself."""
    place = place_of(value)
    if place is None:
        return None
    return (_FIRST, place) if direction > 0 else (place, _LAST)


def together(spans: Iterable[tuple[str, Span | None]]) -> Mapping[str, Span]:
    """Returns the range in which all of these ranges of a path overlap, by path."""
    found: dict[str, Span] = {}
    for path, span in spans:
        if span is not None:
            low, high = found.get(path, (_FIRST, _LAST))
            found[path] = max(low, span[0]), min(high, span[1])
    return found


def is_closed(span: Span) -> bool:
    """Returns whether a range has a value at both ends, so that it is likely to be short."""
    return len(span[0]) > 1 and len(span[1]) > 1


class _Node(Generic[T]):
    __slots__ = ("high", "highest", "item", "key", "left", "priority", "right")

    def __init__(self, span: Span, number: int, item: T) -> None:
        self.key = span[0], number
        self.high = self.highest = span[1]
        self.item = item
        self.priority = number * _SPREAD & 0xFFFFFFFF
        self.left: _Node[T] | None = None
        self.right: _Node[T] | None = None

    def update(self) -> None:
        self.highest = self.high
        for below in (self.left, self.right):
            if below is not None and below.highest > self.highest:
                self.highest = below.highest


class Spans(Generic[T]):
    """Items by their ranges: a treap by the lower ends, in which each node knows the highest upper end below it.

    Finding the items of a value takes time for these, and for the depth of the tree.
    """

    __slots__ = ("_numbers", "_root", "_size")

    def __init__(self) -> None:
        self._root: _Node[T] | None = None
        self._numbers = count(1)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, span: Span, item: T) -> tuple[Place, int]:
        """Adds an item. Returns the key by which it is removed."""
        node = _Node(span, next(self._numbers), item)
        self._root = _with(self._root, node)
        self._size += 1
        return node.key

    def remove(self, key: tuple[Place, int]) -> None:
        self._root = _without(self._root, key)
        self._size -= 1

    def all(self) -> Iterator[T]:
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            if node is not None:
                yield node.item
                waiting += (node.left, node.right)

    def at(self, place: Place) -> Iterator[T]:
        """Yields the items whose ranges contain the place."""
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            if node is None or node.highest < place:
                continue
            waiting.append(node.left)
            if node.key[0] <= place:
                if place <= node.high:
                    yield node.item
                waiting.append(node.right)


def _with(node: _Node[T] | None, new: _Node[T]) -> _Node[T]:
    if node is None:
        return new
    if new.priority > node.priority:
        new.left, new.right = _split(node, new.key)
        new.update()
        return new
    if new.key < node.key:
        node.left = _with(node.left, new)
    else:
        node.right = _with(node.right, new)
    node.update()
    return node


def _without(node: _Node[T] | None, key: tuple[Place, int]) -> _Node[T] | None:
    if node is None:
        raise KeyError(key)
    if node.key == key:
        return _merge(node.left, node.right)
    if key < node.key:
        node.left = _without(node.left, key)
    else:
        node.right = _without(node.right, key)
    node.update()
    return node


def _split(node: _Node[T] | None, key: tuple[Place, int]) -> tuple[_Node[T] | None, _Node[T] | None]:
    if node is None:
        return None, None
    if node.key < key:
        node.right, behind = _split(node.right, key)
        node.update()
        return node, behind
    before, node.left = _split(node.left, key)
    node.update()
    return before, node


def _merge(before: _Node[T] | None, behind: _Node[T] | None) -> _Node[T] | None:
    if before is None or behind is None:
        return before or behind
    if before.priority > behind.priority:
        before.right = _merge(before.right, behind)
        before.update()
        return before
    behind.left = _merge(before, behind.left)
    behind.update()
    return behind
