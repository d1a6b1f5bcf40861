"""The worst operations within the default limits examine a bounded number of documents and index keys.

Each runs on a small database and on one that is several times as large. A run takes a ninth of them, another one each
time, and a soak takes all. `python -m bench.worst` measures them on 300,000 objects a domain.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from bench import worst, worst_data
from bench.worst_operation import Operation
from bench.worst_operations import operations
from portico.gateway.settings import Settings
from portico.resolvers.catalog.settings import CatalogSettings
from portico.resolvers.documents import Document
from tests.support.harness import IS_SOAK, GatewayClient, running

SMALL, LARGE = 500, 1_500
# The data of the catalog is random. Each seed makes another catalog.
SEEDS = (1,)
PARTS = 1 if IS_SOAK else 9
# The most documents and index keys that one operation examines, and the most commands that it sends. A row of a page
# costs at least 2 of the 50,000 that `PORTICO_MAX_COST` allows, and reading it examines a key and a document; a page
# examines one row more than it has.
MOST_EXAMINED, MOST_COMMANDS = 60_000, 250
# These stop at a number of products, which a small database does not reach. An operation has at most two counts. Its
# filters share the number: they count up to three conditions up to a half of it, and read another half at most twice.
BOUNDED = {"totals", "facets", *(f"filters {kind}" for kind in ("of two conditions", "that exclude each other"))}
BOUNDED |= {"filters below categories", "products below one category", "typed products of common words"}
MOST_BOUNDED = 4 * CatalogSettings.max_counted
# A count of a list stops at a number of rows, which the small database does not have.
BOUNDED |= {"numbers of stacks"}
# The range of the daily roll-ups and of the log stops at `PORTICO_MAX_PAGE_COUNT_EVENTS` events.
BOUNDED |= {"counts of pages"}
# The small database has too few of these to fill a page, or to give each part ids of its own.
SHORT = {"threads, DOCUMENTS", "descendants", "parents", "different nodes", "stacks by prefix", "hidden posts"}
# Nor enough products to compare with, or to suggest, nor enough rooms for different maps.
SHORT |= {"related products", "pages of related products"}
SHORT |= {"suggestions", "many suggestions", "maps", "narrow maps"}
# This reads the blocks of the viewer once, up to a bound that the databases do not reach.
BLOCKS = {"latest comments, with blocks"}
# This ends when its answer is too large. How many of its reads, at 20,000 documents each, have begun by then depends on
# the machine: 120,000 to 210,000 documents, in databases of both sizes.
CUT_OFF = {"statistics of sessions"}
# Documents and commands of operations that are dearer than the others: of members with blocks, and of an ANALYST, who
# reads 20,000 documents for each list of statistics until the answer is too large.
DEARER = {
    "hidden comments": (MOST_EXAMINED, 360),
    "hidden posts": (MOST_EXAMINED, 400),
    "walls, with blocks": (70_000, 900),
    "statistics of sessions": (500_000, MOST_COMMANDS),
}


@asynccontextmanager
async def filled(
    settings: Settings, size: int, seed: int, part: int
) -> AsyncIterator[tuple[GatewayClient, dict[str, Operation]]]:
    """Yields a gateway on a new database of this size, with a part of the worst operations over its data.

    The database of the test cannot serve: if earlier tests have used it, a gateway takes its indexes for granted, and
    MongoDB keeps the plans that it chose for their data. No jobs run, because the profiler would count what they read.
    """
    database = f"{settings.database}_{size}"
    async with running(replace(settings, database=database, jobs=False)) as gateway:
        try:
            worst_ones = operations(await worst_data.store(gateway.db, size, seed), size)
            yield gateway, {name: worst_ones[name] for name in sorted(worst_ones)[part::PARTS]}
        finally:
            await gateway.db.client.drop_database(database)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seed", SEEDS)
async def test_the_worst_operations_cost_the_same_in_a_database_of_any_size(settings: Settings, seed: int) -> None:
    part = random.randrange(PARTS)
    async with filled(settings, SMALL, seed, part) as (gateway, operations):
        times = {name: worst.most(gateway, operation) for name, operation in operations.items()}
        small = {name: await worst.examine(gateway, one, times[name]) for name, one in operations.items()}
    async with filled(settings, LARGE, seed, part) as (gateway, operations):
        large = {name: await worst.examine(gateway, one, times[name]) for name, one in operations.items()}

    refused = {name: set(cost.codes) - {"ANSWER_TOO_LARGE"} for name, cost in large.items()}
    expected = {name: {one.refused} if one.refused else set() for name, one in operations.items()}
    assert refused == expected
    examined = {name: (small[name].examined, cost.examined) for name, cost in large.items()}
    grown = {name for name, counts in examined.items() if counts[1] > 1.2 * counts[0] + 1_000}
    assert grown <= BOUNDED | SHORT | BLOCKS | CUT_OFF, {name: (small[name], large[name]) for name in grown}
    assert {name: examined[name] for name in BOUNDED & examined.keys() if max(examined[name]) > MOST_BOUNDED} == {}
    most = {name: DEARER.get(name, (MOST_EXAMINED, MOST_COMMANDS)) for name in examined}
    assert {name: counts for name, counts in examined.items() if max(counts) > most[name][0]} == {}
    sent = {name: (small[name].commands, cost.commands) for name, cost in large.items()}
    assert {name: counts for name, counts in sent.items() if max(counts) > most[name][1]} == {}


async def test_an_operation_is_as_large_as_the_limits_allow(gateway: GatewayClient) -> None:
    operation = Operation("a%n: products(first: 100) { nodes { title } }")

    times = worst.most(gateway, operation)

    assert (await gateway.ask(operation.text(times), token=None)).codes == []
    assert (await gateway.ask(operation.text(times + 1), token=None)).codes == ["OPERATION_TOO_COMPLEX"]


async def _start_slow_read(gateway: GatewayClient) -> asyncio.Task[object]:
    """Starts a read of one document that takes half a second, and returns it as soon as MongoDB runs it."""
    await gateway.db["slow"].insert_one({})
    read = asyncio.create_task(gateway.db["slow"].find({"$where": "sleep(500) || true"}).to_list())
    running: list[Document] = [{"$currentOp": {}}, {"$match": {"active": True, "ns": f"{gateway.db.name}.slow"}}]
    while not await (await gateway.db.client.admin.aggregate(running)).to_list():
        assert not read.done()
    return read


async def test_an_operation_does_not_count_what_an_earlier_one_still_reads(gateway: GatewayClient) -> None:
    read = await _start_slow_read(gateway)

    cost = await worst.examine(gateway, Operation("a%n: products(first: 1) { nodes { sku } }"), 1)

    assert (read.done(), cost.commands, cost.documents) == (True, 1, 0)


async def test_what_an_operation_leaves_behind_counts_as_its_own(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave_behind(*_: object) -> None:
        reads.append(await _start_slow_read(gateway))

    reads: list[asyncio.Task[object]] = []
    monkeypatch.setattr(worst, "run", leave_behind)

    cost = await worst.examine(gateway, Operation("a%n: products(first: 1) { nodes { sku } }"), 1)

    assert (cost.commands, cost.documents) == (1, 1)
    await asyncio.gather(*reads)
