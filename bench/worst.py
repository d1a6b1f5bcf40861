"""`python -m bench.worst`: what the worst operations within the default limits cost, on 300,000 objects a domain.

Each operation repeats a part under as many aliases as the limits allow. The gateway runs in this process. For each
operation it prints the CPU seconds of the gateway and of MongoDB, the commands, the index keys and the documents that
MongoDB examines, the bytes of the answer, and by how much the memory of this process grows at the peak.
"""

import asyncio
import gc
import random
import re
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from graphql import Lexer, Source, TokenKind
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from rich.console import Console
from rich.table import Table

from bench import mongo, report, worst_data
from bench.processes import cpu_seconds
from bench.worst_operation import Operation
from bench.worst_operations import operations
from portico.gateway.domains import load
from portico.gateway.mongo.driver import connect
from portico.gateway.operations.documents import InvalidOperation
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database, Document
from portico.resolvers.indexes import create_indexes
from portico.resolvers.writes.retries import attempts
from portico.schema.roles import Role
from portico.testing import Gateway, running
from portico.testing.gateways import SECRET

PROFILE_BYTES = 200_000_000
_NAMESPACE_EXISTS = 48
# The database has room for what the operations read, as in production.
CACHE_GB = 3.0
# For the fill: much memory to sort the keys of indexes, and as many of them at a time as there are.
OPTIONS = ("--setParameter", "maxIndexBuildMemoryUsageMegabytes=1000", "--wiredTigerJournalCompressor", "none")
# What a filled database has been filled with.
FILLED = "bench.filled"
# The most seconds that one command of the fill can take.
FILL_SECONDS = 1_800
READS = ("find", "aggregate", "getMore", "count", "distinct")

console = Console(width=150)


@dataclass
class Cost:
    """What one operation costs. CPU times are seconds, `peak` is megabytes."""

    times: int
    caller: str = ""
    gateway: float = 0.0
    mongod: float = 0.0
    commands: int = 0
    keys: int = 0
    documents: int = 0
    bytes: int = 0
    peak: float = 0.0
    codes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def cpu(self) -> float:
        return self.gateway + self.mongod

    @property
    def examined(self) -> int:
        return self.keys + self.documents


def most(gateway: Gateway, operation: Operation) -> int:
    """Returns under how many aliases the limits allow the part, at least once."""
    low, high, step = 1, operation.most, 1
    # Only what is about as large as the result is parsed: the search begins at an estimate.
    middle = min(high, max(2, _estimate(gateway, operation)))
    while low < high:
        if _allows(gateway, operation, middle):
            low, middle = middle, min(high, middle + step)
        else:
            high = middle - 1
            middle = max(low + 1, high - step + 1)
        step *= 2
    return low


def _estimate(gateway: Gateway, operation: Operation) -> int:
    """Returns how many parts may reach the limit of the cost or of the tokens, given what the second part adds."""
    limits = gateway.settings.max_cost, gateway.settings.max_tokens
    try:
        sizes = [_sizes(gateway, operation, times) for times in (1, 2)]
    except InvalidOperation:
        return 1
    added = [second - first for first, second in zip(*sizes, strict=True)]
    return 1 + min(
        int((limit - size) / more) for limit, size, more in zip(limits, sizes[0], added, strict=True) if more
    )


def _sizes(gateway: Gateway, operation: Operation, times: int) -> tuple[float, int]:
    """Returns the cost and the number of the tokens."""
    known, text = gateway.state.executor.operations, operation.text(times)
    _, cost = known.check(known.get(text), None, operation.given(times))
    lexer, tokens = Lexer(Source(text)), 0
    while lexer.advance().kind is not TokenKind.EOF:
        tokens += 1
    return cost, tokens


def _allows(gateway: Gateway, operation: Operation, times: int) -> bool:
    known = gateway.state.executor.operations
    try:
        found = known.get(operation.text(times))
        known.check(found, None, operation.given(times))
    except InvalidOperation:
        return False
    return True


