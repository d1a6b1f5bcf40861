"""`python -m bench.operations`: measure the cost of operations in the gateway, compiled and by the reference executor.

It measures the CPU time from the text of an operation to the bytes of its answer, in one process and without HTTP. The
two executors take turns, block by block, so that other work on the machine affects both.
"""

import asyncio
import itertools
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import orjson
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from bench import dataset, mongo, report
from bench.__main__ import load
from bench.processes import share_out
from portico.gateway import domains
from portico.gateway.clock import SystemClock
from portico.gateway.live import Counts, Hub
from portico.gateway.mongo.driver import connect
from portico.gateway.operations.execution import Executor
from portico.gateway.operations.json_text import encode
from portico.gateway.operations.responses import Response
from portico.gateway.settings import ExecutorName, Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.cursors import Cursors
from portico.resolvers.served import Served
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.context import Caller, Context

RESULTS = Path(__file__).parent / "results" / "operations.json"
EXECUTORS: tuple[ExecutorName, ...] = ("compiled", "reference")
PAGE = (Path(__file__).parent / "page.graphql").read_text()
DEEP = """
{
  categories(first: 10) {
    nodes { slug products(first: 5) { nodes { title categories { name breadcrumbs { slug name } } } } }
  }
}
"""
FLAT = """
{ products(first: 100) { nodes { id sku title description issueDate nonce pricing { retail { amount } pctSavings } } } }
"""
SINGLE = """query ($sku: String!) { product(sku: $sku) { title pricing { retail { amount currency } } } }"""
MUTATION = """
mutation ($input: RenameCategoryInput!) {
  renameCategory(input: $input) { __typename ... on CategoryPayload { category { id name breadcrumbs { name } } } }
}
"""
console = Console()

Variables = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """An operation. `requests` yields the text and variables of each request."""

    name: str
    requests: Iterator[tuple[str, Variables]]
    block: int = 20


class Bench:
    """Both executors, on one database."""

    def __init__(self, settings: Settings, uri: str) -> None:
        self._connection = connect(settings, uri)
        self._served = Served(domains.load(), domains.base_resources(settings, domains.load()))
        self._served.resources[Cursors] = Cursors(b"bench")
        self._executors = {name: Executor(domains.schema_of(self._served.domains), settings) for name in EXECUTORS}
        for name, executor in self._executors.items():
            executor.name = name

    async def ask(self, name: ExecutorName, text: str, variables: Variables) -> bytes:
        db = self._connection.database
        caller = Caller("bench", frozenset({MERCHANT}))
        clock = SystemClock()
        context = Context(
            db=db,
            reading=db,
            caller=caller,
            started=clock.now(),
            clock=clock.now,
            request_id="bench",
            selections={},
            served=self._served,
            live=Hub(db, (), Counts(), max_waiting=1),
            keys_kept=timedelta(days=1),
        )
        response = await self._executors[name].execute(text, variables=variables, name=None, context=context)
        assert isinstance(response, Response), text
        if "errors" in response.payload:
            raise RuntimeError(response.payload["errors"])
        return encode(response.payload)

    async def measure(self, operation: Operation, blocks: int) -> dict[str, float]:
        """Return the CPU time per request in milliseconds, by executor: the median of the blocks."""
        times: dict[str, list[float]] = {name: [] for name in EXECUTORS}
        for number in range(blocks + 1):
            for name in EXECUTORS:
                requests = list(itertools.islice(operation.requests, operation.block))
                start = time.process_time()
                for text, variables in requests:
                    await self.ask(name, text, variables)
                if number:
                    times[name].append((time.process_time() - start) * 1_000 / operation.block)
        return {name: median(found) for name, found in times.items()}

    async def require_same_answers(self, operation: Operation) -> None:
        """Raise RuntimeError if the answers of the executors differ."""
        text, variables = next(operation.requests)
        first, second = [await self.ask(name, text, variables) for name in EXECUTORS]
        if first != second:
            message = f"{operation.name}: the executors differ"
            raise RuntimeError(message)

    async def category_id(self) -> str:
        answer = orjson.loads(await self.ask("compiled", "{ categories { nodes { id } } }", {}))
        found: str = answer["data"]["categories"]["nodes"][0]["id"]
        return found

    async def close(self) -> None:
        await self._connection.close()


def operations(category_id: str) -> list[Operation]:
    skus = (f"P-{number:05}" for number in itertools.cycle(range(1, dataset.PRODUCTS + 1)))
    names = ({"input": {"id": category_id, "name": f"Name {number // 2}"}} for number in itertools.count())
    return [
        Operation("page: 20 products with categories and breadcrumbs", itertools.repeat((PAGE, {}))),
        Operation("deep: categories, products, categories, breadcrumbs", itertools.repeat((DEEP, {})), block=5),
        Operation("flat: 100 products, 8 fields", itertools.repeat((FLAT, {}))),
        Operation("single: one product", ((SINGLE, {"sku": sku}) for sku in skus), block=100),
        Operation("mutation: rename a category", ((MUTATION, names_of) for names_of in names)),
        Operation("1,000 different pages in turn", different_pages(), block=100),
    ]


def different_pages() -> Iterator[tuple[str, Variables]]:
    """Yield pages with different texts, so that no cache helps."""
    for number in itertools.count():
        yield PAGE.replace("products(", f"page{number}: products("), {}


async def measure_memory(
    bench: Bench, mixed: list[Operation], count: int, say: Callable[[str], None]
) -> dict[int, float]:
    """Return the memory in use, in megabytes, after increasing numbers of mixed operations."""
    rng = random.Random(1)
    found: dict[int, float] = {}
    for number in range(1, count + 1):
        text, variables = next(rng.choice(mixed).requests)
        await bench.ask("compiled", text, variables)
        if number in {count // 100, count // 10, count // 2, count}:
            found[number] = memory()
            say(f"{number:,} operations: {found[number]:.0f} MB")
    return found


def memory() -> float:
    status = Path("/proc/self/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(resident.split()[1]) / 1024


async def run(uri: str, blocks: int, mixed: int) -> dict[str, Any]:
    bench = Bench(Settings(mongodb_uri=Secret(uri), database="bench"), uri)
    try:
        asked = operations(await bench.category_id())
        rows = []
        for operation in asked:
            if operation.name.split(":")[0] != "mutation":
                await bench.require_same_answers(operation)
            figures = await bench.measure(operation, blocks)
            rows.append({"operation": operation.name, **figures, "ratio": figures["compiled"] / figures["reference"]})
            console.print(rows[-1], highlight=False)
        kept = await measure_memory(bench, asked, mixed, console.print) if mixed else {}
        return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "operations": rows, "memory_mb": kept}
    finally:
        await bench.close()


def main(
    blocks: Annotated[int, typer.Option(min=1, help="The number of blocks for each executor.")] = 30,
    memory_of: Annotated[int, typer.Option("--memory", help="Then measure the memory over this many operations.")] = 0,
    json: Annotated[Path, typer.Option(help="The file for the figures.")] = RESULTS,
) -> None:
    """Measure different operations on both executors."""
    cores = share_out()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        try:
            load(uri, folder)
        except subprocess.SubprocessError as error:
            console.print(f"{error}", style="red", markup=False)
            raise typer.Exit(1) from error
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            figures = runner.run(run(uri, blocks, memory_of))
    report.write(json, figures)
    table = Table("operation", "compiled ms", "reference ms", "ratio")
    for row in figures["operations"]:
        table.add_row(row["operation"], *(f"{row[name]:.2f}" for name in (*EXECUTORS, "ratio")))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
