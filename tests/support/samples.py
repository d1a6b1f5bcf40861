"""Families of tests that try one behaviour on many members, of which a run tries a sample.

The mark `sample(3)` belongs to a parametrized test whose cases try the same on many members, such as all mutations.
Each run of `make test` tries every third case, and another run other ones. Its seed decides which, as it decides at
which places a call is stopped. Several tests of a module that have the same members take different ones, so that a run
tries as many members as possible.

The cases with a `group` are sampled among themselves: a run that tries every second case of a group of two or more
tries at least one case of each group.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence

import pytest

MARK = "sample"
# The name of a test and that of a group of its cases.
Family = tuple[str, str]


def left_out(items: Sequence[pytest.Item], seed: int) -> set[pytest.Item]:
    """Returns the tests that a run with this seed leaves out of the families with the mark."""
    families: dict[Family, list[pytest.Item]] = {}
    for item in items:
        if (mark := item.get_closest_marker(MARK)) is not None:
            families.setdefault((item.nodeid.partition("[")[0], mark.kwargs.get("group", "")), []).append(item)
    found: set[pytest.Item] = set()
    for family, first in _firsts(families):
        for index, item in enumerate(sorted(families[family], key=lambda item: item.nodeid)):
            if (seed + first + index) % _part_of(item):
                found.add(item)
    return found


def _firsts(families: Iterable[Family]) -> Iterator[tuple[Family, int]]:
    """Yields a number for each family: those of one module are consecutive, and those of two modules have no relation.
    Those of the groups of one test are consecutive from the number of the test.

    So the runs are alike, although in some families only one case has the mark.
    """
    for module, of_module in itertools.groupby(sorted(families), key=lambda family: family[0].partition("::")[0]):
        for number, (_, groups) in enumerate(itertools.groupby(of_module, key=lambda family: family[0])):
            yield from ((family, zlib.crc32(module.encode()) + number + place) for place, family in enumerate(groups))


def _part_of(item: pytest.Item) -> int:
    mark = item.get_closest_marker(MARK)
    assert mark is not None
    return int(mark.args[0])