async def _create_profile(db: Database) -> None:
    """Creates an empty collection for the profiler. A command that ends meanwhile, e.g. of a job, creates it, too."""
    async for _ in attempts(100, steps=100):
        await db["system.profile"].drop()
        try:
            await db.create_collection("system.profile", check_exists=False, capped=True, size=PROFILE_BYTES)
        except OperationFailure as error:
            if error.code != _NAMESPACE_EXISTS:
                raise
        else:
            return
    raise RuntimeError("The profiler of MongoDB does not stop.")


async def _wait_for_reads(db: Database) -> None:
    """Waits until no command runs in the database. One whose answer nobody awaits runs on for a while."""
    running = {
        "active": True,
        "op": {"$in": ["query", "command", "getmore"]},
        "ns": {"$regex": rf"^{re.escape(db.name)}\."},
        # A change stream waits for changes all the time.
        "cursor.awaitData": {"$ne": True},
    }
    async for _ in attempts(100):
        cursor = await db.client.admin.aggregate([{"$currentOp": {}}, {"$match": running}, {"$limit": 1}])
        if not await cursor.to_list():
            return
    raise RuntimeError("A command does not end.")


async def examine(gateway: Gateway, operation: Operation, times: int) -> Cost:
    """Runs an operation once with the profiler of MongoDB. Returns what was read and answered.

    The profiler shows a command when it ends. An operation that ends early, because its answer is too large, leaves
    commands behind, which are counted as its own and not as those of the next one.
    """
    cost = Cost(times)
    db = gateway.db
    await db.command("profile", 0)
    await _wait_for_reads(db)
    await _create_profile(db)
    await db.command("profile", 2)
    await run(gateway, operation, times, cost)
    await _wait_for_reads(db)
    await db.command("profile", 0)
    async for entry in db["system.profile"].find({"ns": {"$not": {"$regex": "system.profile$"}}}):
        if entry["op"] in {"query", "command", "getmore"} and _is_read(entry["command"]):
            cost.commands += 1
            cost.keys += entry.get("keysExamined", 0)
            cost.documents += entry.get("docsExamined", 0)
    return cost


def _is_read(command: Document) -> bool:
    """Returns whether the profiler shows a read. It stores a long command as the beginning of its text."""
    begun: str | None = command.get("$truncated")
    return any(name in command if begun is None else begun.startswith(f"{{ {name}: ") for name in READS)


async def run(gateway: Gateway, operation: Operation, times: int, cost: Cost) -> None:
    token = (
        None
        if operation.caller is None
        else gateway.token(operation.caller[0], [Role(name) for name in operation.caller[1:]])
    )
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    body = {"query": operation.text(times), "variables": operation.given(times)}
    answer = await gateway.http.post("/graphql", json=body, headers=headers)
    cost.bytes = len(answer.content)
    cost.codes = sorted({error["extensions"]["code"] for error in answer.json().get("errors", ())})
    cost.errors = [error["message"] for error in answer.json().get("errors", ())][:3]


async def measure(gateway: Gateway, operation: Operation, times: int, mongod: int) -> Cost:
    """Returns all costs of an operation. CPU is measured without the profiler, in a run of its own."""
    begun, begun_there, memory = time.process_time(), cpu_seconds(mongod), _peak()
    timed = Cost(times)
    await run(gateway, operation, times, timed)
    taken, taken_there, peak = time.process_time() - begun, cpu_seconds(mongod) - begun_there, _peak() - memory
    cost = await examine(gateway, operation, times)
    cost.gateway, cost.mongod, cost.peak, cost.caller = taken, taken_there, peak, operation.called_by
    return cost


