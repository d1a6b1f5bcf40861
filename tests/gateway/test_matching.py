"""The gateway's own answers about filters and windows, compared with MongoDB's."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bson import Decimal128

from portico.gateway.reads.interests import Window, order_of
from portico.gateway.reads.paths import ALL_PATHS, NO_PATHS, Paths
from portico.gateway.reads.queries import Query
from portico.resolvers.documents import Database, Document
from tests.gateway.support.filters import NAMES, document, query, value
from tests.support.harness import IS_SOAK

# So many random queries are compared by each test.
QUERIES = 500 if IS_SOAK else 150


async def test_a_known_answer_about_a_filter_is_that_of_mongodb(db: Database) -> None:
    rng = random.Random(7)
    collection = db["matching"]
    documents = [{"_id": number, **document(rng)} for number in range(300)]
    await collection.insert_many(documents)
    stored = await collection.find().to_list()
    known = 0
    for _ in range(QUERIES):
        wanted = query(rng)
        found = {one["_id"] for one in await collection.find(wanted, {"_id": 1}).to_list()}
        ours = Query(wanted).filter
        for one in stored:
            answer = ours.answer(one)
            known += answer is not None
            assert answer in (None, one["_id"] in found), (wanted, one)
            assert ours.may_match(one) or one["_id"] not in found
    assert known > 0.85 * QUERIES * 300


async def test_a_window_has_every_row_up_to_its_last_one(db: Database) -> None:
    rng = random.Random(8)
    collection = db["matching"]
    await collection.insert_many([{"_id": number, **document(rng, 1)} for number in range(300)])
    for _ in range(60):
        order = [(rng.choice(NAMES), rng.choice([1, -1])), ("_id", rng.choice([1, -1]))]
        rows = await collection.find({}, sort=order).to_list()
        last = rng.randrange(len(rows))
        window = Window(order_of(order), rows[last])
        behind = [row for row in rows[last + 1 :] if window.may_have(row)]
        assert all(window.may_have(row) for row in rows[: last + 1])
        # What is behind and may be in it has, or is compared with, something of which the place is not known.
        assert all(_is_odd(row, order[0][0]) or _is_odd(rows[last], order[0][0]) for row in behind)


def _is_odd(row: Mapping[str, Any], path: str) -> bool:
    return isinstance(row.get(path), dict | list | bytes | Decimal128 | float)


async def test_an_update_that_changes_whether_a_document_matches_is_no_surprise(db: Database) -> None:
    """`may_match` with changed paths holds for each document that matched before, or matches now."""
    rng = random.Random(9)
    collection = db["matching"]
    for number in range(QUERIES):
        old = {"_id": number, **document(rng)}
        path = rng.choice(NAMES)
        new = {**old, path: value(rng)}
        wanted = query(rng)
        await collection.insert_many([old, {**new, "_id": number + 10_000}])
        both: Document = {"_id": {"$in": [number, number + 10_000]}}
        if await collection.find({"$and": [wanted, both]}).to_list():
            (stored,) = await collection.find({"_id": number + 10_000}).to_list()
            assert Query(wanted).filter.may_match(stored, Paths([path])), (wanted, old, new)


def test_paths_touch_what_is_above_and_below_them() -> None:
    assert Paths(["a.b"]).touch(Paths(["a"]))
    assert Paths(["a"]).touch(Paths(["a.b"]))
    assert not Paths(["a.b"]).touch(Paths(["a.c", "ab"]))
    assert Paths(["lines.3.units"]).touch(Paths(["lines.units"]))
    assert Paths(["lines.3"]).touch(Paths(["lines.units"]))
    assert ALL_PATHS.touch(Paths(["a"]))
    assert Paths(["a"]).touch(ALL_PATHS)
    assert not NO_PATHS.touch(ALL_PATHS)
    assert not Paths(["2024"]).touch(Paths(["2025"]))


_TEXTS = [
    "blue",
    "Blue!",
    "a blue-green",
    "BLUES",
    "bleu",
    "Ünder",
    "under",
    "straße",
    "STRASSE",
    "naïve",
    "na\u00efve^ly",
    "it's",
    "its",
    "42nd",
    "42",
    "b`lue",
    "\u212aind",
    "kind",
    "smørrebrød",
]


async def test_a_search_finds_no_document_that_cannot_contain_its_words(db: Database) -> None:
    """In an index without a language, as `TextIndex.is_literal` says."""
    rng = random.Random(10)
    collection = db["texts"]
    await collection.create_index(
        [("title", "text"), ("parts.name", "text")], default_language="none", language_override="no\0field"
    )
    rows: list[Document] = [
        {"_id": number, "title": _some_text(rng), "parts": [{"name": _some_text(rng), "size": number}]}
        for number in range(400)
    ]
    await collection.insert_many(rows)
    excluded = 0
    for _ in range(QUERIES):
        quoted = '"%s"' if rng.random() < 0.2 else "%s"
        wanted = {"$text": {"$search": quoted % _some_text(rng) + rng.choice(["", " -kind"])}}
        found = {one["_id"] for one in await collection.find(wanted, {"_id": 1}).to_list()}
        ours = Query(wanted).filter
        for row in rows:
            assert ours.may_match(row) or row["_id"] not in found, (wanted, row)
            assert ours.widened().may_match(row)
            excluded += not ours.may_match(row)
    assert excluded > 0.3 * QUERIES * 400


def _some_text(rng: random.Random) -> str:
    return rng.choice([" ", "-", ", ", ""]).join(rng.choices(_TEXTS, k=rng.randint(1, 2)))
