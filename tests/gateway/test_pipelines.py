"""Whatever changes the result of a pipeline affects who has read it, and much else does not."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pymongo import TEXT, IndexModel

from portico.gateway.reads.comparing import row_key
from portico.gateway.reads.deriving import of_pipeline
from portico.gateway.reads.feed import text_indexes
from portico.gateway.reads.index import Index
from portico.gateway.reads.interests import DELETE, INSERT, UPDATE, Change
from portico.gateway.reads.lists import Shown
from portico.gateway.reads.paths import ALL_PATHS, NO_PATHS, Paths
from portico.gateway.reads.paths import TEXT as TEXT_INDEX
from portico.gateway.reads.pipelines import paths_in, paths_of
from portico.gateway.reads.read_sets import ReadSet
from portico.gateway.reads.recorded import recorded
from portico.resolvers.documents import CollectionSpec, Database
from tests.support.harness import IS_SOAK

THINGS = CollectionSpec("things", indexes=[IndexModel([("title", TEXT), ("by", TEXT)], default_language="none")])
CHANGES = 3_000 if IS_SOAK else 150
WORDS = ["blue", "kind", "space", "waltz", "odd"]
FOUND: dict[str, Any] = {"$text": {"$search": "blue space"}}
SCORED: list[dict[str, Any]] = [{"$match": FOUND}, {"$set": {"score": {"$meta": "textScore"}}}]
BY_SCORE: dict[str, Any] = {"$sort": {"score": -1, "_id": -1}}
PIPELINES: dict[str, list[dict[str, Any]]] = {
    "by relevance": [*SCORED, BY_SCORE, {"$limit": 3}, {"$project": {"title": 1}}],
    "by relevance, whole": [*SCORED, BY_SCORE, {"$limit": 3}],
    "by price": [{"$match": FOUND}, {"$sort": {"price": 1, "_id": 1}}, {"$limit": 3}, {"$project": {"price": 1}}],
    "figures": [
        {"$match": FOUND},
        {"$project": {"kind": 1, "_id": 1}},
        {"$facet": {"kinds": [{"$group": {"_id": "$kind", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]}},
    ],
    "groups": [
        {"$match": {"price": {"$gte": 3}}},
        {"$unwind": "$tags"},
        {"$group": {"_id": "$tags", "sum": {"$sum": "$price"}}},
        {"$sort": {"_id": 1}},
    ],
    "computed": [
        {"$match": {"kind": "a"}},
        {"$sort": {"_id": 1}},
        {"$limit": 4},
        {"$project": {"half": {"$divide": ["$price", 2]}, "first": {"$first": "$tags"}, "part": {"$literal": 1}}},
    ],
    "sorted by a computed value": [
        {"$set": {"rank": {"$add": ["$price", {"$size": "$tags"}]}}},
        {"$sort": {"rank": 1, "_id": 1}},
        {"$limit": 4},
        {"$project": {"rank": 1}},
    ],
}
# A change of these paths never affects what does not use them.
UNUSED = {
    "by relevance": ["price", "kind", "tags", "other"],
    "by price": ["kind", "tags", "other"],
    "figures": ["price", "tags", "other"],
    "groups": ["title", "by", "kind", "other"],
    "computed": ["title", "by", "other"],
    "sorted by a computed value": ["title", "by", "kind", "other"],
}


def document(rng: random.Random, key: int) -> dict[str, Any]:
    return {"_id": key, **{path: value(rng, path) for path in ("title", "by", "price", "kind", "tags", "other")}}


def value(rng: random.Random, path: str) -> Any:
    if path == "price":
        return rng.randrange(8)
    if path == "tags":
        return rng.sample("xyz", rng.randrange(3))
    return rng.choice("abc") if path == "kind" else " ".join(rng.choices(WORDS, k=3))


class Reading:
    """The result of a pipeline, and whether a change has affected it."""

    def __init__(self, db: Database, index: Index, name: str) -> None:
        self.name = name
        self._db = db
        self._index = index
        self.is_affected = False
        self.rows: Any = None
        self._reads: ReadSet | None = None

    async def read(self) -> None:
        if self._reads is not None:
            self._reads.release()
        self.is_affected = False
        self._reads = ReadSet(self._index, self._affected)
        self.rows = await self.result(recorded(self._db, self._reads))
        self._reads.finish()

    async def result(self, db: Database) -> Any:
        return await (await db[THINGS.name].aggregate(PIPELINES[self.name])).to_list()

    def _affected(self) -> None:
        self.is_affected = True


async def changed(db: Database, rng: random.Random) -> Change:
    """Changes a document at random. Returns the change as the feed has it."""
    things = db[THINGS.name]
    rows = [row["_id"] async for row in things.find({}, {"_id": 1}).sort("_id")]
    kind = rng.choice([INSERT, DELETE, UPDATE, UPDATE, UPDATE]) if 8 < len(rows) < 20 else INSERT
    kind = DELETE if len(rows) >= 20 else kind
    if kind == INSERT:
        new = document(rng, max(rows, default=0) + 1)
        await things.insert_one(new)
        return Change(THINGS.name, INSERT, row_key(new["_id"]), new)
    key = rng.choice(rows)
    if kind == DELETE:
        await things.delete_one({"_id": key})
        return Change(THINGS.name, DELETE, row_key(key))
    path = rng.choice(["title", "by", "price", "kind", "tags", "other"])
    await things.update_one({"_id": key}, {"$set": {path: value(rng, path)}})
    return Change(THINGS.name, UPDATE, row_key(key), await things.find_one({"_id": key}), Paths([path]))


@pytest.mark.timeout(1_800 if IS_SOAK else 120)
async def test_what_changes_a_result_affects_its_reader(db: Database) -> None:
    rng = random.Random(5)
    await db[THINGS.name].drop()
    await db[THINGS.name].create_indexes(THINGS.indexes)
    index = Index(text_indexes([THINGS]))
    readings = [Reading(db, index, name) for name in PIPELINES]
    different = vain = 0
    for _ in range(CHANGES):
        for reading in readings:
            if reading.rows is None or reading.is_affected:
                await reading.read()
        change = await changed(db, rng)
        index.dispatch(change)
        for reading in readings:
            is_other = await reading.result(db) != reading.rows
            assert reading.is_affected or not is_other, (reading.name, change)
            unused = Paths(UNUSED.get(reading.name, ()))
            if change.kind == UPDATE and (change.paths.named - TEXT_INDEX.named) <= unused.named:
                assert not reading.is_affected, (reading.name, change)
            different += is_other
            vain += reading.is_affected and not is_other
    assert different > CHANGES


def test_the_deletion_of_what_a_search_has_not_shown_does_not_affect_it() -> None:
    affected: list[int] = []
    reads = ReadSet(index := Index(text_indexes([THINGS])), lambda: affected.append(1))
    reads.end(reads.begin(of_pipeline(THINGS.name, PIPELINES["by relevance"])), [{"_id": 1, "title": "blue"}] * 3)
    index.dispatch(Change(THINGS.name, DELETE, 2))
    assert not affected
    index.dispatch(Change(THINGS.name, DELETE, 1))
    assert affected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("$a.b", Paths(["a.b"])),
        ({"$filter": {"input": "$tags", "as": "one", "cond": {"$eq": ["$$one.kind", "x"]}}}, Paths(["tags"])),
        ({"$literal": "$a"}, NO_PATHS),
        ({"$cond": [{"$gt": ["$a", 1]}, "$$REMOVE", "$b"]}, Paths(["a", "b"])),
        ({"$meta": "textScore"}, TEXT_INDEX),
        ("$$ROOT", ALL_PATHS),
        ({"$gt": ["$a", "$$NOW"]}, ALL_PATHS),
        ({"$getField": "a"}, ALL_PATHS),
    ],
)
def test_an_expression_reads_paths(expression: Any, expected: Paths) -> None:
    assert paths_in(expression) == expected


@pytest.mark.parametrize(
    "stages",
    [
        [{"$match": {"a": 1}}],
        [{"$limit": 1}, {"$project": {"a": 1}}],
        [{"$project": {"a": 0}}],
        [{"$project": {"_id": 0}}],
        [{"$lookup": {"from": "b", "localField": "a", "foreignField": "a", "as": "c"}}, {"$count": "n"}],
        [{"$project": {"a": {"b": 1}}}],
    ],
)
def test_other_pipelines_read_everything(stages: list[dict[str, Any]]) -> None:
    assert paths_of(stages) is ALL_PATHS


def test_a_projection_that_hides_the_key_alone_shows_everything_else() -> None:
    assert Shown({"_id": 0}).paths is ALL_PATHS
    assert Shown({"_id": False}).paths is ALL_PATHS
    assert Shown({"_id": 0, "a": 1}).paths == Shown({"_id": False, "a": True}).paths != ALL_PATHS
