"""`python -m bench.live`: measure many different live queries of one worker, and clients that poll instead.

The gateway runs in this process, without a network: what is measured is what follows a commit until an answer is handed
to its connection. Each live query shows another product with its stock. Commits change one of these at random, at a
fixed rate. Clients that poll send the same queries, each once a second, as many as the worker answers.
"""

import asyncio
import os
import random
import resource
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from bench import mongo
from bench.processes import share_out
from portico.gateway.http.requests import Request
from portico.gateway.http.streaming import Session, responses
from portico.gateway.operations.execution import Progress
from portico.gateway.reads.interests import INSERT, UPDATE, Change
from portico.gateway.reads.paths import Paths
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.testing.gateways import Gateway, running

QUERY = "query ($sku: String!) { product(sku: $sku) { title pricing { retail { amount } } stock { available } } }"
LIVE = QUERY.replace(" {", " @live {", 1)
_POLLED = 10
console = Console()


@dataclass
class Followed:
    """What the clients have received: the number of answers, and when the last title of a product came."""

    answers: int = 0
    came: dict[str, float] = field(default_factory=dict)


def memory() -> float:
    """Return the resident memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def follow(gateway: Gateway, sku: str, followed: Followed) -> None:
    session = Session(gateway.state, None, {})
    request = Request(LIVE, {"sku": sku}, None)
    async for answer in responses(gateway.state.executor, request, session, await session.context(), Progress()):
        followed.answers += 1
        followed.came[orjson.loads(answer.json)["data"]["product"]["title"]] = time.perf_counter()


async def insert(gateway: Gateway, number: int) -> list[str]:
    """Insert products that differ in their keys. Return their SKUs."""
    await gateway.db["products"].insert_many(
        [
            {
                "_id": f"live-{one}",
                "sku": f"live-{one}",
                "slug": f"live-{one}",
                "type": "Other",
                "title": f"{one}:0",
                "pricing": {"list": 1, "retail": 1, "savings": 0, "pct_savings": 0},
                "currency": "USD",
                "schema_version": 2,
            }
            for one in range(number)
        ]
    )
    return [f"live-{one}" for one in range(number)]


async def settled(gateway: Gateway) -> None:
    """Wait until nothing runs any more: the changes that inserted the products may arrive after the first answers."""
    counts, before = gateway.state.live_queries.counts, -1
    while counts.runs != before:
        before = counts.runs
        await asyncio.sleep(1)


async def commits(gateway: Gateway, number: int, rate: int, seconds: float, followed: Followed) -> list[float]:
    """Change products at this rate. Return the seconds from each acknowledgement to its answer."""
    rng, acknowledged, version = random.Random(1), {}, 0
    begun = time.perf_counter()
    while (elapsed := time.perf_counter() - begun) < seconds:
        if version > elapsed * rate:
            await asyncio.sleep(0.001)
            continue
        version += 1
        one = rng.randrange(number)
        title = f"{one}:{version}"
        await gateway.db["products"].update_one({"_id": f"live-{one}"}, {"$set": {"title": title}})
        acknowledged[title] = time.perf_counter()
    await asyncio.sleep(1)
    return sorted(followed.came[title] - at for title, at in acknowledged.items() if title in followed.came)


def matching(gateway: Gateway, rounds: int = 2_000) -> float:
    """Return the microseconds to look for what a change affects that nobody shows."""
    index = gateway.state.live_queries.feed.index
    document = {"_id": "nobody", "sku": "nobody", "slug": "nobody", "title": "x"}
    changes = [
        Change("products", INSERT, "nobody", document),
        Change("products", UPDATE, "nobody", document, Paths(["sku"])),
        Change("stock", INSERT, "nobody", document),
    ]
    begun = time.perf_counter()
    for _ in range(rounds):
        for change in changes:
            index.dispatch(change)
    return (time.perf_counter() - begun) / rounds / len(changes) * 1e6


async def polled(gateway: Gateway, skus: Sequence[str]) -> float:
    """Return how many queries a second are answered while some clients send one after the other."""
    begun = time.perf_counter()
    parts = [skus[start::_POLLED] for start in range(_POLLED)]

    async def ask(some: Sequence[str]) -> None:
        for sku in some:
            await gateway.data(QUERY, {"sku": sku}, token=None)

    await asyncio.gather(*(ask(part) for part in parts))
    return len(skus) / (time.perf_counter() - begun)


def at(values: Sequence[float], share: float) -> str:
    return f"{values[min(len(values) - 1, int(len(values) * share))] * 1e3:.1f} ms" if values else "none"


async def measured(settings: Settings, numbers: Sequence[int], rate: int, seconds: float, table: Table) -> None:
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(running(settings))
        skus = await insert(gateway, max(numbers))
        counts = gateway.state.live_queries.counts
        followed, tasks, done = Followed(), [], 0
        empty = memory()
        for number in numbers:
            begun = time.perf_counter()
            tasks += [asyncio.create_task(follow(gateway, sku, followed)) for sku in skus[done:number]]
            while followed.answers < number:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)
            started, done = time.perf_counter() - begun, number
            await settled(gateway)
            gateway.commands.clear()
            await asyncio.sleep(1)
            idle = len([name for name in gateway.commands.names() if not name.startswith("getMore")])
            before = counts.runs, counts.vain, followed.answers
            latencies = await commits(gateway, number, rate, seconds, followed)
            runs, vain = counts.runs - before[0], counts.vain - before[1]
            table.add_row(
                f"{number:,}",
                f"{started:.1f} s",
                f"{memory() - empty:.0f} MB",
                f"{idle}",
                f"{matching(gateway):.1f} µs",
                f"{at(latencies, 0.5)}, {at(latencies, 0.99)}",
                f"{len(latencies):,}, {runs:,}, {vain:,}",
            )
            followed.answers = number
        rate_of_polls = await polled(gateway, skus[:500])
        console.print(
            f"Polling: {rate_of_polls:,.0f} answers a second at most, so as many clients that poll every second."
        )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main(
    queries: Annotated[list[int] | None, typer.Option(help="How many live queries. Repeat it.")] = None,
    rate: Annotated[int, typer.Option(min=1, help="Commits a second.")] = 100,
    seconds: Annotated[float, typer.Option(help="The seconds of commits.")] = 5.0,
) -> None:
    """Measure many different live queries of one worker."""
    cores = share_out()
    table = Table(
        "live queries", "start", "memory", "commands at rest", "a change", "commit to answer", "answers, runs, vain"
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        if cores.server is not None:
            os.sched_setaffinity(0, {cores.server})
        settings = Settings(
            mongodb_uri=Secret(uri), data_dir=folder, jobs=False, max_live_queries=100_000, log_level="error"
        )
        asyncio.run(measured(settings, queries or [100, 1_000, 10_000], rate, seconds, table))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
