"""Interests by the keys under which they are found."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

from .interests import Interest

T = TypeVar("T", bound=Interest)


class ByKey(Generic[T]):
    """Interests by keys. Most keys have one, which then takes no set."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[object, T | set[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def keys(self) -> Collection[object]:
        return self._found.keys()

    def add(self, key: object, interest: T) -> None:
        found = self._found.setdefault(key, interest)
        if isinstance(found, set):
            found.add(interest)
        elif found is not interest:
            self._found[key] = {found, interest}

    def remove(self, key: object, interest: T) -> None:
        found = self._found[key]
        if isinstance(found, set):
            found.remove(interest)
        if found is interest or not found:
            del self._found[key]

    def of(self, key: object) -> Collection[T]:
        found = self._found.get(key, ())
        return found if isinstance(found, set | tuple) else (found,)

    def all(self) -> Iterator[T]:
        for found in self._found.values():
            if isinstance(found, set):
                yield from found
            else:
                yield found
