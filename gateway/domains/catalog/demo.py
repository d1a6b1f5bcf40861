"""The demo's catalog: a small record and film shop, which can be multiplied for load tests."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from portico.gateway.demo.loading import Demo

FOLDER = Path(__file__).parent / "data"
CATEGORIES = FOLDER / "categories.jsonl"
PRODUCTS = FOLDER / "products.jsonl"


async def load(demo: Demo) -> None:
    await demo.load_files("categories", [CATEGORIES])
    await demo.load_files("products", multiplied(demo.size, demo.folder))


def multiplied(times: int, folder: Path) -> list[Path]:
    """Returns the product files of a demo of this size. Copies have their own SKUs, titles, slugs and prices."""
    if times == 1:
        return [PRODUCTS]
    path = folder / "demo-products.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as out:
        for copy in range(1, times):
            for product in products():
                out.write(orjson.dumps(_copy(product, copy)) + b"\n")
    return [PRODUCTS, path]


def products() -> Iterator[dict[str, Any]]:
    """Yields the products in the demo's file."""
    with PRODUCTS.open("rb") as lines:
        yield from (orjson.loads(line) for line in lines)


def _copy(product: dict[str, Any], number: int) -> dict[str, Any]:
    pricing = {
        name: {**price, "amount": price["amount"] + number % 7 * 100} for name, price in product["pricing"].items()
    }
    return {
        **product,
        "sku": f"{product['sku']}-{number}",
        "title": f"{product['title']} ({number})",
        "slug": f"{product['slug']}-{number}",
        "pricing": pricing,
    }
