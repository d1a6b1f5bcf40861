"""`python -m bench.large`: measure the reads whose cost could grow with the collection, on 100,000 products.

One gateway runs in this process and sends one request after the other. For each operation it prints the median time of
an answer, the commands, and the index keys and documents that MongoDB examines for them, as `explain` counts them. The
gateway keeps no figures from one request to the next. The last row is asked by anonymous callers at the same time.

One word is in a third of the products, seven more words are in another third each, and no genre is in all three types.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench import generated, mongo, report
from bench.processes import share_out
from portico.gateway.domains.catalog.records import category_record, product_record
from portico.gateway.settings import Settings
from portico.resolvers.catalog.category_imports import import_categories
from portico.resolvers.catalog.product_imports import import_products
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.catalog.settings import CatalogSettings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database
from portico.resolvers.indexes import create_indexes
from portico.schema.catalog.merchants import MERCHANT
from portico.testing import Gateway, running
from portico.testing.gateways import SECRET

RESULTS = Path(__file__).parent / "results" / "large.json"
COMMON = ("blue", "night", "love", "live", "gold", "road", "heart", "time")
NEWEST = datetime(2026, 1, 1, tzinfo=UTC)
BATCH = 500
KINDS = ("Audio Album", "Film", "Grocery")
FACETS = "facets { types { value count } genres { value count } categories { value count } prices { min count } }"
ROWS = "nodes { sku title }"
OPERATIONS = {
    "a page of all products": f"{{ products {{ {ROWS} }} }}",
    "totalCount": "{ products(first: 1) { totalCount } }",
    "totalCount of a type": "{ products(first: 1, filter: { type: FILM }) { totalCount } }",
    "facets": f"{{ products(first: 1) {{ {FACETS} }} }}",
    "a word in a third": f'{{ products(filter: {{ search: "blue" }}) {{ {ROWS} }} }}',
    "a word in a third, by relevance": f'{{ products(filter: {{ search: "blue" }}, sort: RELEVANCE) {{ {ROWS} }} }}',
    "eight common words": f'{{ products(filter: {{ search: "{" ".join(COMMON)}" }}) {{ {ROWS} }} }}',
    "eight common words, by relevance": (
        f'{{ products(filter: {{ search: "{" ".join(COMMON)}" }}, sort: RELEVANCE) {{ {ROWS} }} }}'
    ),
    "a common and a rare word, by relevance": (
        f'{{ products(filter: {{ search: "blue needle-7" }}, sort: RELEVANCE) {{ {ROWS} }} }}'
    ),
    "a type and a genre that exclude each other": (
        f'{{ products(filter: {{ type: GENERAL, genres: ["half"] }}) {{ {ROWS} }} }}'
    ),
    "a price and a discount that exclude each other": (
        f"{{ products(filter: {{ minPrice: 1250, minPctSavings: 75 }}) {{ {ROWS} }} }}"
    ),
}
TOGETHER = 20

console = Console()


def product_lines(count: int) -> Iterator[dict[str, Any]]:
    """Yield products, newest first. The expensive half has little discount."""
    rng = random.Random(20_260_101)
    shelves = [line["slug"] for line in generated.category_lines(rng) if "shelf" in line["slug"]]
    for number in range(count):
        line = generated.product(KINDS[number % 3], shelves, rng)
        common = [word for word in COMMON if rng.random() < 1 / 3]
        rare = f"needle-{number}" if number < BATCH else ""
        price = rng.randrange(100, 2_500)
        retail = price - price * rng.randrange(20 if price > 1_250 else 90) // 100  # noqa: PLR2004
        if line["type"] != "Grocery":
            line["details"]["genres"] += ["Half"]
        yield {
            **line,
            "sku": f"L-{number}",
            "description": " ".join([*line["description"].split()[:20], *common, rare]),
            "pricing": {"list": {"amount": price}, "retail": {"amount": retail}},
            "issueDate": (NEWEST - timedelta(minutes=number)).isoformat().replace("+00:00", "Z"),
        }


async def load(db: Database, count: int) -> None:
    """Import the products, unless the database has some.

    The indexes that the import does not need are created afterwards, which takes a fraction of the time.
    """
    if await db[PRODUCTS.name].find_one({}) is not None:
        return
    now = datetime.now(UTC)
    categories = generated.category_lines(random.Random(20_260_101))
    await import_categories(db, [category_record(line) for line in categories], now=now)
    for name in await db[PRODUCTS.name].index_information():
        if name not in {"_id_", "sku_1"}:
            await db[PRODUCTS.name].drop_index(name)
    lines = product_lines(count)
    while batch := [product_record(line) for line in itertools.islice(lines, BATCH)]:
        await import_products(db, batch, now=now)
    async for _ in create_indexes(db, [PRODUCTS]):
        pass


async def measure(gateway: Gateway, text: str, times: int) -> dict[str, Any]:
    """Return the median milliseconds of an operation, its commands, and what MongoDB examines for them."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        await gateway.data(text)
        taken.append((time.perf_counter() - begun) * 1_000)
    gateway.commands.clear()
    await gateway.data(text)
    sent = [dict(command) for command in gateway.commands.sent]
    examined = [await examine(gateway.db, command) for command in sent]
    keys, documents = (sum(found) for found in zip(*examined, strict=True))
    return {"milliseconds": median(taken), "commands": len(sent), "keys": keys, "documents": documents}


