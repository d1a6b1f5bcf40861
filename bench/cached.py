"""`python -m bench.cached`: measure the CPU of answers from the cache, and of runs that it misses, beside that of runs.

The gateway runs in this process, without a network and without a server. It gets the page of `bench`, one request after
the other and 16 at a time. The time is that of the thread of its event loop.
"""

import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import typer
import uvloop
from rich.console import Console
from rich.table import Table
from starlette.types import Message

from bench import __main__ as page
from bench import mongo
from bench.processes import share_out
from portico.gateway.operations.plans.on_error import DEFAULT
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.testing.gateways import Gateway, running
from portico.testing.posting import post

QUERY = (Path(__file__).parent / "page.graphql").read_text()
IN_URL = urlencode({"query": QUERY}).encode()
BODY = orjson.dumps({"query": QUERY})
TOGETHER = 16
Send = Callable[[], Awaitable[Any]]


@dataclass
class Way:
    """A way to answer. `before` is called before each request."""

    name: str
    send: Send
    before: Callable[[], None] = lambda: None
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
    kept = replace(settings, cache_bytes=50_000_000)
    async with running(settings) as without, running(kept) as gateway:
        numbers = itertools.count()
        cache = gateway.state.cache
        assert cache is not None

        async def ask(one: Gateway, body: bytes = BODY) -> None:
            await post(one.app, "/graphql", body, {"content-type": "application/json"})

        async def ask_first() -> None:
            # No operation uses the variable, but it makes another query of it.
            await ask(gateway, orjson.dumps({"query": QUERY, "variables": {"number": next(numbers)}}))

        def forget() -> None:
            cache.index.dispatch_all()
            query = cache.query(QUERY, None, DEFAULT, {})
            assert query is not None
            query.skipped = query.backoff = 0

        tag = (await get(gateway))[b"etag"]
        ways = [
            Way("no cache", lambda: ask(without)),
            Way("first run of a query", ask_first),
            Way("recorded run", lambda: ask(gateway), forget),
            Way("from the cache", lambda: ask(gateway)),
            Way("304 from the cache", lambda: get(gateway, tag)),
        ]
        for _ in range(10):
            for way in ways:
                await way.send()
        for _ in range(rounds):
            for way in ways:
                await way.measure(requests)
        Console().print(cache.counts)
        return ways


def main(rounds: int = 10, requests: int = 48) -> None:
    """Measure, and print the least of the rounds."""
    cores = share_out()
    with (
        tempfile.TemporaryDirectory(prefix="portico-bench-") as folder,
        mongo.running(cores.rest) as uri,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        page.load(uri, Path(folder))
        settings = Settings(
            mongodb_uri=Secret(uri),
            database=page.DATABASE,
            data_dir=Path(folder),
            jwt_secret=Secret("bench" * 8),
            jobs=False,
            log_level="error",
        )
        ways = runner.run(measured(settings, rounds, requests))
    table = Table("answer", "CPU, one at a time", f"CPU, {TOGETHER} at a time", "of a run")
    for way in ways:
        alone, together = min(way.alone), min(way.together)
        share = f"{alone / min(ways[0].alone):.2f}, {together / min(ways[0].together):.2f}"
        table.add_row(way.name, f"{alone:.2f} ms", f"{together:.2f} ms", share)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
