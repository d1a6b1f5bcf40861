"""Cached answers are those of runs at one time of the database, while writes go on.

The other oracles compare with reads at about the same time, so they must wait for the writes. Here, the reads of the
run that an answer is compared with are snapshot reads of a time that is noted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from bson import Timestamp

from bench.documented import as_documented
from portico.gateway.mongo.direct import DirectDatabase
from portico.gateway.settings import Settings
from portico.resolvers.documents import CODEC, Database, Document
from portico.resolvers.tasks import end
from tests.gateway.support.direct import plain, writer_of
from tests.gateway.support.live_oracle import Following, Writer, queries_of
from tests.support.demo import Demo
from tests.support.harness import IS_SOAK, GatewayClient, running
from tests.support.kept_answers import with_cache
from tests.support.operations import comparable
from tests.support.sockets import until

HITS = 20_000 if IS_SOAK else 15
QUERIES = 100 if IS_SOAK else 25


class Snapshots:
    """Reads of a database at one time."""

    def __init__(self, database: Database) -> None:
        self.at = Timestamp(0, 0)
        self._database = database

    async def read(self, command: Document) -> list[Document]:
        concern = {"level": "snapshot", "atClusterTime": self.at}
        answer = await self._database.command({**command, "readConcern": concern}, codec_options=CODEC)
        assert not answer["cursor"]["id"]
        found: list[Document] = answer["cursor"]["firstBatch"]
        return found


class Writing:
    """Writes at random. `times` has the time of the database after each write, and before the first."""

    def __init__(self, writer: Writer, db: Database) -> None:
        self.times: list[Timestamp] = []
        self._writer = writer
        self._db = db

    async def note(self) -> None:
        self.times.append((await self._db.command("ping"))["operationTime"])

    async def run(self) -> None:
        while True:
            await self._writer.write()
            await self.note()
            await asyncio.sleep(0.02)


settings = with_cache(cache_bytes=5_000_000, count_seconds=0.000_001)


async def answer_of(query: Following, gateway: GatewayClient) -> Any:
    asking = replace(gateway, roles=query.gateway.roles, subject=query.gateway.subject, claims=query.gateway.claims)
    return comparable((await asking.ask(query.asked.text, query.asked.variables)).body)


@pytest.mark.usefixtures("patient")
@pytest.mark.timeout(7_200 if IS_SOAK else 240)
async def test_a_hit_is_the_answer_of_a_run_at_one_time_while_writes_go_on(
    loaded_demo: Demo, gateway: GatewayClient, settings: Settings
) -> None:
    loaded_demo.copy_to(settings)
    shop = await as_documented(gateway)
    rng = random.Random(7)
    queries = rng.sample(await queries_of(shop), QUERIES)
    async with running(replace(settings, cache_bytes=0)) as other:
        snapshots = Snapshots(plain(other.db))
        direct = DirectDatabase(plain(other.db), snapshots, writer_of(other.db))  # type: ignore[arg-type]
        other.state.database = other.state.reading = direct  # type: ignore[assignment]
        for query in queries * 3:
            await answer_of(query, shop)
        assert shop.state.cache is not None
        counts, index = shop.state.cache.counts, shop.state.cache.index
        shown = {name: index.rows_of(name) for name in index.collections}
        writing = Writing(Writer(plain(shop.db), shown, rng), plain(shop.db))
        await writing.note()
        task = asyncio.create_task(writing.run())
        try:
            hits = 0
            while hits < HITS:
                assert not task.done()
                query, begun, before = rng.choice(queries), len(writing.times) - 1, counts.hits
                answer = await answer_of(query, shop)
                if counts.hits > before:
                    hits += 1
                    # The write in flight may be in the answer.
                    ended = len(writing.times) + 1
                    await until(lambda: len(writing.times) >= ended or task.done())  # noqa: B023 - ends in this turn
                    times = writing.times[begun:ended]
                    assert await is_of(answer, query, other, snapshots, times), (query.asked.where, answer)
            assert counts.affected
        finally:
            await end(task)


async def is_of(
    answer: Any, query: Following, other: GatewayClient, snapshots: Snapshots, times: Sequence[Timestamp]
) -> bool:
    """Returns whether a run at one of these times has this answer."""
    for snapshots.at in times:
        if await answer_of(query, other) == answer:
            return True
    return False