def _peak() -> float:
    """Returns the most memory that this process has had since the last call, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return peak / 1_000


async def run_all(uri: str, folder: Path, size: int, chosen: str, mongod: int) -> dict[str, Cost]:
    settings = Settings(
        mongodb_uri=Secret(uri),
        database="worst",
        data_dir=folder,
        jwt_secret=SECRET,
        jobs=False,
        log_level="error",
        # Nothing is kept from one request to the next.
        count_seconds=1e-6,
    )
    found = {}
    known = await fill(settings, uri, size)
    async with running(settings) as gateway:
        # As `portico serve` does when it starts.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        for name, operation in operations(known, size).items():
            if chosen in name:
                found[name] = await measure(gateway, operation, most(gateway, operation), mongod)
                console.print(name, found[name], highlight=False, soft_wrap=True)
    return found


async def fill(settings: Settings, uri: str, size: int) -> dict[str, str]:
    """Fills the database, and then creates the indexes: MongoDB sorts the keys of an index faster than it inserts them.

    The domains are filled at the same time. Those that an earlier run has filled stay as they are.
    """
    # While Python works, the driver cannot look after its connections.
    connection = connect(replace(settings, database_seconds=FILL_SECONDS), f"{uri}&connectTimeoutMS=600000")
    db, begun = connection.database, time.monotonic()
    collections = {domain.name: list(domain.collections) for domain in load().all}

    async def one(domain: str) -> None:
        for spec in collections[domain]:
            await db[spec.name].drop()
        known = await worst_data.PARTS[domain](db, size, random.Random(worst_data.SEED))
        console.print(f"{time.monotonic() - begun:4.0f} s: {domain} filled")
        async for _ in create_indexes(db, collections[domain]):
            pass
        await db[FILLED].insert_one({"_id": {"domain": domain, "size": size}, "known": dict(known)})
        console.print(f"{time.monotonic() - begun:4.0f} s: {domain} indexed")

    try:
        if await db[FILLED].find_one({"_id.size": {"$ne": size}}):
            await db.client.drop_database(db.name)
        done = {found["_id"]["domain"] async for found in db[FILLED].find()}
        async with asyncio.TaskGroup() as group:
            for domain in worst_data.PARTS.keys() - done:
                group.create_task(one(domain))
        await db.client.admin.command("fsync")
        return {name: key async for found in db[FILLED].find() for name, key in found["known"].items()}
    finally:
        await connection.close()


def _pid_of(uri: str) -> int:
    with MongoClient[Document](uri) as client:
        pid: int = client.admin.command("serverStatus")["pid"]
        return pid


def figures(costs: Mapping[str, Cost], size: int) -> dict[str, Any]:
    """Returns the figures to store, the dearest operation first."""
    ordered = sorted(costs.items(), key=lambda one: -one[1].cpu)
    return report.measured(size=size, operations=[{"operation": name, **asdict(cost)} for name, cost in ordered])


def show(found: Mapping[str, Any]) -> None:
    """Prints the figures as a table."""
    counts, times = ("commands", "keys", "documents", "bytes"), ("gateway", "mongod")
    table = Table("operation", "caller", "parts", *(f"{name} s" for name in times), *counts, "peak MB")
    for row in found["operations"]:
        cells = [row["operation"], row["caller"], f"{row['times']:,}", *(f"{row[name]:.2f}" for name in times)]
        table.add_row(*cells, *(f"{row[name]:,}" for name in counts), f"{row['peak']:.0f}")
    console.print(table)


def main(
    size: Annotated[int, typer.Option(min=1, help="The number of objects of each domain.")] = 300_000,
    chosen: Annotated[str, typer.Option("--only", help="Only operations whose names contain this.")] = "",
    data: Annotated[
        Path | None, typer.Option(help="A folder for the filled database. The next run with it needs no fill.")
    ] = None,
    target: Annotated[Path | None, typer.Option("--json", help="Where to store the figures.")] = None,
) -> None:
    """Measure what the worst operations within the default limits cost."""

    def measured() -> dict[str, Any]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
            server = mongo.running(None, folder=data, cache_gb=CACHE_GB, options=OPTIONS)
            uri = stack.enter_context(server)
            return figures(asyncio.run(run_all(uri, folder, size, chosen, _pid_of(uri))), size)

    report.publish(measured, target, show)


if __name__ == "__main__":
    typer.run(main)
