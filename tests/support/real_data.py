"""Real data sets as import records: category trees of two shops, films, albums, groceries and comments."""

from __future__ import annotations

import html
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

from bench import sources
from bench.dataset import shared_folder
from tests.support.harness import IS_SOAK

T = TypeVar("T")
Line = dict[str, Any]


def rows(name: str) -> list[Line]:
    """Returns the records of a set. Skips the test if the set does not exist."""
    path = shared_folder() / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} does not exist. Set PORTICO_SHARED_DATA to use another folder.")
    return list(sources.rows(path))


def write(path: Path, lines: list[Line]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


def electronics_categories() -> list[Line]:
    """Returns the categories of an electronics shop. One has no name, so its id is its name."""
    return [
        {"slug": row["id"], "name": row["name"] or row["id"], "parent": row["parentId"]}
        for row in rows("bestbuy_categories")
    ]


def some(records: Iterable[T], of: int) -> list[T]:
    """Returns every n-th record for n = `of`, and others in each run. In a soak, returns all of them."""
    found = list(records)
    return found if IS_SOAK else found[random.randrange(of) :: of]


@dataclass(frozen=True)
class Catalog:
    """The lines to import, and the source record of each product, by SKU."""

    categories: list[Line]
    products: list[Line]
    films: dict[str, Line]
    albums: dict[str, Line]
    groceries: dict[str, Line]

    def below(self, products: Iterable[Line]) -> Counter[str]:
        """Returns how many of the products are in each category or below it."""
        parents = {one["slug"]: one.get("parent") for one in self.categories}
        found: Counter[str] = Counter()
        for product in products:
            above = set()
            for own in product["categories"]:
                slug = own
                while slug is not None:
                    above.add(slug)
                    slug = parents[slug]
            found.update(above)
        return found

    def some(self, of: int) -> Catalog:
        """Returns every n-th product for n = `of`, and others in each run. In a soak, returns all of them."""
        products = some(self.products, of)
        skus = {one["sku"] for one in products}
        kept = ({sku: rows[sku] for sku in rows if sku in skus} for rows in (self.films, self.albums, self.groceries))
        return Catalog(self.categories, products, *kept)


def catalog() -> Catalog:
    """Returns all albums, films and groceries, in categories by genre, decade and department."""
    rng = random.Random(1)
    tree = sources.Tree()
    for row in rows("grocery_categories"):
        parent = sources.slug(row["parentId"]) if row["parentId"] else None
        tree.add(sources.slug(row["id"]), row["name"], parent)
    films = {f"film-{row['href']}"[:100]: row for row in rows("films")}
    albums = {f"album-{row['AlbumId']}": row for row in rows("music_albums")}
    groceries = {f"grocery-{row['product_id']}": row for row in rows("grocery_products")}
    products = [
        *({"sku": sku, **sources.film(row, tree, rng), "issueDate": issued(row)} for sku, row in films.items()),
        *({"sku": sku, **sources.album(row, tree, rng)} for sku, row in albums.items()),
        *({"sku": sku, **sources.grocery(row, rng)} for sku, row in groceries.items()),
    ]
    return Catalog(list(tree.lines.values()), products, films, albums, groceries)


def issued(film: Line) -> str:
    return f"{film['year']}-01-01T00:00:00.000Z"


# The storage of each real thread. The threads have 1,428, 541, 492 and 146 comments.
THREADS = {"t3_n49rw": "PAGES", "t3_3hahrw": "PAGES", "t3_fo7p5b": "DOCUMENTS", "t3_57dw9a": "EMBEDDED"}
LONG_THREADS = {"t3_n49rw", "t3_fo7p5b"}


def discussions() -> list[Line]:
    """Returns all comments of four real threads, on products with the names of the threads."""
    return [
        {
            "product": row["link_id"],
            "id": row["name"],
            "parent": row["parent_id"] if row["parent_id"] != row["link_id"] else None,
            "author": row["author"],
            "posted": _instant(row["created_utc"]),
            "edited": _instant(row["edited"]) if row["edited"] else None,
            "text": html.unescape(row["body"]),
            "storage": THREADS[row["link_id"]],
        }
        for row in rows("reddit_comments")
    ]


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
