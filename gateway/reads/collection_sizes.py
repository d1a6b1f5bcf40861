"""Interests in how large a collection is, by the insertion or deletion that affects them."""

from __future__ import annotations

from collections.abc import Collection

from .by_key import ByKey
from .interests import DELETE, INSERT, Change, Size


class CollectionSizes:
    """The interests in the size of a collection. To look at a change costs the same, however many there are."""

    def __init__(self) -> None:
        self._passed = {INSERT: 0, DELETE: 0}
        # By the kind of a change, and how many of this kind have passed then.
        self._by_change: ByKey[Size] = ByKey()
        self._changes: dict[Size, Collection[object]] = {}

    def add(self, interest: Size) -> None:
        numbers = (INSERT, interest.inserted), (DELETE, interest.deleted)
        self._changes[interest] = [(kind, self._passed[kind] + one) for kind, one in numbers if one is not None]
        self._by_change.add(self._changes[interest], interest)

    def remove(self, interest: Size) -> None:
        self._by_change.remove(self._changes.pop(interest), interest)

    def all(self) -> Collection[Size]:
        return self._changes.keys()

    def passed(self, change: Change) -> Collection[Size]:
        """Counts a change. Returns the interests that it affects."""
        if change.kind not in self._passed:
            return ()
        self._passed[change.kind] += 1
        return self._by_change.of((change.kind, self._passed[change.kind]))
