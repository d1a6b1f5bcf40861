"""`python -m bench.cached`: measure the CPU of answers from the cache, and of runs that it misses.

Over HTTP, each server has a process of its own, as in `bench`: the floor, which is written by hand, a gateway without a
cache, and one with it. The time is that of the process.

Without a network, the gateway runs in this process, and the time is that of the thread of its event loop. So runs that
the cache misses are compared with those of a gateway without a cache, request by request.
"""

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Self
from urllib.parse import urlencode

import orjson
import typer
import uvloop
from rich.console import Console
from rich.table import Table
from starlette.types import Message

from bench import __main__ as page
from bench import measure, mongo, report
from bench.peerlist import choose
from bench.processes import share_out
from bench.servers import tag_of
from portico.gateway.cli.server import tune_process
from portico.gateway.operations.plans.on_error import DEFAULT
from portico.gateway.reads.interests import UPDATE, Change
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.testing.gateways import Gateway, running
from portico.testing.posting import post

QUERY = (Path(__file__).parent / "page.graphql").read_text()
IN_URL = urlencode({"query": QUERY}).encode()
BODY = orjson.dumps({"query": QUERY})
TOGETHER = 16
CACHE_BYTES = 50_000_000
CHANGE = Change("products", UPDATE)
CACHED, UNCHANGED = "from the cache", "304 from the cache"
RESULTS = Path(__file__).parent / "results" / "cached.json"
Send = Callable[[], Awaitable[Any]]
Trace = Callable[[FrameType, str, object], Any]


