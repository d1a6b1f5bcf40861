"""The load generator, a separate process: `python -m bench.load`, with a list of jobs as JSON on the command line.

The jobs take turns of a tenth of a second or so: the speed of a machine that is shared with others changes by the
second, and then it changes for all of them. In a turn, each connection stays open, and sends its next request when
the last response is complete. Responses must have the expected status and length. The bench has already compared
their bytes.
"""

import asyncio
import http.client
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import cast

import httptools
import orjson
import uvloop

from bench import page
from bench.processes import HOST, cpu_ns, cpu_seconds, kernel_seconds, tree

# The requests of a turn, and those before them that are not measured: the server before has emptied the core's caches.
IN_A_TURN = 120
WARMUP_OF_A_TURN = 16


@dataclass(frozen=True)
class Job:
    port: int
    path: str
    pid: int  # the server's, to read its CPU time
    length: int  # bytes of a response's body
    connections: int
    warmup: int  # requests that are sent before the first turn
    requests: int  # over all connections
    tag: str = ""  # of an answer that the client has: the server says that it is still the same


@dataclass(frozen=True)
class Sample:
    """The result of one run. Times are in milliseconds."""

    cpu_ms: float  # a request, in the server's processes
    rate: float  # requests a second
    p50_ms: float
    p99_ms: float
    busy: float  # the server's share of one core
    kernel: float  # the share of its CPU time that the kernel used, for sockets above all


class Counter:
    """The number of requests that are left, and the latency of each request, in seconds."""

    def __init__(self, requests: int) -> None:
        self.left = requests
        self.latencies: list[float] = []


class Connection(asyncio.Protocol):
    """One keep-alive connection. `run` sends requests until the counter has none left."""

    def __init__(self, request: bytes, length: int, status: int) -> None:
        self.request = request
        self.length = length
        self.status = status
        self.parser = httptools.HttpResponseParser(self)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def run(self, counter: Counter) -> asyncio.Future[None]:
        self.counter = counter
        self.done = asyncio.get_running_loop().create_future()
        if self.transport.is_closing():
            self.fail("the server closed the connection before it was used")
        else:
            self.send()
        return self.done

    def send(self) -> None:
        if self.counter.left == 0:
            self.done.set_result(None)
            return
        self.counter.left -= 1
        self.received = 0
        self.sent_at = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.received += len(body)

    def on_message_complete(self) -> None:
        self.counter.latencies.append(time.perf_counter() - self.sent_at)
        status = self.parser.get_status_code()
        if status != self.status or self.received != self.length:
            self.fail(f"status {status}, {self.received} bytes instead of {self.length}")
            return
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(f"the server closed the connection: {exc}")

    def fail(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(reason))


def percentile(ordered: list[float], share: float) -> float:
    """Return the percentile by nearest rank."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


class Measurement:
    """What the turns of a job have used."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.processes = tree(job.pid)
        self.left = job.requests
        self.latencies: list[float] = []
        self.cpu = 0  # ns
        self.seconds = 0.0
        self.begun = self.used()

    def used(self) -> tuple[float, float]:
        """Return the seconds of CPU of the server since its start, and those in the kernel, which only ticks tell."""
        return cpu_seconds(self.job.pid), kernel_seconds(self.job.pid)

    async def warm_up(self) -> None:
        """Send the requests before the first turn."""
        async with connected(self.job) as connections:
            await send(connections, self.job.warmup)
        self.begun = self.used()

    async def take_turn(self) -> None:
        """Send some of the requests that are left."""
        count = min(self.left, IN_A_TURN)
        async with connected(self.job) as connections:
            await send(connections, WARMUP_OF_A_TURN)
            cpu, start = cpu_ns(self.processes), time.perf_counter()
            self.latencies += await send(connections, count)
            self.seconds += time.perf_counter() - start
            self.cpu += cpu_ns(self.processes) - cpu
        self.left -= count

    def sample(self) -> Sample:
        requests, ordered = self.job.requests, sorted(self.latencies)
        cpu, kernel = (now - then for now, then in zip(self.used(), self.begun, strict=True))
        return Sample(
            cpu_ms=self.cpu / 1e6 / requests,
            rate=requests / self.seconds,
            p50_ms=percentile(ordered, 0.50) * 1_000,
            p99_ms=percentile(ordered, 0.99) * 1_000,
            busy=self.cpu / 1e9 / self.seconds,
            kernel=kernel / cpu if cpu else 0.0,
        )


@asynccontextmanager
async def connected(job: Job) -> AsyncIterator[list[Connection]]:
    """Open the connections of a job, and close them at the end."""
    loop = asyncio.get_running_loop()
    request = page.request(job.port, job.path, job.tag)
    status = http.client.NOT_MODIFIED if job.tag else http.client.OK
    pairs = [
        await loop.create_connection(lambda: Connection(request, job.length, status), HOST, job.port)
        for _ in range(job.connections)
    ]
    try:
        yield [connection for _, connection in pairs]
    finally:
        for transport, _ in pairs:
            transport.close()


async def send(connections: list[Connection], requests: int) -> list[float]:
    """Send requests over all connections together. Return their latencies in seconds."""
    counter = Counter(requests)
    await asyncio.gather(*(connection.run(counter) for connection in connections))
    return counter.latencies


async def measure(jobs: list[Job]) -> list[Sample]:
    """Warm up, then let the jobs take turns until each has sent its requests. Return a sample for each."""
    measurements = [Measurement(job) for job in jobs]
    for one in measurements:
        await one.warm_up()
    while left := [one for one in measurements if one.left]:
        for one in left:
            await one.take_turn()
    return [one.sample() for one in measurements]


def main() -> None:
    """Run the jobs, and print their samples as JSON."""
    jobs = [Job(**job) for job in orjson.loads(sys.argv[1])]
    sys.stdout.buffer.write(orjson.dumps([asdict(sample) for sample in uvloop.run(measure(jobs))]))


if __name__ == "__main__":
    main()
