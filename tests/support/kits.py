"""The kits of all domains, over which the central tests iterate. They are imported when a test first asks for them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from portico.testing.kits import Kit, find_kits, merged, mutation_text
from tests.support.domains import DOMAINS, SCHEMA


@functools.cache
def kits() -> dict[str, Kit]:
    """The kit of each domain that has one, by the name of the domain."""
    return find_kits([domain.name for domain in DOMAINS.all], "tests")


class _Texts(Mapping[str, str]):
    """The text of each mutation that a kit has. It is made when it is needed."""

    def __getitem__(self, name: str) -> str:
        return mutation_text(SCHEMA._schema, name, self._selections[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._selections)

    def __len__(self) -> int:
        return len(self._selections)

    @functools.cached_property
    def _selections(self) -> dict[str, str]:
        return merged([kit.mutations for kit in kits().values()])


MUTATIONS = _Texts()
