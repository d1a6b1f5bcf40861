"""Paths of documents: which of them a read uses, and which of them a change touches."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


def without_positions(path: str) -> str:
    """Returns the path without the numbers in it. The first name is that of a field, also if it is a number."""
    if not any(character.isdigit() for character in path):
        return path
    first, *others = path.split(".")
    return ".".join([first, *(name for name in others if not name.isdigit())])


def _and_above(path: str) -> Iterable[str]:
    yield path
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


@lru_cache(maxsize=4_096)
def _sets_of(paths: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the paths without positions, and with those above them. Thousands of reads have the same ones."""
    named = frozenset(map(without_positions, paths))
    return named, frozenset(part for path in named for part in _and_above(path))


class Paths:
    """Some paths of documents. Each stands for the value at it and everything below.

    Positions in arrays are left out: `lines.3.units` is `lines.units`. A read and a change of the same value have then
    the same path, whichever of them names the position.
    """

    __slots__ = ("above", "is_all", "named")

    def __init__(self, paths: Iterable[str] = (), *, is_all: bool = False) -> None:
        # `above` are the paths themselves, and those that contain them.
        self.named, self.above = _sets_of(frozenset(paths))
        self.is_all = is_all

    def touch(self, other: Paths) -> bool:
        """Returns whether a value at or below one of these paths can be a value at or below one of the others."""
        if self.is_all or other.is_all:
            return bool(self) and bool(other)
        return not (self.named.isdisjoint(other.above) and self.above.isdisjoint(other.named))

    def __or__(self, other: Paths) -> Paths:
        if self.is_all or other.is_all:
            return ALL_PATHS
        return self if other.named <= self.named else Paths(self.named | other.named)

    def __bool__(self) -> bool:
        return self.is_all or bool(self.named)


NO_PATHS = Paths()
ALL_PATHS = Paths(is_all=True)


def union(paths: Iterable[Paths]) -> Paths:
    found = NO_PATHS
    for one in paths:
        found = found | one
    return found
