"""`python -m bench.shop`: measure how many carts are filled and sold per second, and what slows that down.

One gateway has a core of its own. MongoDB and the buyers share the other core. Each buyer pays from a separate account
to the shop's single account.
"""

import asyncio
import http.client
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from bench import mongo, report
from bench.buyers import (
    SECONDS_TO_ANSWER,
    SECRET,
    Buyer,
    Database,
    Operation,
    Sample,
    crowd,
    key,
    run_concurrently,
    watching,
)
from bench.connections import Connections
from bench.peerlist import BIN, ROOT
from bench.processes import HOST, Cores, free_port, share_out, spawn, stop

RESULTS = Path(__file__).parent / "results" / "shop.json"
SECONDS_TO_START = 60
PLENTY = 1_000_000_000

console = Console()


@dataclass(frozen=True)
class Settings:
    """The size of the measurements. `operations` is the total of all clients of a crowd."""

    operations: int
    clients: tuple[int, ...]
    lines: tuple[int, ...]
    reservations: tuple[int, ...]
    skus: int = 100


FULL = Settings(operations=640, clients=(1, 16, 64), lines=(1, 5, 20), reservations=(10, 1_000, 10_000))
QUICK = Settings(operations=64, clients=(1, 16, 64), lines=(1, 5), reservations=(10, 100), skus=64)


@contextmanager
def gateway(uri: str, core: int | None, folder: Path) -> Iterator[int]:
    """Start a gateway on that core, and yield its port."""
    env = {
        "PORTICO_MONGODB_URI": uri,
        "PORTICO_DATABASE": "bench",
        "PORTICO_JWT_SECRET": SECRET,
        "PORTICO_DATA_DIR": str(folder),
        "PORTICO_LOG_LEVEL": "error",
        # The jobs have nothing to do here, and their commands would be counted as the buyers'.
        "PORTICO_JOB_SECONDS": "86400",
    }
    products = folder / "products.jsonl"
    products.write_bytes(b"\n".join(orjson.dumps(product(number)) for number in range(FULL.skus)))
    subprocess.run(
        [BIN / "portico", "import", "products", products], env=os.environ | env, check=True, stdout=subprocess.DEVNULL
    )
    with serving(core, env) as (port, _):
        yield port


