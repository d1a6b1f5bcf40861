"""`python -m bench.live`: measure many different live queries of one worker, and clients that poll instead.

The gateway runs in this process, which is set up as a worker is, without a network: what is measured is what follows a
commit until an answer is handed to its connection. Each live query shows another product with its stock. Commits change
one of these at random, at a fixed rate. Afterwards, as many clients send the same queries every second instead, or as
often as they are answered. The CPU time is that of this process, with the commits and the clients.
"""

import asyncio
import os
import random
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import uvloop
from rich.console import Console

from bench import mongo, report
from bench.processes import share_out
from portico.gateway.cli.server import tune_process
from portico.gateway.http.requests import Request
from portico.gateway.http.streaming import Session, responses
from portico.gateway.operations.execution import Progress
from portico.gateway.reads.interests import INSERT, UPDATE, Change
from portico.gateway.reads.paths import Paths
from portico.gateway.settings import Settings
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.configuration import Secret
from portico.testing.gateways import Gateway, running

QUERY = "query ($sku: String!) { product(sku: $sku) { title pricing { retail { amount } } stock { available } } }"
LIVE = QUERY.replace(" {", " @live {", 1)
POLL_SECONDS = 1.0
KINDS = ("live", "polling")
RESULTS = Path(__file__).parent / "results" / "live.json"
console = Console()


@dataclass
class Followed:
    """What the clients have received: the number of answers, and when each title of a product came first."""

    answers: int = 0
    refused: int = 0
    came: dict[str, float] = field(default_factory=dict)

    def shows(self, json: bytes) -> None:
        self.answers += 1
        answer = orjson.loads(json)
        if "errors" in answer:
            # With too many clients, the gateway refuses polls.
            self.refused += 1
        else:
            self.came.setdefault(answer["data"]["product"]["title"], time.perf_counter())


