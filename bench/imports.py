"""`python -m bench.imports`: measure `portico import products` beside `insert_many` and then the same indexes.

The driver inserts the documents that the import has stored, from memory, with the write concern `majority`, and then
creates the indexes. It checks nothing. The import runs three times: into an empty collection; again, without a change;
and with every product changed. Then the driver changes the same fields of its own documents, by `_id` and without a
guard: that is what MongoDB alone needs for these indexes. MongoDB has a core of its own, and by default the cache that
the embedded MongoDB has on a machine with 16 GB: changes of many products take twice as long if it is too small.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from pymongo import MongoClient, UpdateOne, WriteConcern
from pymongo.collection import Collection
from rich.console import Console
from rich.table import Table

from bench import generated, mongo, report
from bench.large import product_lines
from bench.processes import cpu_seconds, share_out
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.documents import Document

DATABASE = "imports"
LEAST = "insert_many, then the indexes"
_BATCH = 1_000

console = Console(width=120)


def write_files(folder: Path, count: int) -> tuple[Path, Path, Path]:
    """Write the categories, the products, and the products with other prices. Return the files."""
    categories = generated.category_lines(random.Random(20_260_101))
    products = list(product_lines(count))
    dearer = [{**line, "pricing": {**line["pricing"], "list": {"amount": 5_000}}} for line in products]
    files = []
    for name, lines in (("categories", categories), ("products", products), ("dearer", dearer)):
        files.append(folder / f"{name}.jsonl")
        files[-1].write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return files[0], files[1], files[2]


class Runs:
    """Measures runs: the seconds that they take, and those of the CPU, of the client and of MongoDB."""

    def __init__(self, uri: str, folder: Path) -> None:
        self._environment = os.environ | {
            "PORTICO_MONGODB_URI": uri,
            "PORTICO_DATABASE": DATABASE,
            "PORTICO_DATA_DIR": str(folder),
            "PORTICO_LOG_LEVEL": "error",
        }
        with MongoClient[Document](uri) as client:
            self._pid: int = client.admin.command("serverStatus")["pid"]

    def measure(self, run: Callable[[], float]) -> dict[str, float]:
        cpu, begun = cpu_seconds(self._pid), time.perf_counter()
        client = run()
        seconds = time.perf_counter() - begun
        return {"seconds": seconds, "client_cpu": client, "mongod_cpu": cpu_seconds(self._pid) - cpu}

    def imported(self, subject: str, file: Path) -> float:
        """Import a file. Return the seconds of CPU that the command took."""
        before = os.times()
        command = [str(Path(sys.executable).with_name("portico")), "import", subject, str(file)]
        subprocess.run(command, check=True, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system


def by_driver(uri: str, work: Callable[[Collection[Document]], object]) -> float:
    """Do work on the driver's products. Return the seconds of CPU that this process took."""
    before = time.process_time()
    with MongoClient[Document](uri) as client:
        work(client["by_driver"].get_collection("products", write_concern=WriteConcern("majority")))
    return time.process_time() - before


def insert(collection: Collection[Document], products: list[Document]) -> None:
    for start in range(0, len(products), _BATCH):
        collection.insert_many(products[start : start + _BATCH], ordered=False)
    collection.create_indexes(list(PRODUCTS.indexes))


def update(collection: Collection[Document], products: list[Document], prices: dict[Any, Document]) -> None:
    """Set the parts of the prices that differ."""
    updates = []
    for product in products:
        before, after = product["pricing"], prices[product["_id"]]
        changes = {f"pricing.{name}": value for name, value in after.items() if before.get(name) != value}
        updates.append(UpdateOne({"_id": product["_id"]}, {"$set": changes}))
    for start in range(0, len(updates), _BATCH):
        collection.bulk_write(updates[start : start + _BATCH], ordered=False)


def run(count: int, cache_gb: float) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        cores = share_out()
        uri = stack.enter_context(mongo.running(cores.rest, cache_gb=cache_gb))
        categories, products, dearer = write_files(folder, count)
        runs = Runs(uri, folder)
        runs.imported("categories", categories)
        rows = {
            "first import": runs.measure(lambda: runs.imported("products", products)),
            "nothing changes": runs.measure(lambda: runs.imported("products", products)),
        }
        with MongoClient[Document](uri) as client:
            stored = list(client[DATABASE]["products"].find({}))
            rows["every product changes"] = runs.measure(lambda: runs.imported("products", dearer))
            prices = {one["_id"]: one["pricing"] for one in client[DATABASE]["products"].find({}, {"pricing": 1})}
            # The driver gets the whole cache, too.
            client.drop_database(DATABASE)
        rows[LEAST] = runs.measure(lambda: by_driver(uri, lambda products: insert(products, stored)))
        rows["the same changes by the driver"] = runs.measure(
            lambda: by_driver(uri, lambda products: update(products, stored, prices))
        )
    return report.measured(products=count, cache_gb=cache_gb, imports=rows)


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    rows = result["imports"]
    least = rows[LEAST]["seconds"]
    title = f"{result['products']:,} products, a cache of {result['cache_gb']:g} GB"
    table = Table("", "seconds", "ratio", "CPU: client", "CPU: mongod", title=title)
    for name, row in rows.items():
        cells = (row["seconds"], row["seconds"] / least, row["client_cpu"], row["mongod_cpu"])
        table.add_row(name, *(f"{cell:.2f}" for cell in cells))
    console.print(table)


def main(
    products: Annotated[int, typer.Option(min=1, help="The number of products.")] = 100_000,
    cache_gb: Annotated[float, typer.Option(min=0.25, help="The size of MongoDB's cache.")] = 4.0,
    json: Annotated[Path | None, typer.Option(help="The file for the figures. Default: none.")] = None,
) -> None:
    """Measure imports of products beside the driver."""
    report.publish(lambda: run(products, cache_gb), json, show)


if __name__ == "__main__":
    typer.run(main)
