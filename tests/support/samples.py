"""Families of tests that try one behaviour on many members, of which a run tries a sample.

The mark `sample(3)` belongs to a parametrized test whose cases try the same on many members, such as all mutations.
Each run of `make test` tries every third case, and another run other ones. Its seed decides which, as it decides at
which places a call is stopped. Several tests of a module that have the same members take different ones, so that a run
tries as many members as possible.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence

import pytest

MARK = "sample"


def left_out(items: Sequence[pytest.Item], seed: int) -> set[pytest.Item]:
    """Returns the tests that a run with this seed leaves out of the families with the mark."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker(MARK) is not None:
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    found: set[pytest.Item] = set()
    for name, first in _firsts(families):
        for index, item in enumerate(sorted(families[name], key=lambda item: item.nodeid)):
            if (seed + first + index) % _part_of(item):
                found.add(item)
    return found


def _firsts(families: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yields a number for each family: those of one module are consecutive, and those of two modules have no relation.

    So the runs are alike, although in some families only one case has the mark.
    """
    for module, names in itertools.groupby(sorted(families), key=lambda name: name.partition("::")[0]):
        yield from ((name, zlib.crc32(module.encode()) + number) for number, name in enumerate(names))


def _part_of(item: pytest.Item) -> int:
    mark = item.get_closest_marker(MARK)
    assert mark is not None
    return int(mark.args[0])
