"""`python -m bench.subscribers`: measure what one event costs with many subscribers, and how long it takes to arrive.

One gateway has a core of its own. MongoDB and the clients share the other core. All clients subscribe to the comments
of one discussion, anonymously or each with a token of its own, and with the same selection or each with its own.
"""

import asyncio
import math
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import httpx
import orjson
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from bench import mongo, report
from bench.buyers import SECONDS_TO_ANSWER, SECRET
from bench.listeners import Case, Client, Deliveries, client_of
from bench.peerlist import BIN, ROOT
from bench.processes import HOST, Cores, cpu_seconds, free_port, share_out, spawn, stop
from bench.shop import product, wait_for
from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.schema.kinds import Kind
from portico.schema.roles import Role

RESULTS = Path(__file__).parent / "results" / "subscribers.json"
FILES = 16_000
# How many clients connect at the same time.
_CONNECTING = 200
_WARMUP = 3
# The CPU seconds that an idle gateway uses at most in a second.
_RESTING = 0.03
_POST = """mutation ($input: PostCommentInput!) {
  postComment(input: $input) { ... on CommentPayload { comment { id } } } }"""
_OPEN = """mutation ($input: OpenDiscussionInput!) {
  openDiscussion(input: $input) { ... on DiscussionPayload { discussion { id } } } }"""

console = Console()


FULL = (
    *(Case(protocol, clients) for protocol in ("ws", "sse") for clients in (1_000, 5_000)),
    Case("ws", 5_000, signed_in=True),
    Case("ws", 1_000, different=True),
)
QUICK = (Case("ws", 100), Case("sse", 100))


@dataclass(frozen=True)
class Sample:
    """The result of one case. Times are in milliseconds.

    `cpu_us` is the CPU time of the gateway for one delivery, in microseconds, without the time for the post. `post_ms`
    and `last_ms` are the times from sending a post to its response, and to the last delivery. `other_ms` is the longest
    time of another request during the deliveries. `kb` is the memory of the gateway for one client, in kilobytes.
    """

    clients: int
    cpu_us: float
    post_ms: float
    last_ms: float
    slowest_ms: float
    other_ms: float
    kb: float


@contextmanager
def gateway(uri: str, core: int | None, folder: Path) -> Iterator[tuple[int, int]]:
    """Start a gateway on that core, and yield its port and its process id."""
    port = free_port()
    env = {
        "PORTICO_MONGODB_URI": uri,
        "PORTICO_DATABASE": "bench",
        "PORTICO_JWT_SECRET": SECRET,
        "PORTICO_DATA_DIR": str(folder),
        "PORTICO_LOG_LEVEL": "error",
        "PORTICO_JOB_SECONDS": "86400",
        # Pings would be counted as deliveries.
        "PORTICO_KEEP_ALIVE_SECONDS": "600",
        "PORTICO_INIT_SECONDS": "60",
    }
    products = folder / "products.jsonl"
    products.write_bytes(orjson.dumps(product(0)))
    subprocess.run(
        [BIN / "portico", "import", "products", products], env=os.environ | env, check=True, stdout=subprocess.DEVNULL
    )
    command = [str(BIN / "portico"), "serve", "--host", HOST, "--port", str(port)]
    process = spawn(command, core, env=env, cwd=ROOT)
    try:
        wait_for(port, process)
        yield port, process.pid
    finally:
        stop(process)