async def examine(db: Database, command: dict[str, Any]) -> tuple[int, int]:
    """Return the index keys and the documents that MongoDB examines for a command."""
    left_out = ("lsid", "readConcern", "maxTimeMS")
    plain = {name: value for name, value in command.items() if name not in left_out and not name.startswith("$")}
    found = [await db.command("explain", part, verbosity="executionStats") for part in parts_of(plain)]
    return total(found, "totalKeysExamined"), total(found, "totalDocsExamined")


def parts_of(command: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a union as commands. `explain` does not count all parts of a union."""
    stages = command.get("pipeline", [])
    unions = [stage["$unionWith"]["pipeline"] for stage in stages if "$unionWith" in stage]
    own = [stage for stage in stages if "$unionWith" not in stage]
    return [{**command, "pipeline": part} for part in (own, *unions)] if unions else [command]


def total(explained: Any, name: str) -> int:
    """Return the sum of this number over all parts of a plan."""
    if isinstance(explained, list):
        return sum(total(part, name) for part in explained)
    if not isinstance(explained, dict):
        return 0
    if isinstance(explained.get(name), int):
        return int(explained[name])
    return sum(total(part, name) for key, part in explained.items() if key != "allPlansExecution")


async def together(gateway: Gateway) -> dict[str, Any]:
    """Return the milliseconds until each of several anonymous callers has the same facets, and their commands."""
    text = OPERATIONS["facets"].replace("first: 1", "first: 2")
    gateway.commands.clear()
    begun = time.perf_counter()
    await asyncio.gather(*(gateway.data(text, token=None) for _ in range(TOGETHER)))
    taken = (time.perf_counter() - begun) * 1_000
    return {"milliseconds": taken, "commands": gateway.commands.names().count("aggregate products")}


async def run(uri: str, products: int, times: int, most: int) -> dict[str, Any]:
    settings = Settings(
        slices={CatalogSettings: CatalogSettings(max_counted=most)},
        mongodb_uri=Secret(uri),
        database="large",
        jwt_secret=SECRET,
        jobs=False,
        log_level="error",
        # Nothing is kept from one request to the next.
        count_seconds=1e-6,
    )
    async with running(settings) as gateway:
        merchant = gateway.as_caller("merchant", MERCHANT)
        await load(gateway.db, products)
        rows = {}
        for name, text in OPERATIONS.items():
            rows[name] = await measure(merchant, text, times)
            console.print(name, rows[name], highlight=False)
        rows[f"facets, {TOGETHER} callers at once"] = await together(gateway)
        count = await gateway.db["products"].estimated_document_count()
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "products": count, "operations": rows}


def main(
    products: Annotated[int, typer.Option(min=1, help="The number of products.")] = 100_000,
    times: Annotated[int, typer.Option(min=1, help="The number of measurements of each operation.")] = 5,
    most: Annotated[int, typer.Option(min=1, help="`PORTICO_MAX_COUNTED`.")] = CatalogSettings.max_counted,
    uri: Annotated[str, typer.Option(help="A MongoDB that keeps the products. Default: a temporary one.")] = "",
    json: Annotated[Path, typer.Option(help="The file for the figures.")] = RESULTS,
) -> None:
    """Measure the reads whose cost could grow with the collection."""
    with ExitStack() as stack:
        found = uri or stack.enter_context(mongo.running(share_out().rest))
        figures = asyncio.run(run(found, products, times, most))
    report.write(json, figures)
    table = Table("operation", "ms", "commands", "keys", "documents", title=f"{figures['products']:,} products")
    for name, row in figures["operations"].items():
        table.add_row(
            name, f"{row['milliseconds']:.1f}", *(str(row.get(key, "")) for key in ("commands", "keys", "documents"))
        )
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
