"""Generated documents and filters."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from bson import Decimal128, Int64, ObjectId

from portico.resolvers.documents import Document

_DAY = datetime(2024, 5, 1, tzinfo=UTC)
_IDS = [ObjectId(f"{number:024x}") for number in range(3)]
LEAVES: list[Any] = [
    None, 0, 1, 2, 1.0, 1.5, -1, Int64(2), Decimal128("1"), Decimal128("2.5"), True, False, "", "a", "b", "é", "😀",
    _DAY, _DAY + timedelta(seconds=1, microseconds=1500), *_IDS, b"x", float("inf"), Decimal128(Decimal(3)),
]  # fmt: skip
NAMES = ("a", "b", "c")
_TYPES = ["string", "object", "array", "bool", "null", "date", "number", ["int", "long"]]
PATHS = ("a", "b", "c", "a.b", "a.c", "b.a", "a.0", "a.b.c", "b.0.a")


def value(rng: random.Random, depth: int = 2) -> Any:
    kind = rng.random()
    if depth and kind < 0.2:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if depth and kind < 0.45:
        return document(rng, depth - 1)
    return rng.choice(LEAVES)


def document(rng: random.Random, depth: int = 3) -> Document:
    return {name: value(rng, depth) for name in NAMES if rng.random() < 0.7}


def operators(rng: random.Random, depth: int) -> Document:
    makes: list[Callable[[], Document]] = [
        lambda: {rng.choice(["$eq", "$ne"]): value(rng, 1)},
        lambda: {rng.choice(["$in", "$nin"]): [value(rng, 1) for _ in range(rng.randrange(1, 4))]},
        lambda: {rng.choice(["$gt", "$gte", "$lt", "$lte"]): rng.choice(LEAVES)},
        lambda: {rng.choice(["$gt", "$gte", "$lt", "$lte"]): rng.choice(LEAVES)},
        lambda: {"$exists": rng.random() < 0.5},
        lambda: {"$size": rng.randrange(3)},
        lambda: {"$all": [rng.choice(LEAVES) for _ in range(rng.randrange(1, 3))]},
        lambda: {"$type": rng.choice(_TYPES)},
    ]
    if depth:
        makes.append(lambda: {"$not": operators(rng, depth - 1)})
        makes.append(lambda: {"$elemMatch": query(rng, depth - 1)})
        makes.append(lambda: {"$elemMatch": operators(rng, 0)})
    return rng.choice(makes)()


def query(rng: random.Random, depth: int = 2) -> Document:
    found: Document = {}
    for _ in range(rng.randrange(1, 3)):
        kind = rng.random()
        if depth and kind < 0.2:
            found[rng.choice(["$and", "$or", "$nor"])] = [query(rng, depth - 1) for _ in range(rng.randrange(1, 3))]
        elif kind < 0.5:
            found[rng.choice(PATHS)] = value(rng, 1)
        else:
            found[rng.choice(PATHS)] = operators(rng, depth)
    return found