def memory(pid: int) -> int:
    """Return the resident memory of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


class Bench:
    """A running gateway with a discussion."""

    def __init__(self, http: httpx.AsyncClient, port: int, pid: int, events: int) -> None:
        self._http = http
        self._port = port
        self._pid = pid
        self._events = events
        self._issuer = Authenticator(Settings(jwt_secret=Secret(SECRET)))
        self._token = self.token("poster", [Role.ADMIN])
        self._posted = 0
        self.discussion = ""

    def token(self, subject: str, roles: list[Role]) -> str:
        return self._issuer.issue(subject, roles, now=SystemClock().now(), lasts=timedelta(hours=1))

    async def ask(self, text: str, given: dict[str, Any]) -> Any:
        body = {"query": text, "variables": {"input": given}}
        headers = {"authorization": f"Bearer {self._token}"}
        answer = (await self._http.post("/graphql", json=body, headers=headers)).json()
        if "errors" in answer:
            raise RuntimeError(str(answer["errors"]))
        return answer["data"]

    async def open(self) -> None:
        opened = await self.ask(_OPEN, {"subjectId": Kind.encode_id("Product", "bench-0")})
        self.discussion = opened["openDiscussion"]["discussion"]["id"]

    async def post(self, deliveries: Deliveries, clients: int) -> tuple[float, float]:
        """Post a comment. Return the milliseconds until the response, and until the last delivery."""
        self._posted += 1
        marker = f"event-{self._posted}-end"
        deliveries.expect(marker.encode(), clients)
        begun = time.perf_counter()
        text = f"{'A comment of ordinary length. ' * 6} {marker}"
        await self.ask(_POST, {"discussionId": self.discussion, "text": text})
        answered = time.perf_counter()
        if clients:
            await deliveries.wait()
        return 1e3 * (answered - begun), 1e3 * (time.perf_counter() - begun)

    async def post_cpu(self) -> float:
        """Return the CPU seconds of one post without subscribers."""
        begun = cpu_seconds(self._pid)
        for _ in range(50):
            await self.post(Deliveries(), 0)
        return (cpu_seconds(self._pid) - begun) / 50

    async def connect(self, case: Case, deliveries: Deliveries) -> list[Client]:
        loop = asyncio.get_running_loop()
        clients: list[Client] = []
        for first in range(0, case.clients, _CONNECTING):
            numbers = range(first, min(first + _CONNECTING, case.clients))
            made = [
                client_of(
                    case,
                    number,
                    self.discussion,
                    self.token(f"reader-{number}", []) if case.signed_in else None,
                    deliveries,
                )
                for number in numbers
            ]
            await asyncio.gather(*(loop.create_connection(factory(one), HOST, self._port) for one in made))
            await asyncio.gather(*(one.is_ready for one in made))
            clients += made
        return clients

    async def measure(self, case: Case, post_cpu: float) -> Sample:
        deliveries = Deliveries()
        before = memory(self._pid)
        clients = await self.connect(case, deliveries)
        used = memory(self._pid) - before
        for _ in range(_WARMUP):
            await self.post(deliveries, case.clients)
        begun = cpu_seconds(self._pid)
        times = [await self.post(deliveries, case.clients) for _ in range(self._events)]
        cpu = cpu_seconds(self._pid) - begun - self._events * post_cpu
        other = [await self.other(deliveries, case.clients) for _ in range(3)]
        for client in clients:
            client.transport.abort()
        await self.rest()
        return Sample(
            case.clients,
            1e6 * cpu / (self._events * case.clients),
            statistics.median(answered for answered, _ in times),
            statistics.median(last for _, last in times),
            max(last for _, last in times),
            max(other),
            used / case.clients / 1e3,
        )

    async def rest(self) -> None:
        """Wait until the gateway has closed what belongs to the clients that have left."""
        used = math.inf
        while used > _RESTING:
            begun = cpu_seconds(self._pid)
            await asyncio.sleep(1)
            used = cpu_seconds(self._pid) - begun

    async def other(self, deliveries: Deliveries, clients: int) -> float:
        """Return the longest time of another request while an event is delivered, in milliseconds."""
        posting = asyncio.create_task(self.post(deliveries, clients))
        longest = 0.0
        while not posting.done():
            begun = time.perf_counter()
            await self._http.post("/graphql", json={"query": "{ viewer { subject } }"})
            longest = max(longest, 1e3 * (time.perf_counter() - begun))
        await posting
        return longest


def factory(client: Client) -> Callable[[], Client]:
    return lambda: client


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    table = Table(title="one event", title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("clients", "CPU µs a delivery", "post ms", "last ms", "slowest ms", "other ms", "kB a client"):
        table.add_column(heading, justify="right")
    for row in result["rows"]:
        names = ("cpu_us", "post_ms", "last_ms", "slowest_ms", "other_ms", "kb")
        table.add_row(row["case"], str(row["clients"]), *(f"{row[name]:.1f}" for name in names))
    console.print(table)


async def run(cases: tuple[Case, ...], events: int, cores: Cores) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        port, pid = stack.enter_context(gateway(uri, cores.server, folder))
        if cores.rest is not None:
            os.sched_setaffinity(0, {cores.rest})
        rows = []
        async with httpx.AsyncClient(base_url=f"http://{HOST}:{port}", timeout=SECONDS_TO_ANSWER) as http:
            bench = Bench(http, port, pid, events)
            await bench.open()
            post_cpu = await bench.post_cpu()
            for case in cases:
                with console.status(f"{case.name}, {case.clients:,} clients"):
                    sample = await bench.measure(case, post_cpu)
                rows.append({"case": case.name, **{name: round(value, 2) for name, value in asdict(sample).items()}})
        return report.measured(events=events, post_cpu_ms=round(1e3 * post_cpu, 2), rows=rows)


def main(
    clients: Annotated[int, typer.Option(min=0, help="Measure only this number of clients. 0: all cases.")] = 0,
    events: Annotated[int, typer.Option(min=1, help="The number of events of each case.")] = 10,
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/subscribers.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run a short check, and do not store it.")] = False,
) -> None:
    """Measure what one event costs with many subscribers."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES if hard == resource.RLIM_INFINITY else min(FILES, hard), hard))
    cases = QUICK if quick else tuple(case for case in FULL if clients in {0, case.clients})
    target = json or (None if quick or clients else RESULTS)
    report.publish(lambda: uvloop.run(run(cases, events, share_out())), target, show)


if __name__ == "__main__":
    typer.run(main)
