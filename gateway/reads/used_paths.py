"""The paths that interests use."""

from __future__ import annotations

from collections.abc import Iterable

from .paths import Paths


class UsedPaths:
    """The paths of interests, which are counted by their sets of paths: thousands have the same one.

    A run that is repeated drops its interests, and adds the same again. So the paths in a set are counted when somebody
    asks for them, and not each time that a set comes or goes.
    """

    __slots__ = ("_above", "_all", "_counted", "_named", "_new", "_sets")

    def __init__(self) -> None:
        # How many interests have the same set.
        self._sets: dict[Paths, int] = {}
        # The sets that may have come or gone since the paths were counted.
        self._new: set[Paths] = set()
        self._counted: set[Paths] = set()
        # How many sets have a path, and how many one at or below it.
        self._named: dict[str, int] = {}
        self._above: dict[str, int] = {}
        self._all = 0

    def add(self, paths: Paths) -> None:
        number = self._sets.get(paths, 0)
        self._sets[paths] = number + 1
        if not number:
            self._new.add(paths)

    def remove(self, paths: Paths) -> None:
        number = self._sets[paths]
        if number > 1:
            self._sets[paths] = number - 1
        else:
            del self._sets[paths]
            self._new.add(paths)

    def touch(self, changed: Paths) -> bool:
        """Returns whether an interest uses one of these paths."""
        self._count()
        if self._all or changed.is_all:
            return bool(self._sets)
        return any(path in self._above for path in changed.named) or any(path in self._named for path in changed.above)

    @property
    def named(self) -> set[str]:
        self._count()
        return set(self._named)

    @property
    def has_all(self) -> bool:
        """Whether an interest uses all paths."""
        self._count()
        return self._all > 0

    def _count(self) -> None:
        if not self._new:
            return
        for paths in self._new:
            is_used = paths in self._sets
            if is_used == (paths in self._counted):
                continue
            if is_used:
                self._counted.add(paths)
            else:
                self._counted.remove(paths)
            number = 1 if is_used else -1
            self._all += number * paths.is_all
            _add(self._named, paths.named, number)
            _add(self._above, paths.above, number)
        self._new.clear()


def _add(counts: dict[str, int], paths: Iterable[str], number: int) -> None:
    """Adds to the counts of paths. Those that are 0 go."""
    for path in paths:
        found = counts.get(path, 0) + number
        if found:
            counts[path] = found
        else:
            del counts[path]
