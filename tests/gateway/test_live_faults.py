"""Live answers of two gateways are those of fresh reads, while documents change and processes and servers fail.

Clients of two gateways follow documented queries of all domains. Documents change at random meanwhile, by commands and
by mutations of both gateways. A gateway is killed, a primary steps down, and another one stalls. After each fault, the
last answer of every client is what the query answers then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pymongo
import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from websockets.exceptions import WebSocketException

from bench.documented import Asked, as_documented
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.tasks import end
from tests.gateway.support.gateways import Gateways
from tests.gateway.support.live_oracle import Following, Writer, followed, queries_of
from tests.support.demo import Demo
from tests.support.harness import IS_SOAK, MUTATIONS, GatewayClient, category_input, new_key, product_input, running
from tests.support.replica_sets import ReplicaSet
from tests.support.sockets import opened, until

# Live queries that are followed, and rounds of faults: in a soak each has all faults, otherwise one of them. Documents
# change so often before and after a fault.
QUERIES = 1_000 if IS_SOAK else 10
ROUNDS = 40 if IS_SOAK else 1
WRITES = 60 if IS_SOAK else 8
# How long a client may have an older answer. An election takes a second or two; the driver notices it in ten at most.
SECONDS = 60.0 if IS_SOAK else 20.0
# Shows the document that changes each time, so that each client misses something if a fault hides changes.
ALWAYS = Asked('query { product(sku: "LP-0001") { title } }', None, {}, "the one that always changes")
_RETRIED = {"UNAVAILABLE", "TIMEOUT", "OVERLOADED"}


@pytest.fixture
def on_three(settings: Settings, three: ReplicaSet, loaded_demo: Demo) -> Settings:
    """Settings with the demo's data on three nodes."""
    found = replace(
        settings, mongodb_uri=Secret(three.uri), database="faults", count_seconds=0.000_001, max_operations=1_000
    )
    with (
        MongoClient[dict[str, Any]](settings.mongodb_uri) as source,
        MongoClient[dict[str, Any]](three.uri) as target,
    ):
        for name in source[loaded_demo.database].list_collection_names():
            if documents := source[loaded_demo.database][name].find().to_list():
                target[found.database][name].insert_many(documents)
    return found


class Line:
    """A client: the live queries of one caller over one socket. When it is cut off, it connects to the next gateway."""

    def __init__(self, gateways: Gateways, queries: Sequence[Following]) -> None:
        self._gateways = gateways
        self._queries = {str(number): query for number, query in enumerate(queries)}
        self.connections = 0

    async def run(self) -> None:
        while True:
            for query in self._queries.values():
                query.answers = 0
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                await self._follow()
            await asyncio.sleep(0.1)

    async def _follow(self) -> None:
        first = next(iter(self._queries.values()))
        async with opened(self._gateways.next().port) as socket:
            await socket.init(first.gateway.token())
            self.connections += 1
            for key, query in self._queries.items():
                await socket.subscribe(key, query.asked.live, query.asked.variables)
            async for text in socket.connection:
                message = json.loads(text)
                if message["type"] == "next":
                    query = self._queries[message["id"]]
                    query.last = message["payload"]
                    query.answers += 1
                elif message["type"] == "error":
                    codes = {error["extensions"]["code"] for error in message["payload"]}
                    # A client that is told so comes again.
                    assert codes <= _RETRIED, message
                    return


class Changes:
    """Changes documents at random, by commands and by mutations of either gateway, until it is told to rest."""

    def __init__(self, writer: Writer, gateways: Gateways, demo: GatewayClient, rng: random.Random) -> None:
        self.done: list[str] = []
        self._writer = writer
        self._db = demo.db
        self._gateways = gateways
        self._token = demo.token()
        self._rng = rng
        self._may_write = asyncio.Event()
        self._is_resting = asyncio.Event()

    async def run(self) -> None:
        async with httpx.AsyncClient(timeout=10.0) as client:
            while True:
                self._is_resting.set()
                await self._may_write.wait()
                self._is_resting.clear()
                # A primary that stalls answers nothing.
                with pymongo.timeout(5.0):
                    self.done.append(await self._writer.write())
                    with contextlib.suppress(PyMongoError):
                        title = {"$set": {"title": f"Title {len(self.done)}"}}
                        await self._db["products"].update_one({"sku": "LP-0001"}, title)
                if self._rng.random() < 0.3:
                    await self._mutate(client)
                await asyncio.sleep(0.02)

    async def _mutate(self, client: httpx.AsyncClient) -> None:
        sku = f"LP-000{self._rng.randrange(1, 5)}"
        stock = {"sku": sku, "quantity": 1, "idempotencyKey": new_key()}
        inputs = {"createCategory": category_input(), "createProduct": product_input(), "restock": stock}
        name, given = self._rng.choice([*inputs.items()])
        body = {"query": MUTATIONS[name], "variables": {"input": given}}
        headers = {"authorization": f"Bearer {self._token}"}
        with contextlib.suppress(httpx.TransportError):
            answer = await client.post(self._gateways.next().graphql, json=body, headers=headers)
            self.done.append(f"{name} {answer.text}")

    async def some(self) -> None:
        """Returns after some more changes. Others follow."""
        self._may_write.set()
        wanted = len(self.done) + WRITES
        await until(lambda: len(self.done) >= wanted, 60.0)

    async def rest(self) -> None:
        self._may_write.clear()
        await self._is_resting.wait()


