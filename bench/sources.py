"""Categories and products from real data sets: albums, films and groceries."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

Line = dict[str, Any]

FILES = ("music_albums.jsonl", "films.jsonl", "grocery_products.jsonl", "grocery_categories.jsonl")
GROCERIES = 2_000
ASPECT_RATIOS = ("1.33:1", "1.85:1", "2.39:1")

NAME = r"([A-Z][\w'\u2019-]+(?: [A-Z]\.)?(?: [A-Z][\w'\u2019-]+){1,2})"
DIRECTED = re.compile(rf"directed by {NAME}")
WRITTEN = re.compile(rf"written (?:and directed )?by {NAME}")


def present(folder: Path) -> bool:
    """Return whether all data sets exist."""
    return all((folder / name).is_file() for name in FILES)


def rows(path: Path) -> Iterator[Line]:
    with path.open("rb") as file:
        yield from map(orjson.loads, file)


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def pricing(retail: int, rng: random.Random) -> Line:
    """Return the prices in cents. The list price is up to 50% above the retail price."""
    listed = retail + rng.randrange(retail // 2 + 1)
    return {
        "list": {"amount": listed, "currency": "USD"},
        "retail": {"amount": retail, "currency": "USD"},
    }


class Tree:
    """The category lines, in order, parents first."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}

    def add(self, key: str, name: str, parent: str | None = None) -> str:
        """Add a category, unless it exists. Return its slug."""
        line = {"slug": key, "name": name} | ({"parent": parent} if parent else {})
        return str(self.lines.setdefault(key, line)["slug"])


def album(row: Line, tree: Tree, rng: random.Random) -> Line:
    genres = tree.add("music-genres", "Genres", tree.add("music", "Music"))
    return {
        "type": "Audio Album",
        "title": row["Title"],
        "pricing": pricing(rng.randrange(599, 1_999), rng),
        "categories": [tree.add(f"music-{slug(name)}", name, genres) for name in row["Genres"]],
        "properties": [{"name": "medium", "value": row["Tracks"][0]["MediaType"]}],
        "details": {
            "artist": row["Artist"],
            "genres": row["Genres"],
            "tracks": [track["Name"] for track in row["Tracks"]],
        },
    }


def film(row: Line, tree: Tree, rng: random.Random) -> Line:
    """Return a film. Its director and writer are the first ones that its extract names."""
    root = tree.add("films", "Films")
    genres = tree.add("film-genres", "Genres", root)
    decades = tree.add("film-decades", "Decades", root)
    decade = f"{row['year'] // 10 * 10}s"
    own = [tree.add(f"films-{slug(name)}", name, genres) for name in row["genres"]]
    return {
        "type": "Film",
        "title": row["title"],
        "description": row["extract"],
        "pricing": pricing(rng.randrange(399, 2_499), rng),
        "categories": [*own, tree.add(f"films-{decade}", decade, decades)],
        "properties": [{"name": "year", "value": str(row["year"])}],
        "details": {
            "directors": DIRECTED.findall(row["extract"])[:1],
            "writers": WRITTEN.findall(row["extract"])[:1],
            "actors": row["cast"],
            "genres": row["genres"],
            "aspectRatio": rng.choice(ASPECT_RATIOS),
        },
    }


def grocery(row: Line, rng: random.Random) -> Line:
    package = {"package": row["package_size"]} if row["package_size"] else {}
    return {
        "type": row["product_category"],
        "title": " ".join([row["product_type"], *package.values()]),
        "pricing": pricing(max(round(row["median_unit_price"] * 100), 1), rng),
        "categories": [slug(row["categoryId"])],
        "properties": [{"name": "brand", "value": row["brand"]}],
        "details": {"department": row["department"], "manufacturer": row["manufacturer_id"], **package},
    }


def read(folder: Path, rng: random.Random, count: int) -> tuple[list[Line], list[list[Line]]]:
    """Return the categories and the products by type: all albums, 2,000 groceries, and films up to `count` products."""
    tree = Tree()
    for row in rows(folder / "grocery_categories.jsonl"):
        tree.add(slug(row["id"]), row["name"], slug(row["parentId"]) if row["parentId"] else None)
    albums = [album(row, tree, rng) for row in rows(folder / "music_albums.jsonl")]
    groceries = [grocery(row, rng) for row in rng.sample(list(rows(folder / "grocery_products.jsonl")), GROCERIES)]
    chosen = rng.sample(list(rows(folder / "films.jsonl")), count - len(albums) - GROCERIES)
    films = [film(row, tree, rng) for row in chosen]
    return list(tree.lines.values()), [albums, films, groceries]
