"""The load generator, a separate process: `python -m bench.load`, with options as JSON on the command line.

Each connection stays open, and sends its next request when the last response is complete. Responses must have the
expected status and length. The bench has already compared their bytes.
"""

import asyncio
import http.client
import sys
import time
from dataclasses import asdict, dataclass
from typing import cast

import httptools
import orjson
import uvloop

from bench import page
from bench.processes import HOST, cpu_seconds, kernel_seconds


@dataclass(frozen=True)
class Job:
    port: int
    path: str
    pid: int  # the server's, to read its CPU time
    length: int  # bytes of a response's body
    connections: int
    warmup: int  # requests that are sent before the measured ones
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


async def open_connections(job: Job) -> list[Connection]:
    loop = asyncio.get_running_loop()
    request = page.request(job.port, job.path, job.tag)
    status = http.client.NOT_MODIFIED if job.tag else http.client.OK
    pairs = [
        await loop.create_connection(lambda: Connection(request, job.length, status), HOST, job.port)
        for _ in range(job.connections)
    ]
    return [connection for _, connection in pairs]


async def measure(job: Job) -> Sample:
    """Warm up, then measure."""
    connections = await open_connections(job)
    warmup, counter = Counter(job.warmup), Counter(job.requests)
    await asyncio.gather(*(connection.run(warmup) for connection in connections))
    cpu, kernel, start = cpu_seconds(job.pid), kernel_seconds(job.pid), time.perf_counter()
    await asyncio.gather(*(connection.run(counter) for connection in connections))
    seconds = time.perf_counter() - start
    cpu, kernel = cpu_seconds(job.pid) - cpu, kernel_seconds(job.pid) - kernel
    ordered = sorted(counter.latencies)
    return Sample(
        cpu_ms=cpu * 1_000 / job.requests,
        rate=job.requests / seconds,
        p50_ms=percentile(ordered, 0.50) * 1_000,
        p99_ms=percentile(ordered, 0.99) * 1_000,
        busy=cpu / seconds,
        kernel=kernel / cpu if cpu else 0.0,
    )


def main() -> None:
    """Run the job, and print the sample as JSON."""
    job = Job(**orjson.loads(sys.argv[1]))
    sys.stdout.buffer.write(orjson.dumps(asdict(uvloop.run(measure(job)))))


if __name__ == "__main__":
    main()
