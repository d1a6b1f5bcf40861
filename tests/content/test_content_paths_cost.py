"""Reading many paths below one section costs the same however many nodes the section has."""

from __future__ import annotations

import random

from bench import worst, worst_data
from bench.worst_operation import Operation
from tests.support.harness import GatewayClient

PATHS = [f"/site/page-{number}" for number in range(100)]


async def test_paths_of_one_section_are_read_by_their_slugs(gateway: GatewayClient) -> None:
    await worst_data.PARTS["content"](gateway.db, 1_000, random.Random(1))

    cost = await worst.examine(gateway, Operation("a%n: content(path: %i) { title }", ids=PATHS), len(PATHS))

    assert (cost.codes, cost.documents) == ([], len(PATHS) + 1)
