"""Generates categories and products with a seed. They are about as long as the real ones."""

import random
from typing import Any

from bench.sources import ASPECT_RATIOS, pricing

Line = dict[str, Any]

STARTS = ("am", "bel", "cor", "del", "fen", "gar", "lan", "mer", "nor", "sil", "tor", "vel")
ENDS = ("ber", "dow", "low", "net", "ren", "van")
WORDS = [start + end for start in STARTS for end in ENDS]
DEPARTMENTS, SHELVES = 12, 20


def phrase(rng: random.Random, shortest: int, longest: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(shortest, longest))).title()


def phrases(rng: random.Random, fewest: int, most: int, words: int = 2) -> list[str]:
    return [phrase(rng, words, words) for _ in range(rng.randint(fewest, most))]


def category_lines(rng: random.Random) -> list[Line]:
    """Return categories in three levels: departments, aisles and shelves. Products belong to shelves."""
    lines: list[Line] = []
    for department in range(DEPARTMENTS):
        root = f"department-{department}"
        lines.append({"slug": root, "name": phrase(rng, 1, 2)})
        lines.append({"slug": f"{root}-aisle", "name": phrase(rng, 1, 2), "parent": root})
        lines += [
            {"slug": f"{root}-shelf-{shelf}", "name": phrase(rng, 1, 2), "parent": f"{root}-aisle"}
            for shelf in range(SHELVES)
        ]
    return lines


def details(kind: str, rng: random.Random) -> Line:
    if kind == "Audio Album":
        return {"artist": phrase(rng, 2, 2), "genres": phrases(rng, 1, 2, 1), "tracks": phrases(rng, 8, 14, 3)}
    if kind == "Film":
        return {
            "directors": phrases(rng, 1, 1),
            "writers": phrases(rng, 0, 2),
            "actors": phrases(rng, 3, 8),
            "genres": phrases(rng, 1, 3, 1),
            "aspectRatio": rng.choice(ASPECT_RATIOS),
        }
    return {
        "department": phrase(rng, 1, 1),
        "manufacturer": rng.randrange(1_000),
        "package": f"{rng.randint(1, 64)} OZ",
    }


def product(kind: str, shelves: list[str], rng: random.Random) -> Line:
    return {
        "type": kind,
        "title": phrase(rng, 2, 5),
        "description": phrase(rng, 40, 90),
        "pricing": pricing(rng.randrange(99, 2_499), rng),
        "categories": rng.sample(shelves, rng.randint(1, 3)),
        "properties": [{"name": "brand", "value": phrase(rng, 1, 1)}],
        "details": details(kind, rng),
    }


def make(rng: random.Random, count: int) -> tuple[list[Line], list[list[Line]]]:
    """Return the categories, and `count` products, a third of each type."""
    categories = category_lines(rng)
    shelves = [line["slug"] for line in categories if "shelf" in line["slug"]]
    kinds = ("Audio Album", "Film", "Grocery")
    sizes = [len(range(start, count, len(kinds))) for start in range(len(kinds))]
    return categories, [
        [product(kind, shelves, rng) for _ in range(size)] for kind, size in zip(kinds, sizes, strict=True)
    ]
