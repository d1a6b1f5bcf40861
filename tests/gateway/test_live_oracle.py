"""Live answers are those of fresh reads, whatever is written: documented queries while documents change at random."""

from __future__ import annotations

import random
import sys

import pytest

from portico.gateway.reads.index import Read
from portico.gateway.reads.plans import Plan
from portico.gateway.reads.read_sets import ReadSet
from tests.gateway.support.live_oracle import Writer, followed, queries_of
from tests.support.fixtures import settings_with
from tests.support.harness import IS_SOAK, GatewayClient

WRITES = 3_000 if IS_SOAK else 15
# Live queries that are compared after each write; all are compared from time to time.
SAMPLE, ALL_EVERY = 8, 15
# A run follows one of so many parts of the queries alone, and another run another one.
PARTS = 1 if IS_SOAK else 3
# Counts are current for everybody.
settings = settings_with(count_seconds=0.000_001)


@pytest.mark.timeout(7_200 if IS_SOAK else 240)
@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(5))
async def test_live_answers_are_those_of_fresh_reads_after_random_writes(
    documented_shop: GatewayClient, seed: int
) -> None:
    rng = random.Random(seed)
    queries = await queries_of(documented_shop)
    assert len(queries) > 80
    counts, index = documented_shop.state.live_queries.counts, documented_shop.state.live_queries.feed.index
    async with followed(queries):
        writer = Writer(documented_shop.db, {name: index.rows_of(name) for name in index.collections}, rng)
        before, written = counts.runs, []
        for number in range(1, WRITES + 1):
            written.append(await writer.write())
            compared = queries if number % ALL_EVERY == 0 else rng.sample(queries, SAMPLE)
            for query in compared:
                try:
                    await query.converges()
                except AssertionError:
                    sys.stderr.write("\n".join(written[-ALL_EVERY:]) + "\n")
                    raise
        runs = counts.runs - before
    sys.stderr.write(f"\n{len(queries)} queries, {WRITES} writes: {runs} runs, {counts.vain} of all in vain\n")


async def test_every_read_of_a_live_query_is_recorded(
    documented_shop: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[str] = []
    begin = ReadSet.begin

    def noted(self: ReadSet, plan: Plan) -> Read:
        recorded.extend(sorted(plan.collections))
        return begin(self, plan)

    monkeypatch.setattr(ReadSet, "begin", noted)
    for query in (await queries_of(documented_shop))[random.randrange(PARTS) :: PARTS]:
        recorded.clear()
        documented_shop.commands.clear()
        async with followed([query]):
            pass
        reads = {
            command[name] for command in documented_shop.commands.sent for name in list(command)[:1] if name in _READS
        }
        # The change stream reads the database, and not a collection.
        assert {name for name in reads if isinstance(name, str)} <= set(recorded), query.asked.where


_READS = {"find", "aggregate", "count", "distinct"}