def memory() -> float:
    """Return the resident memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def ask(gateway: Gateway, query: str, sku: str, followed: Followed) -> None:
    """Take the answers to a query: one, or all of a live query."""
    session = Session(gateway.state, None, {})
    request = Request(query, {"sku": sku}, None)
    async for answer in responses(gateway.state.executor, request, session, await session.context(), Progress()):
        followed.shows(answer.json)


async def poll(gateway: Gateway, sku: str, followed: Followed, delay: float) -> None:
    """Send the query every second, or as often as it is answered."""
    await asyncio.sleep(delay)
    while True:
        begun = time.perf_counter()
        await ask(gateway, QUERY, sku, followed)
        await asyncio.sleep(max(POLL_SECONDS - (time.perf_counter() - begun), 0))


@asynccontextmanager
async def polling(gateway: Gateway, skus: Sequence[str], followed: Followed) -> AsyncIterator[None]:
    """Let a client for each product poll. The first queries are spread over a second."""
    tasks = [
        asyncio.create_task(poll(gateway, sku, followed, number / len(skus) * POLL_SECONDS))
        for number, sku in enumerate(skus)
    ]
    try:
        await asyncio.sleep(2 * POLL_SECONDS)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def insert(gateway: Gateway, number: int) -> list[str]:
    """Insert products that differ in their keys. Return their SKUs."""
    await gateway.db["products"].insert_many(
        [
            {
                "_id": f"live-{one}",
                "sku": f"live-{one}",
                "slug": f"live-{one}",
                "type": "Other",
                "title": f"{one}:0:0",
                "pricing": {"list": 1, "retail": 1, "savings": 0, "pct_savings": 0},
                "currency": "USD",
                "schema_version": PRODUCTS.version,
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


@dataclass
class Committed:
    """What follows the commits of some seconds."""

    # The seconds from each acknowledgement to its answer, of those that have been answered.
    latencies: list[float]
    commits: int
    cpu: float
    answers: float

    @property
    def figures(self) -> dict[str, Any]:
        return {
            "p50_ms": at(self.latencies, 0.5),
            "p99_ms": at(self.latencies, 0.99),
            "answered": len(self.latencies),
            "commits": self.commits,
            "cpu": round(self.cpu, 2),
            "answers": round(self.answers, 1),
        }


async def commits(gateway: Gateway, kind: str, number: int, rate: int, seconds: float, followed: Followed) -> Committed:
    """Change products at this rate. The answers of the last ones have a second."""
    rng, acknowledged, version = random.Random(1), {}, 0
    answers, cpu = followed.answers, time.process_time()
    begun = time.perf_counter()
    while (elapsed := time.perf_counter() - begun) < seconds:
        if version > elapsed * rate:
            await asyncio.sleep(0.001)
            continue
        version += 1
        one = rng.randrange(number)
        title = f"{kind}:{one}:{version}"
        await gateway.db["products"].update_one({"_id": f"live-{one}"}, {"$set": {"title": title}})
        acknowledged[title] = time.perf_counter()
    await asyncio.sleep(1)
    took = time.perf_counter() - begun
    latencies = sorted(followed.came[title] - at for title, at in acknowledged.items() if title in followed.came)
    used = (time.process_time() - cpu) / took
    return Committed(latencies, len(acknowledged), used, (followed.answers - answers) / took)


def matching(gateway: Gateway, rounds: int = 400, batches: int = 9) -> float:
    """Return the microseconds to look for what a change affects that nobody shows: the least of the batches."""
    index = gateway.state.live_queries.feed.index
    document = {"_id": "nobody", "sku": "nobody", "slug": "nobody", "title": "x"}
    changes = [
        Change("products", INSERT, "nobody", document),
        Change("products", UPDATE, "nobody", document, Paths(["sku"])),
        Change("stock", INSERT, "nobody", document),
    ]
    times = []
    for _ in range(batches):
        begun = time.thread_time()
        for _ in range(rounds):
            for change in changes:
                index.dispatch(change)
        times.append(time.thread_time() - begun)
    return min(times) / rounds / len(changes) * 1e6


def at(values: Sequence[float], share: float) -> float | None:
    """Return the percentile of sorted seconds, in milliseconds; None without values."""
    return round(values[min(len(values) - 1, int(len(values) * share))] * 1e3, 1) if values else None


async def idle_commands(gateway: Gateway) -> int:
    """Return how many commands are sent in a second without a change."""
    gateway.commands.is_recording = True
    gateway.commands.clear()
    await asyncio.sleep(1)
    # Records keep the commands in memory.
    gateway.commands.is_recording = False
    return len([name for name in gateway.commands.names() if not name.startswith("getMore")])


async def measured(settings: Settings, numbers: Sequence[int], rate: int, seconds: float) -> list[dict[str, Any]]:
    """Return a row for each number of live queries, and for as many clients that poll."""
    rows: list[dict[str, Any]] = []
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(running(settings))
        tune_process()
        gateway.commands.is_recording = False
        skus = await insert(gateway, max(numbers))
        counts = gateway.state.live_queries.counts
        followed, tasks, done = Followed(), [], 0
        empty = memory()
        for number in numbers:
            begun = time.perf_counter()
            tasks += [asyncio.create_task(ask(gateway, LIVE, sku, followed)) for sku in skus[done:number]]
            while followed.answers < number:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)
            started, done = time.perf_counter() - begun, number
            await settled(gateway)
            used, idle = memory() - empty, await idle_commands(gateway)
            before = counts.runs, counts.vain
            found = await commits(gateway, f"live {number}", number, rate, seconds, followed)
            rows.append(
                {
                    "clients": number,
                    "kind": KINDS[0],
                    "start_s": round(started, 1),
                    "memory_mb": round(used),
                    "commands_at_rest": idle,
                    "matching_us": round(matching(gateway), 2),
                    **found.figures,
                    "runs": counts.runs - before[0],
                    "vain": counts.vain - before[1],
                }
            )
            followed.answers = number
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return rows + [await polled(gateway, skus[:number], rate, seconds) for number in numbers]


async def polled(gateway: Gateway, skus: Sequence[str], rate: int, seconds: float) -> dict[str, Any]:
    """Return the row of as many clients that poll."""
    others, number = Followed(), len(skus)
    async with polling(gateway, skus, others):
        found = await commits(gateway, f"polling {number}", number, rate, seconds, others)
    return {"clients": number, "kind": KINDS[1], **found.figures, "refused": others.refused}


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    tables = {
        title: [
            {name: value for name, value in row.items() if name != "kind"}
            for row in result["rows"]
            if row["kind"] == title
        ]
        for title in KINDS
    }
    report.show_tables(console, tables)


def run(numbers: Sequence[int], rate: int, seconds: float) -> dict[str, Any]:
    cores = share_out()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        if cores.server is not None:
            os.sched_setaffinity(0, {cores.server})
        settings = Settings(
            mongodb_uri=Secret(uri), data_dir=folder, jobs=False, max_live_queries=100_000, log_level="error"
        )
        rows = uvloop.run(measured(settings, numbers, rate, seconds))
    return report.measured(rate=rate, seconds=seconds, rows=rows)


def main(
    queries: Annotated[list[int] | None, typer.Option(help="How many live queries. Repeat it.")] = None,
    rate: Annotated[int, typer.Option(min=1, help="Commits a second.")] = 100,
    seconds: Annotated[float, typer.Option(help="The seconds of commits.")] = 10.0,
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/live.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run a short check, and do not store it.")] = False,
) -> None:
    """Measure many different live queries of one worker."""
    numbers = queries or ([20, 200] if quick else [100, 1_000, 10_000])
    target = json or (None if quick or queries else RESULTS)
    report.publish(lambda: run(numbers, rate, 2.0 if quick else seconds), target, show)


if __name__ == "__main__":
    typer.run(main)
