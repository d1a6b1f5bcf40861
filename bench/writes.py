"""`python -m bench.writes`: measure each write beside one multi-document transaction with the same effect.

Portico gets each write as a mutation over HTTP. The transaction is sent with PyMongo, with the read concern `snapshot`
and the write concern `majority`. It has no HTTP, no GraphQL, no checks of the input and no idempotency. One gateway has
a core of its own; MongoDB and the clients of both sides share the other one. Both sides work in turns, in several
rounds, on the same server.

* At one client, nobody contends: the latency is what one caller waits for.
* At 64 clients, all write to one document, e.g. to the account that everybody pays.
* The CPU time of a write is that of the gateway, or of the process that sends the transactions, and of mongod.
* The commands are those on collections, with commits and aborts. What a gateway sends after its answer is counted.
* Where PostgreSQL is installed, it is a witness of what hot accounts cost; see `bench.postgres`.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import typer
from pymongo import AsyncMongoClient, MongoClient
from rich.console import Console
from rich.table import Table

from bench import mongo, postgres, report
from bench.adventurers import DATABASE, World
from bench.buyers import SECONDS_TO_ANSWER, SECRET
from bench.connections import Connections
from bench.game import create_collections
from bench.processes import Cores, cpu_seconds, share_out
from bench.shop import serving
from bench.write_cases import BY_ZIPF, EVEN, cases
from bench.write_scene import Pair, Prepare, Scene
from portico.resolvers.documents import Document

RESULTS = Path(__file__).parent / "results" / "writes.json"
PORTICO, TRANSACTION = "portico", "transaction"
_COUNTED = ("abortTransaction", "aggregate", "commitTransaction", "delete", "find", "findAndModify", "insert", "update")
# A gateway has finished what it sends after its answers.
_SECONDS_AFTER = 0.3
_WARMUP = 4

console = Console(width=170)


@dataclass(frozen=True)
class Size:
    """The rounds, and the writes of each client in a round, by the number of clients.

    Before the first round, each client makes as many writes to fill the caches, but no more than `_WARMUP`.
    `witness` is for how many seconds PostgreSQL makes transfers of each kind.
    """

    rounds: dict[int, int]
    writes: dict[int, int]
    witness: int


# Transactions on one document take long: they collide, and the driver repeats them.
FULL = Size(rounds={1: 6, 64: 2}, writes={1: 50, 64: 2}, witness=10)
QUICK = Size(rounds={1: 2, 64: 1}, writes={1: 8, 64: 1}, witness=2)


@dataclass(frozen=True)
class Sample:
    """Times are in milliseconds, those of the CPU for each write."""

    p50_ms: float
    p99_ms: float
    rate: float
    client_cpu_ms: float
    mongod_cpu_ms: float
    commands: float


class Side:
    """One side of a comparison. `pid` is the process that sends the commands."""

    def __init__(self, uri: str, pid: int) -> None:
        self._client: MongoClient[Document] = MongoClient(uri)
        self._pids = (pid, int(self._client.admin.command("serverStatus")["pid"]))
        self._times: list[float] = []
        self._seconds = 0.0
        self._used = [0.0, 0.0]
        self._commands = 0

    def close(self) -> None:
        self._client.close()

    async def run(self, work: Sequence[Sequence[Callable[[], Awaitable[Any]]]], *, is_counted: bool) -> None:
        """Run the writes of all clients, each client's one after the other."""
        before, commands, began = self._cpu(), self._all_commands(), time.perf_counter()
        times = [one for part in await asyncio.gather(*map(_timed, work)) for one in part]
        seconds = time.perf_counter() - began
        await asyncio.sleep(_SECONDS_AFTER)
        if is_counted:
            self._times += times
            self._seconds += seconds
            self._commands += self._all_commands() - commands
            self._used = [was + now - then for was, now, then in zip(self._used, self._cpu(), before, strict=True)]

    def sample(self) -> Sample:
        cuts, count = quantiles(self._times, n=100, method="inclusive"), len(self._times)
        client, mongod = (used * 1000 / count for used in self._used)
        return Sample(
            p50_ms=median(self._times) * 1000,
            p99_ms=cuts[98] * 1000,
            rate=count / self._seconds,
            client_cpu_ms=client,
            mongod_cpu_ms=mongod,
            commands=self._commands / count,
        )

    def _cpu(self) -> list[float]:
        return [cpu_seconds(pid) for pid in self._pids]

    def _all_commands(self) -> int:
        counted = self._client.admin.command("serverStatus")["metrics"]["commands"]
        return sum(int(counted[name]["total"]) for name in _COUNTED)


async def _timed(writes: Sequence[Callable[[], Awaitable[Any]]]) -> list[float]:
    times = []
    for write in writes:
        began = time.perf_counter()
        await write()
        times.append(time.perf_counter() - began)
    return times


