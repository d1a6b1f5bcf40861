"""The demo's own data: a small record and film shop, which can be multiplied for load."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

FOLDER = Path(__file__).parent / "shop"
CATEGORIES = FOLDER / "categories.jsonl"
PRODUCTS = FOLDER / "products.jsonl"


def multiplied(times: int, folder: Path) -> list[Path]:
    """The product files of a demo so many times as large. Copies have SKUs, titles and prices of their own."""
    if times == 1:
        return [PRODUCTS]
    path = folder / "demo-products.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as out:
        for copy in range(1, times):
            for product in _products():
                out.write(orjson.dumps(_copy(product, copy)) + b"\n")
    return [PRODUCTS, path]


def _products() -> Iterator[dict[str, Any]]:
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
        "pricing": pricing,
    }
