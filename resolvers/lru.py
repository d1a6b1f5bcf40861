"""What a process keeps in memory for later calls, within a bound."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """The values that were used last. If there are too many, or if they are too large, the others are dropped.

    The latest value stays, however large it is.

    Args:     most: the number of values.  most_size: the sum of their sizes.
              size_of: returns the size of a key with its value.
              on_drop: is called with a key and its value after they were dropped for others.
    """

    __slots__ = ("_most", "_most_size", "_on_drop", "_size", "_size_of", "_values")

    def __init__(
        self,
        most: float = math.inf,
        *,
        most_size: float = math.inf,
        size_of: Callable[[K, V], int] | None = None,
        on_drop: Callable[[K, V], None] | None = None,
    ) -> None:
        self._most = most
        self._most_size = most_size
        self._size_of = size_of
        self._on_drop = on_drop
        self._size = 0
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[K]:
        """Iterates over the keys. The key that was used last comes last."""
        return iter(self._values)

    def __contains__(self, key: object) -> bool:
        """Returns whether there is a value, which does not count as a use."""
        return key in self._values

    def get(self, key: K) -> V | None:
        """Returns the value of a key; None if it is not kept."""
        try:
            self._values.move_to_end(key)
        except KeyError:
            return None
        return self._values[key]

    def put(self, key: K, value: V) -> None:
        """Keeps a value, instead of an earlier one of the key."""
        values, size_of = self._values, self._size_of
        if size_of is not None:
            self._size += size_of(key, value) - (size_of(key, values[key]) if key in values else 0)
        values[key] = value
        values.move_to_end(key)
        while (len(values) > self._most or self._size > self._most_size) and len(values) > 1:
            dropped = values.popitem(last=False)
            if size_of is not None:
                self._size -= size_of(*dropped)
            if self._on_drop is not None:
                self._on_drop(*dropped)

    def pop(self, key: K) -> V | None:
        """Removes a key, and returns its value; None if it is not kept."""
        value = self._values.pop(key, None)
        if value is not None and self._size_of is not None:
            self._size -= self._size_of(key, value)
        return value

    @property
    def size(self) -> int:
        """The sum of the sizes."""
        return self._size

    def clear(self) -> None:
        self._values.clear()
        self._size = 0
