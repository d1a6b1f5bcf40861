"""The data that the bench loads: categories and exactly 5,000 products, as JSON Lines for Portico's importers.

If the shared data folder exists, the data is real: albums, films and groceries. Values that a source lacks (prices of
albums and films, aspect ratios, issue dates) are generated with a fixed seed. Without the folder, all data is
generated.

A category line is {"slug", "name", "parent"?: slug}, parents before their children. A product line is {"sku", "type",
"title", "description"?, "pricing": {"list": money, "retail": money}, "categories": [slug], "properties": [{"name",
"value"}], "issueDate", "details"}; money is {"amount": cents, "currency"}.
"""

import os
import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from bench import generated, sources

PRODUCTS = 5_000
NEWEST = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=137, milliseconds=211)

Line = dict[str, Any]


class Files(NamedTuple):
    """The two files for `portico import`."""

    categories: Path
    products: Path
    origin: str  # the origin of the data, for the report


def shared_folder() -> Path:
    """Return the folder of the real data sets, which may not exist."""
    beside_project = Path(__file__).parents[2] / "shared" / "data"
    return Path(os.environ.get("PORTICO_SHARED_DATA", beside_project))


def in_turn(groups: Iterable[list[Line]]) -> Iterator[Line]:
    """Yield an album, a film, a general product, and so on, so that every page has all types."""
    return (line for line in chain.from_iterable(zip_longest(*groups)) if line is not None)


def finish(lines: Iterator[Line]) -> Iterator[Line]:
    """Number the products, newest first. The dates are distinct, so the order by date is total."""
    for number, line in zip(range(PRODUCTS), lines, strict=False):
        issued = (NEWEST - number * STEP).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        yield {"sku": f"P-{number + 1:05}", **line, "issueDate": issued}


def write(path: Path, lines: Iterable[Line]) -> int:
    """Write one JSON object per line. Return how many."""
    count = 0
    with path.open("wb") as file:
        for line in lines:
            file.write(orjson.dumps(line) + b"\n")
            count += 1
    return count


def make(folder: Path) -> Files:
    """Write both files into the folder. The same sources always give the same bytes."""
    rng = random.Random(20_260_101)
    shared = shared_folder()
    real = sources.present(shared)
    categories, groups = sources.read(shared, rng, PRODUCTS) if real else generated.make(rng, PRODUCTS)
    for group in groups:
        rng.shuffle(group)
    files = Files(folder / "categories.jsonl", folder / "products.jsonl", "shared data sets" if real else "generated")
    write(files.categories, categories)
    if (count := write(files.products, finish(in_turn(groups)))) != PRODUCTS:
        message = f"the data sources yield {count} products, not {PRODUCTS}"
        raise RuntimeError(message)
    return files
