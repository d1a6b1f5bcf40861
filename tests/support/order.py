"""The order in which the workers of a session run the tests: each begins with tests that take long.

Otherwise one worker may begin a test of a minute when the others have ended.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest


def long_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Returns the tests so that each worker, which gets an equal part of them, begins with modules that take long.

    Such a module has a test with a timeout of its own. Modules stay together, because their tests share fixtures.
    """
    modules = {_module_of(item) for item in items if item.get_closest_marker("timeout") is not None}
    grouped = [(name, list(group)) for name, group in itertools.groupby(items, _module_of)]
    long = [group for name, group in grouped if name in modules]
    others = iter([item for name, group in grouped if name not in modules for item in group])
    found: list[pytest.Item] = []
    for number, size in enumerate(_sizes(len(items), workers)):
        first = [item for group in long[number::workers] for item in group]
        found += [*first, *itertools.islice(others, max(0, size - len(first)))]
    return [*found, *others]


def _module_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _sizes(count: int, parts: int) -> Iterator[int]:
    """Yields the sizes of the parts, as the plugin xdist divides the tests among its workers."""
    for left in range(parts, 0, -1):
        yield count // left
        count -= count // left