@contextlib.asynccontextmanager
async def clients(gateways: Gateways, queries: Sequence[Following]) -> AsyncIterator[Sequence[Line]]:
    """Follows the queries, those of each caller by two clients, which begin at different gateways."""
    by_caller: defaultdict[tuple[str | None, int], list[Following]] = defaultdict(list)
    for number, query in enumerate(queries):
        by_caller[query.gateway.subject, number % 2].append(query)
    lines = [Line(gateways, some) for some in by_caller.values()]
    tasks = [asyncio.create_task(line.run()) for line in lines]
    try:
        await until(lambda: all(query.answers for query in queries), 60.0)
        yield lines
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [error for error in ended if not isinstance(error, asyncio.CancelledError)]


@contextlib.asynccontextmanager
async def changing(changes: Changes) -> AsyncIterator[None]:
    task = asyncio.create_task(changes.run())
    try:
        yield
    finally:
        # The driver can swallow a cancellation.
        await end(task)


async def compare(queries: Sequence[Following], changes: Changes) -> None:
    """Waits until the last answer of each client is that of a fresh read."""
    await changes.rest()
    try:
        for query in queries:
            await query.converges(SECONDS)
    except AssertionError:
        sys.stderr.write("\n".join(changes.done[-2 * WRITES :]) + "\n")
        raise


@pytest.mark.timeout(7_200 if IS_SOAK else 180)
async def test_live_answers_are_those_of_fresh_reads_after_faults(
    on_three: Settings, three: ReplicaSet, tmp_path: Path
) -> None:
    rng = random.Random(3)
    with contextlib.ExitStack() as stack:
        gateways = Gateways(on_three, tmp_path, stack)
        async with running(on_three) as gateway:
            demo = await as_documented(gateway)
            every = await queries_of(demo)
            queries = [*rng.sample(every, min(QUERIES, len(every))), Following(ALWAYS, demo), Following(ALWAYS, demo)]
            async with followed(queries):
                index = gateway.state.live_queries.feed.index
                shown = {name: set(index.rows_of(name)) for name in index.collections}
            await asyncio.gather(*(asyncio.to_thread(gateways.start) for _ in range(2)))
            changes = Changes(Writer(demo.db, shown, rng), gateways, demo, rng)
            async with clients(gateways, queries) as lines, changing(changes):
                faults = [
                    partial(_killed, gateways, changes, queries),
                    partial(_during, lambda: asyncio.to_thread(three.step_down), changes, queries),
                    partial(_stalled, three, changes, queries),
                ]
                for _ in range(ROUNDS):
                    for fault in faults if IS_SOAK else random.sample(faults, 1):
                        await fault()
                # A fault of the database cuts off nobody.
                assert sum(line.connections for line in lines) <= len(lines) * (1 + ROUNDS)


async def _killed(gateways: Gateways, changes: Changes, queries: Sequence[Following]) -> None:
    await changes.some()
    gateways.kill_one()
    await changes.some()
    await asyncio.to_thread(gateways.start)
    await compare(queries, changes)


async def _stalled(three: ReplicaSet, changes: Changes, queries: Sequence[Following]) -> None:
    """The former primary still stalls while the answers are compared, and again after it has resumed."""
    former = 0

    async def stall() -> None:
        nonlocal former
        former = await asyncio.to_thread(three.stall_primary)
        await asyncio.to_thread(three.wait_for_new_primary, former)

    try:
        await _during(stall, changes, queries)
    finally:
        if former:
            three.resume(former)
            await asyncio.to_thread(three.wait_until_secondary, former)
    await changes.some()
    await compare(queries, changes)


async def _during(fault: Callable[[], Awaitable[Any]], changes: Changes, queries: Sequence[Following]) -> None:
    await changes.some()
    await fault()
    await changes.some()
    await compare(queries, changes)