@dataclass
class Way:
    """A way to answer. `before` is called before each request."""

    name: str
    send: Send
    before: Callable[[], None] = lambda: None
    # The way that it is compared with; None: the first one.
    base: "Way | None" = None
    steps: int = 0
    alone: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)

    async def measure(self, requests: int) -> None:
        begun = time.thread_time()
        for _ in range(requests):
            self.before()
            await self.send()
        self.alone.append((time.thread_time() - begun) / requests * 1e3)
        begun = time.thread_time()
        for _ in range(requests // TOGETHER + 1):
            self.before()
            await asyncio.gather(*(self.send() for _ in range(TOGETHER)))
        self.together.append((time.thread_time() - begun) / (requests // TOGETHER + 1) / TOGETHER * 1e3)

    async def count(self) -> None:
        """Count the instructions of Python, which other processes do not change: the least of some requests."""

        async def send() -> None:
            self.before()
            await self.send()

        counted = []
        for _ in range(5):
            with Steps() as steps:
                # Only frames that begin from now on are counted.
                await asyncio.create_task(send())
            counted.append(steps.number)
        self.steps = min(counted)


class Steps:
    """Counts the instructions of the bytecode that this thread runs."""

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> Self:
        sys.settrace(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _begin(self, frame: FrameType, _event: str, _argument: object) -> "Trace":
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, _frame: FrameType, event: str, _argument: object) -> "Trace":
        self.number += event == "opcode"
        return self._step


async def get(gateway: Gateway, known: bytes = b"") -> dict[bytes, bytes]:
    """Send the page by GET. Return the headers of the answer."""
    answered: list[Message] = []

    async def send(message: Message) -> None:
        answered.append(message)

    headers = [(b"accept", b"application/json"), (b"if-none-match", known)]
    scope = {"type": "http", "method": "GET", "path": "/graphql", "raw_path": b"/graphql", "headers": headers}
    scope |= {"query_string": IN_URL, "root_path": "", "scheme": "http"}
    await gateway.app(scope, asyncio.Event().wait, send)  # type: ignore[arg-type]
    return dict(answered[0]["headers"])


async def measured(settings: Settings, rounds: int, requests: int) -> list[Way]:
    kept = replace(settings, cache_bytes=CACHE_BYTES)
    async with running(settings) as without, running(kept) as gateway:
        numbers = itertools.count()
        cache = gateway.state.cache
        assert cache is not None

        async def ask(one: Gateway, body: bytes = BODY) -> None:
            await post(one.app, "/graphql", body, {"content-type": "application/json"})

        async def ask_first(one: Gateway) -> None:
            # No operation uses the variable, but it makes another query of it.
            await ask(one, orjson.dumps({"query": QUERY, "variables": {"number": next(numbers)}}))

        query = cache.query(QUERY, None, DEFAULT, {})
        assert query is not None

        def drop() -> None:
            """Drops the answer, as a change of what it shows does."""
            for answer in tuple(query.answers.values()):
                answer.reads.affected(CHANGE)
            query.skipped = query.backoff = 0

        tag = (await get(gateway))[b"etag"]
        other = Way("no cache, other variables", lambda: ask_first(without))
        ways = [
            Way("no cache", lambda: ask(without)),
            other,
            Way("first run of a query", lambda: ask_first(gateway), base=other),
            Way("recorded run", lambda: ask(gateway), drop),
            Way(CACHED, lambda: ask(gateway)),
            Way(UNCHANGED, lambda: get(gateway, tag)),
        ]
        await take_turns(ways, rounds, requests)
        return ways


async def take_turns(ways: list[Way], rounds: int, requests: int) -> None:
    """Measure the ways in turns, after some requests of each."""
    for _ in range(10):
        for way in ways:
            await way.send()
    tune_process()
    for _ in range(rounds):
        for way in ways:
            await way.measure(requests)
    for way in ways:
        await way.count()


@contextmanager
def database() -> Iterator[tuple[str, Path]]:
    """Start a database with the page. Yield its URI, and a folder."""
    with (
        tempfile.TemporaryDirectory(prefix="portico-bench-") as folder,
        mongo.running(share_out().rest) as uri,
    ):
        page.load(uri, Path(folder))
        yield uri, Path(folder)


def in_process(uri: str, folder: Path, rounds: int, requests: int) -> list[dict[str, Any]]:
    """Return the CPU of each way to answer, the least of the rounds, and its share of that of a run."""
    settings = Settings(
        mongodb_uri=Secret(uri),
        database=page.DATABASE,
        data_dir=folder,
        jwt_secret=Secret("bench" * 8),
        jobs=False,
        log_level="error",
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        ways = runner.run(measured(settings, rounds, requests))
    rows = []
    for way in ways:
        base = way.base or ways[0]
        row: dict[str, Any] = {"answer": way.name, "steps": way.steps, "steps_ratio": round(way.steps / base.steps, 3)}
        for name, times, of_run in (("1", way.alone, base.alone), (str(TOGETHER), way.together, base.together)):
            row[name] = {"cpu_ms": round(min(times), 3), "ratio": round(min(times) / min(of_run), 3)}
        rows.append(row)
    return rows


def over_http(uri: str, folder: Path, rounds: int, requests: int) -> list[dict[str, Any]]:
    """Return the CPU of the gateway's process for each way to answer over HTTP, and its share of the floor's."""
    cores = share_out()
    floor, portico = choose("portico")
    cached = replace(portico, name=CACHED, env={"PORTICO_CACHE_BYTES": str(CACHE_BYTES)})
    settings = measure.Settings(rounds, requests, 50, 200, (1, TOGETHER))
    with ExitStack() as stack:
        servers = page.start([floor, portico, cached], cores, uri, folder, stack)
        known = replace(servers[-1], peer=replace(cached, name=UNCHANGED), tag=tag_of(servers[-1]))
        samples = measure.rounds([*servers, known], settings, cores.rest, lambda _text: None)
    rows = []
    for name, by_connections in samples.items():
        row: dict[str, Any] = {"answer": name}
        for count, taken in by_connections.items():
            used, of_floor = (measure.median_of(some).cpu_ms for some in (taken, samples[floor.name][count]))
            row[str(count)] = {"cpu_ms": round(used, 3), "ratio": round(used / of_floor, 3)}
        rows.append(row)
    return rows


def show(result: dict[str, Any]) -> None:
    console = Console()
    report.show_place(console, result)
    for title, name in (("over HTTP, of the floor", "http"), ("in the process, of a run", "process")):
        table = Table(
            "answer", "CPU, one at a time", f"CPU, {TOGETHER} at a time", "ratios", "instructions", title=title
        )
        for row in result[name]:
            one, many = row["1"], row[str(TOGETHER)]
            cells = (f"{one['cpu_ms']:.2f} ms", f"{many['cpu_ms']:.2f} ms", f"{one['ratio']:.2f}, {many['ratio']:.2f}")
            steps = f"{row['steps']:,} ({row['steps_ratio']:.2f})" if "steps" in row else ""
            table.add_row(row["answer"], *cells, steps)
        console.print(table)


def main(
    rounds: int = 10,
    requests: int = 48,
    http_rounds: int = 3,
    http_requests: int = 2_000,
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/cached.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run a short check, and do not store it.")] = False,
) -> None:
    """Measure answers from the cache, and runs that it misses."""

    def figures() -> dict[str, Any]:
        with database() as (uri, folder):
            http = over_http(uri, folder, 1 if quick else http_rounds, 300 if quick else http_requests)
            process = in_process(uri, folder, 2 if quick else rounds, requests)
        return report.measured(http=http, process=process)

    report.publish(figures, json or (None if quick else RESULTS), show)


if __name__ == "__main__":
    typer.run(main)
