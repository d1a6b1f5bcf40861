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

    def add(self, keys: Collection[object], interest: T) -> None:
        all_found = self._found
        if all_found.keys().isdisjoint(keys):
            all_found.update(dict.fromkeys(keys, interest))
            return
        for key in keys:
            found = all_found.setdefault(key, interest)
            if isinstance(found, set):
                found.add(interest)
            elif found is not interest:
                all_found[key] = {found, interest}

    def remove(self, keys: Collection[object], interest: T) -> None:
        all_found = self._found
        popped = list(map(all_found.pop, keys))
        if popped.count(interest) == len(popped):
            return
        for key, found in zip(keys, popped, strict=True):
            if isinstance(found, set):
                found.remove(interest)
                if found:
                    all_found[key] = found

    def of(self, key: object) -> Collection[T]:
        found = self._found.get(key, ())
        return found if isinstance(found, set | tuple) else (found,)

    def all(self) -> Iterator[T]:
        for found in self._found.values():
            if isinstance(found, set):
                yield from found
            else:
                yield found
