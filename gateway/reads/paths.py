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


@lru_cache(maxsize=4_096)
def names_of(path: str) -> tuple[str, ...]:
    """Returns the names in a path."""
    return tuple(path.split("."))


def _and_above(path: str) -> Iterable[str]:
    yield path
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


class Paths:
    """Some paths of documents. Each stands for the value at it and everything below.

    Positions in arrays are left out: `lines.3.units` is `lines.units`. A read and a change of the same value have then
    the same path, whichever of them names the position.

    Thousands of reads have the same paths, so these are one object.
    """

    __slots__ = ("above", "is_all", "named")
    named: frozenset[str]
    # The paths themselves, and those that contain them.
    above: frozenset[str]
    is_all: bool

    def __new__(cls, paths: Iterable[str] = (), *, is_all: bool = False) -> Paths:  # noqa: PYI034 - no class is below it
        return _shared(frozenset(paths), is_all)

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


@lru_cache(maxsize=4_096)
def _shared(paths: frozenset[str], is_all: bool) -> Paths:
    found = object.__new__(Paths)
    found.named = frozenset(map(without_positions, paths))
    found.above = frozenset(part for path in found.named for part in _and_above(path))
    found.is_all = is_all
    return found


NO_PATHS = Paths()
ALL_PATHS = Paths(is_all=True)
# Stands for all paths of the text index of a collection. No field has this name.
TEXT_NAME = "$text"
TEXT = Paths([TEXT_NAME])


def union(paths: Iterable[Paths]) -> Paths:
    found = NO_PATHS
    for one in paths:
        found = found | one
    return found
