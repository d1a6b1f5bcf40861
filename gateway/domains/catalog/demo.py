"""The demo's catalog: a small record and film shop, which can be multiplied for load tests."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from portico.gateway.demo.loading import Demo
from portico.resolvers.catalog.image_edits import ImageRecord, ImageRules, import_images
from portico.resolvers.documents import Database
from portico.resolvers.pictures import Picture

FOLDER = Path(__file__).parent / "data"
CATEGORIES = FOLDER / "categories.jsonl"
PRODUCTS = FOLDER / "products.jsonl"
_MAX_BYTES = 1_000_000


async def load(demo: Demo) -> None:
    await demo.load_files("categories", [CATEGORIES])
    await demo.load_files("products", multiplied(demo.size, demo.folder))
    drawn = await add_covers(demo.db, now=demo.now)
    demo.say(f"images: {drawn:,} covers")


async def add_covers(db: Database, *, now: datetime) -> int:
    """Draws the missing covers of products and categories. Returns how many there are. May be repeated."""
    from .covers import SIZE, draw_cover  # noqa: PLC0415 - only the demo needs Pillow

    titles = {("Product", product["sku"]): product["title"] for product in products()}
    with CATEGORIES.open("rb") as lines:
        titles |= {("Category", one["slug"]): one["name"] for one in map(orjson.loads, lines)}
    records = [
        ImageRecord(kind, name, f"Cover of {title}" if kind == "Product" else title, _drawn(draw_cover, name))
        for (kind, name), title in titles.items()
    ]
    await import_images(db, records, rules=ImageRules(_MAX_BYTES, _Covers(SIZE)), now=now)
    return len(records)


def _drawn(draw: Callable[[str], bytes], name: str) -> Callable[[], AsyncIterator[bytes]]:
    async def read() -> AsyncIterator[bytes]:
        yield await asyncio.to_thread(draw, name)

    return read


class _Covers:
    """Knows the covers without decoding them: this module draws them."""

    def __init__(self, size: int) -> None:
        self._size = size

    def recognizes(self, beginning: bytes) -> bool:
        return beginning.startswith(b"\x89PNG")

    async def examine(self, data: AsyncIterator[bytes]) -> Picture:  # noqa: ARG002 - it is known
        return Picture("image/png", self._size, self._size)

    async def thumbnail(self, data: AsyncIterator[bytes], width: int) -> bytes:
        raise NotImplementedError


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
