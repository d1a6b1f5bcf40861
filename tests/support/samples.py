"""Families of tests that try one behaviour on many members, of which a run tries a sample.

The mark `sample(3)` belongs to a parametrized test whose cases try the same on many members, such as all mutations.
Each run of `make test` tries every third case, and another run other ones, as `places` does with the places at which a
call is stopped. Several tests of a module that have the same members take different ones, so that a run tries as many
members as possible.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

import pytest

from portico.testing.stages import places

MARK = "sample"


def left_out(items: Sequence[pytest.Item], seed: int) -> set[pytest.Item]:
    """Returns the tests that a run with this seed leaves out of the families with the mark."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker(MARK) is not None:
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    found: set[pytest.Item] = set()
    for name, number in _numbered(families).items():
        family = sorted(families[name], key=lambda item: item.nodeid)
        kept = chosen(len(family), _part_of(family[0]), seed + number)
        found.update(item for index, item in enumerate(family) if index not in kept)
    return found


def _part_of(item: pytest.Item) -> int:
    mark = item.get_closest_marker(MARK)
    assert mark is not None
    return int(mark.args[0])


def chosen(count: int, of: int, first: int) -> Collection[int]:
    """Returns every n-th of so many cases for n = `of`, and at least one of them."""
    taken = places(min(of, count), first=first)
    return set(itertools.takewhile(lambda place: place < count, taken))


def _numbered(families: Iterable[str]) -> Mapping[str, int]:
    """Numbers the families of each module."""
    modules = itertools.groupby(sorted(families), key=lambda name: name.partition("::")[0])
    return {name: number for _, names in modules for number, name in enumerate(names)}
