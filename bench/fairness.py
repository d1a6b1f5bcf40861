"""`python -m bench.fairness`: measure how one worker shares itself between many readers, many writers, and a writer
among readers.

Each client keeps one connection open and sends its next request as soon as it has the answer. A reader asks for the
page of products. A writer changes the stock of a product of its own. A share is what a write would wait if every client
got one turn in each round: the median of a read beside it, and the median of a write alone.
"""

import asyncio
import functools
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, cast

import httptools
import orjson
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from bench import mongo, page, servers
from bench.__main__ import environment, load
from bench.load import percentile
from bench.peerlist import PEERS
from bench.processes import HOST, cpu_seconds, share_out
from bench.servers import Server
from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.schema.catalog.merchants import MERCHANT

SECRET = "the secret of the bench, which signs the writer's token"  # noqa: S105 - of no other use
RESTOCK = """
mutation ($input: RestockInput!) { restock(input: $input) { __typename ... on StockPayload { product { sku } } } }
"""
console = Console(width=120)


@dataclass
class Seen:
    """What clients have seen in one run. Latencies are in seconds."""

    latencies: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    unanswered: int = 0  # clients without any answer

    def ms(self, share: float) -> float:
        return percentile(sorted(self.latencies), share) * 1_000 if self.latencies else float("nan")


class Client(asyncio.Protocol):
    """One connection that sends its next request when the response to the last one is complete."""

    def __init__(self, requests: Iterator[bytes], seen: Seen) -> None:
        self.requests = requests
        self.seen = seen
        self.answers = 0
        self.is_ending = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        if self.is_ending:
            self.end()
            return
        self.parser = httptools.HttpResponseParser(self)
        self.body = bytearray()
        self.sent_at = time.perf_counter()
        self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.answers += 1
        if self.parser.get_status_code() != 200 or b'"errors"' in self.body:  # noqa: PLR2004 - HTTP success
            self.seen.failures.append(self.body[:200].decode(errors="replace"))
        else:
            self.seen.latencies.append(time.perf_counter() - self.sent_at)
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.seen.failures.append(f"the server closed the connection: {exc}")
            self.end()

    def end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def opened(port: int, requests: Iterator[bytes], seen: Seen) -> Client:
    return (await asyncio.get_running_loop().create_connection(lambda: Client(requests, seen), HOST, port))[1]


async def run(port: int, seconds: float, *, readers: int = 0, writers: int = 0) -> tuple[Seen, Seen]:
    """Run so many readers and writers. Return what the readers and the writers have seen."""
    reading, writing = Seen(), Seen()
    clients = [await opened(port, pages(port), reading) for _ in range(readers)]
    clients += [await opened(port, restocks(port, f"P-{number:05}"), writing) for number in range(1, writers + 1)]
    for client in clients:
        client.send()
    await asyncio.sleep(seconds)
    for client in clients:
        client.seen.unanswered += not client.answers
        client.is_ending = True
    # Clients that have had no answer by now are counted, but a writer's first answer is worth waiting for.
    await asyncio.wait([client.done for client in clients], timeout=60)
    for client in clients:
        client.end()
        client.transport.abort()
    return reading, writing


def pages(port: int) -> Iterator[bytes]:
    request = page.request(port, "/graphql")
    while True:
        yield request


@functools.cache
def token() -> str:
    settings = Settings(jwt_secret=Secret(SECRET))
    return Authenticator(settings).issue("bench", [MERCHANT], now=SystemClock().now(), lasts=timedelta(hours=1))


def restocks(port: int, sku: str) -> Iterator[bytes]:
    """Yield requests that each add a unit of one product, as different operations."""
    for number in itertools.count():
        given = {"sku": sku, "quantity": 1, "idempotencyKey": f"{time.time_ns()}-{number}"}
        content = orjson.dumps({"query": RESTOCK, "variables": {"input": given}})
        headers = {
            "Host": f"{HOST}:{port}",
            **page.HEADERS,
            "Authorization": f"Bearer {token()}",
            "Content-Length": str(len(content)),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        yield f"POST /graphql HTTP/1.1\r\n{head}\r\n".encode() + content


def memory_mb(pid: int) -> float:
    """Return the most memory that a process has used since it started."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1_000


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]


def measure_crowds(server: Server, kind: str, counts: list[int], seconds: float) -> Table:
    """Measure clients of one kind, `readers` or `writers`."""
    headings = (kind, "a second", "CPU ms", "p50 ms", "p99 ms", "p99/p50", "failures", "no answer", "peak MB")
    table = Table(*headings)
    for count in counts:
        cpu, start = cpu_seconds(server.pid), time.perf_counter()
        both = uvloop.run(run(server.port, seconds, **{kind: count}))
        seen = both[("readers", "writers").index(kind)]
        took, cpu = time.perf_counter() - start, cpu_seconds(server.pid) - cpu
        p50, p99, answers = seen.ms(0.5), seen.ms(0.99), len(seen.latencies)
        figures = (answers / took, cpu * 1_000 / max(answers, 1), p50, p99, p99 / p50)
        shown = [f"{count}", *(f"{figure:,.2f}" for figure in figures)]
        table.add_row(*shown, f"{len(seen.failures)}", f"{seen.unanswered}", f"{memory_mb(server.pid):.0f}")
        for failure in sorted(set(seen.failures))[:3]:
            console.print(failure, markup=False)
    return table


def measure_writer(server: Server, counts: list[int], seconds: float) -> Table:
    table = Table(
        "readers", "writes", "write p50 ms", "write p99 ms", "read p50 ms", "share ms", "p50/share", "failures"
    )
    alone = uvloop.run(run(server.port, seconds, writers=1))[1].ms(0.5)
    for count in counts:
        reading, writing = uvloop.run(run(server.port, seconds, readers=count, writers=1))
        share = alone + (reading.ms(0.5) if count else 0.0)
        figures = (writing.ms(0.5), writing.ms(0.99), reading.ms(0.5), share, writing.ms(0.5) / share)
        shown = [f"{count}", f"{len(writing.latencies)}", *(f"{figure:,.2f}" for figure in figures)]
        table.add_row(*shown, f"{len(reading.failures) + len(writing.failures)}")
        for failure in sorted({*reading.failures, *writing.failures})[:3]:
            console.print(failure, markup=False)
    return table


def main(
    clients: Annotated[
        str, typer.Option(help="How many readers run at once, separated by commas.")
    ] = "1,16,64,256,1000",
    writers: Annotated[str, typer.Option(help="How many writers run at once.")] = "1,16,64,256,1000",
    readers: Annotated[str, typer.Option(help="How many readers run beside one writer.")] = "0,48,100",
    seconds: Annotated[float, typer.Option(help="The length of each run.")] = 8.0,
) -> None:
    """Measure how one worker shares itself between many clients."""
    cores = share_out()
    (peer,) = (found for found in PEERS if found.name == "portico")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        load(uri, folder)
        env = {**environment(uri), "PORTICO_JWT_SECRET": SECRET}
        server = stack.enter_context(servers.running(peer, cores.server, env, folder))
        if cores.rest is not None:
            os.sched_setaffinity(0, {cores.rest})
        uvloop.run(run(server.port, 2.0, readers=16))
        console.print(measure_crowds(server, "readers", numbers(clients), seconds))
        console.print(measure_crowds(server, "writers", numbers(writers), seconds))
        console.print(measure_writer(server, numbers(readers), seconds))


if __name__ == "__main__":
    typer.run(main)