@dataclass(frozen=True)
class Bench:
    """A running gateway, and the driver for the transactions."""

    scene: Scene
    uri: str
    gateway: int

    async def compare(self, prepare: Prepare, size: Size, clients: int) -> dict[str, Sample]:
        """Measure one write on both sides, in turns."""
        share, rounds = size.writes[clients], size.rounds[clients]
        warmup = min(share, _WARMUP)
        count = share * rounds + warmup
        pairs = [await prepare(self.scene, client, count) for client in range(clients)]
        with closing(Side(self.uri, self.gateway)) as one, closing(Side(self.uri, os.getpid())) as other:
            await self._round(one, other, pairs, range(warmup), is_counted=False)
            for number in range(rounds):
                numbers = range(warmup + number * share, warmup + (number + 1) * share)
                await self._round(one, other, pairs, numbers, is_counted=True)
            return {PORTICO: one.sample(), TRANSACTION: other.sample()}

    async def _round(self, one: Side, other: Side, pairs: Sequence[Pair], numbers: range, *, is_counted: bool) -> None:
        await one.run([[_call(pair, at) for at in numbers] for pair in pairs], is_counted=is_counted)
        by_hand = [[_transaction(self.scene, pair, at) for at in numbers] for pair in pairs]
        await other.run(by_hand, is_counted=is_counted)


def _call(pair: Pair, number: int) -> Callable[[], Awaitable[Any]]:
    return lambda: pair.portico(number)


def _transaction(scene: Scene, pair: Pair, number: int) -> Callable[[], Awaitable[Any]]:
    return lambda: scene.transact(lambda session: pair.by_hand(number, session))


async def measure(bench: Bench, size: Size, names: Sequence[str], say: Callable[[str], None]) -> list[dict[str, Any]]:
    rows = []
    for clients in size.writes:
        # Each number of clients gets documents of its own.
        for name, prepare in cases(f"{clients} clients").items():
            if (names and name not in names) or (clients == 1 and name in (EVEN, BY_ZIPF)):
                continue
            say(f"{name}, {clients} clients")
            samples = await bench.compare(prepare, size, clients)
            ratio = samples[PORTICO].p50_ms / samples[TRANSACTION].p50_ms
            sides = {who: _rounded(sample) for who, sample in samples.items()}
            rows.append({"write": name, "clients": clients, "ratio": round(ratio, 2), **sides})
    return rows


def _rounded(sample: Sample) -> dict[str, float]:
    return {name: round(value, 2) for name, value in asdict(sample).items()}


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    for clients in dict.fromkeys(row["clients"] for row in result["writes"]):
        title = "Nobody contends" if clients == 1 else f"{clients} clients at one document"
        table = Table(title=f"{title}: portico / transaction", title_justify="left")
        table.add_column("")
        headings = ("p50 ms", "ratio", "p99 ms", "a second", "CPU ms: client", "CPU ms: mongod", "commands")
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in (row for row in result["writes"] if row["clients"] == clients):
            names = ("p50_ms", "p99_ms", "rate", "client_cpu_ms", "mongod_cpu_ms", "commands")
            cells = [f"{row[PORTICO][name]:,.1f} / {row[TRANSACTION][name]:,.1f}" for name in names]
            table.add_row(row["write"], cells[0], f"{row['ratio']:.2f}", *cells[1:])
        console.print(table)
    if result["kept"]:
        parts = ", ".join(f"{who} {part:.0%}" for who, part in result["kept"].items())
        console.print(f"By Zipf, the rate of transfers between any accounts becomes: {parts}.")


async def run(size: Size, cores: Cores, names: Sequence[str]) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        await create_collections(uri)
        port, pid = stack.enter_context(serving(cores.server, environment(uri, folder)))
        world = stack.enter_context(closing(World(uri)))
        http = stack.enter_context(closing(Connections(port, SECONDS_TO_ANSWER)))
        status = stack.enter_context(console.status("preparing"))
        async with AsyncMongoClient[Document](uri) as client:
            version = (await client.server_info())["version"]
            rows = await measure(Bench(Scene(http, world, client), uri, pid), size, names, status.update)
    is_spread = {EVEN, BY_ZIPF} <= {row["write"] for row in rows}
    kept = _kept(rows, postgres.rates(cores, max(size.writes), size.witness)) if is_spread else {}
    return report.measured(mongodb=version, settings=asdict(size), writes=rows, kept=kept)


def _kept(rows: Sequence[dict[str, Any]], witness: dict[str, float] | None) -> dict[str, float]:
    """Return which part of its rate each side keeps if a few accounts have most of the transfers."""
    found = {row["write"]: row for row in rows if row["clients"] > 1}
    kept = {who: found[BY_ZIPF][who]["rate"] / found[EVEN][who]["rate"] for who in (PORTICO, TRANSACTION)}
    if witness is not None:
        kept["postgres"] = witness["Zipf"] / witness["even"]
    return {who: round(part, 2) for who, part in kept.items()}


def environment(uri: str, folder: Path) -> dict[str, str]:
    return {
        "PORTICO_MONGODB_URI": uri,
        "PORTICO_DATABASE": DATABASE,
        "PORTICO_JWT_SECRET": SECRET,
        "PORTICO_DATA_DIR": str(folder),
        "PORTICO_LOG_LEVEL": "error",
        "PORTICO_SOCIAL_RATE": "1000000",
        # The jobs have nothing to do here, and their commands would be counted as the writes'.
        "PORTICO_JOB_SECONDS": "86400",
    }


def main(
    write: Annotated[list[str] | None, typer.Option(help="Only these writes. Their figures are not stored.")] = None,
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/writes.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run few writes as a check, and do not store them.")] = False,
) -> None:
    """Measure each write beside one multi-document transaction."""
    size = QUICK if quick else FULL
    target = json or (None if quick or write else RESULTS)
    report.publish(lambda: asyncio.run(run(size, share_out(), write or ())), target, show)


if __name__ == "__main__":
    typer.run(main)