@contextmanager
def serving(core: int | None, env: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Start a gateway on that core with these settings, and yield its port and its process id."""
    port = free_port()
    command = [str(BIN / "portico"), "serve", "--host", HOST, "--port", str(port)]
    process = spawn(command, core, env=env, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield port, process.pid
    finally:
        stop(process)


def product(number: int) -> dict[str, Any]:
    price = {"amount": 1000}
    return {"sku": sku(number), "type": "Bench", "title": f"N. {number}", "pricing": {"list": price, "retail": price}}


def sku(number: int) -> str:
    return f"bench-{number}"


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == http.client.OK:
                return
        except ConnectionError:
            pass
        finally:
            connection.close()
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the gateway did not start")
        time.sleep(0.05)


class Shop:
    """A running gateway with products in stock, and buyers who can pay."""

    def __init__(self, http: Connections, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings
        self.buyers = [Buyer(http, f"buyer-{number}") for number in range(max(settings.clients))]

    async def open(self) -> None:
        merchant = self.buyers[0]
        stocked = [{"sku": sku(n), "quantity": 2_000_000, "idempotencyKey": key()} for n in range(self.settings.skus)]
        await run_concurrently([partial(merchant.must, "restock", given) for given in stocked])
        await run_concurrently([partial(buyer.open_account, PLENTY) for buyer in self.buyers])

    def shares(self, clients: int) -> list[tuple[Buyer, int]]:
        """Return the buyers of a crowd, with the number of operations of each."""
        return [(buyer, max(self.settings.operations // clients, 1)) for buyer in self.buyers[:clients]]

    def skus(self, number: int, *, hot: bool, lines: int = 1) -> list[str]:
        """Return the SKUs of a cart. If `hot`, all carts have the same SKUs."""
        first = 0 if hot else number * lines
        return [sku((first + line) % self.settings.skus) for line in range(lines)]

    async def adding(self, clients: int, *, hot: bool) -> Sample:
        """Measure clients that repeatedly add to a cart of their own."""
        shares = self.shares(clients)
        carts = await run_concurrently([buyer.cart for buyer, _ in shares])
        return await crowd(
            self.database,
            [
                [(buyer, "addItemToCart", buyer.one_of(self.skus(number, hot=hot)[0], cart))] * operations
                for number, ((buyer, operations), cart) in enumerate(zip(shares, carts, strict=True))
            ],
        )

    async def selling(self, clients: int, *, hot: bool, lines: int = 1) -> Sample:
        """Measure clients that check out carts, which are filled before."""
        numbered = [
            (buyer, self.skus(number * operations + cart, hot=hot, lines=lines))
            for number, (buyer, operations) in enumerate(self.shares(clients))
            for cart in range(operations)
        ]
        carts = await run_concurrently([partial(buyer.cart, *skus) for buyer, skus in numbered])
        work: dict[int, list[Operation]] = {}
        for (buyer, _), cart in zip(numbered, carts, strict=True):
            work.setdefault(id(buyer), []).append((buyer, "checkout", buyer.payment_of(cart)))
        return await crowd(self.database, list(work.values()))

    async def reserve(self, count: int) -> None:
        """Put a unit of the hot SKU into this many carts, and leave them there."""
        await run_concurrently([partial(self.buyers[n % len(self.buyers)].cart, sku(0)) for n in range(count)])


async def measure(http: Connections, database: Database, settings: Settings, say: Any) -> dict[str, Any]:
    """Return every table, by its title."""
    shop = Shop(http, database, settings)
    await shop.open()
    # The first requests of a gateway fill its caches.
    await shop.selling(1, hot=False)
    tables: dict[str, list[dict[str, Any]]] = {}

    def keep(title: str, label: str, sample: Sample) -> None:
        tables.setdefault(title, []).append({"case": label, **asdict(sample)})
        say(f"{title}, {label}, {sample.clients} clients: {sample.rate:.0f} a second")

    for clients in settings.clients:
        for label, hot in (("one SKU", True), ("many SKUs", False)):
            keep("Adding to a cart", label, await shop.adding(clients, hot=hot))
            keep("Checking out a line", label, await shop.selling(clients, hot=hot))
    for lines in settings.lines:
        label = f"{lines} line{'s' if lines > 1 else ''}"
        keep("Checking out more lines", label, await shop.selling(16, hot=False, lines=lines))
    reserved = 0
    for wanted in settings.reservations:
        await shop.reserve(wanted - reserved)
        reserved = wanted
        for verb, work in (("add", shop.adding), ("sell", shop.selling)):
            keep("A SKU in many carts", f"{verb}, {wanted:,} carts", await work(1, hot=True))
    return tables


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    for title, rows in result["tables"].items():
        table = Table(title=title, title_justify="left")
        table.add_column("", no_wrap=True)
        for heading in ("clients", "a second", "p50 ms", "p99 ms", "commands", "refused"):
            table.add_column(heading, justify="right")
        for row in rows:
            figures = [f"{row['rate']:.0f}", f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}", f"{row['commands']:.1f}"]
            table.add_row(row["case"], str(row["clients"]), *figures, str(row["refused"]))
        console.print(table)


async def run(settings: Settings, cores: Cores) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        port = stack.enter_context(gateway(uri, cores.server, folder))
        database = stack.enter_context(watching(uri))
        status = stack.enter_context(console.status("preparing"))
        http = stack.enter_context(closing(Connections(port, SECONDS_TO_ANSWER)))
        tables = await measure(http, database, settings, status.update)
        return report.measured(mongodb=database.version(), settings=asdict(settings), tables=tables)


def main(
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/shop.json.")
    ] = None,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run few operations as a check, and do not store them.")
    ] = False,
) -> None:
    """Measure how fast carts are filled and sold."""
    size = QUICK if quick else FULL
    report.publish(lambda: asyncio.run(run(size, share_out())), json or (None if quick else RESULTS), show)


if __name__ == "__main__":
    typer.run(main)
