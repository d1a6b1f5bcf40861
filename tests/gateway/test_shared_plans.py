"""A plan that equal commands share says the same as one that is derived from the command itself."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Int64, ObjectId

from portico.gateway.reads.comparing import row_key, stored_form
from portico.gateway.reads.deriving import derived, of_find, of_pipeline
from portico.gateway.reads.interests import DELETE, INSERT, REPLACE, UPDATE, Change
from portico.gateway.reads.lists import Branch, ByIds, Listed
from portico.gateway.reads.paths import ALL_PATHS, Paths
from portico.gateway.reads.plans import Plan
from portico.resolvers.documents import Document
from tests.gateway.support.filters import LEAVES, NAMES, PATHS, document, query

THINGS = "things"
IDS = [ObjectId(f"{number:024x}") for number in range(6)]


class Reader:
    def affected(self, change: Change) -> None:
        raise NotImplementedError


def some_changes(rng: random.Random) -> Sequence[Change]:
    """Returns changes of each kind, of documents that are among the rows and of others."""
    found = []
    for kind in (INSERT, REPLACE, DELETE, UPDATE, UPDATE, UPDATE):
        key = rng.choice(IDS)
        new = None if kind == DELETE else stored_form({"_id": key, **document(rng)})
        paths = Paths(rng.sample(PATHS, rng.randrange(1, 3))) if kind == UPDATE else ALL_PATHS
        found.append(Change(THINGS, kind, row_key(key), new, paths))
    return found


def told(plan: Plan, rows: Sequence[Document] | None, changes: Sequence[Change]) -> list[Any]:
    """Returns what a plan says: of each interest, what it is about, and which of the changes affect it."""
    times = [leaf for leaf in LEAVES if isinstance(leaf, datetime)]
    interests = [
        (type(one), one.collection, getattr(one, "keys", None), [one.is_affected(change) for change in changes])
        for one in plan.interests(Reader(), rows)
    ]
    clock = [(plan.compares(time), plan.timed(time) if plan.compares(time) else None) for time in times]
    return [plan.collections, plan.is_compared, plan.is_count, interests, clock]


def some_projection(rng: random.Random) -> Document | None:
    if rng.random() < 0.3:
        return None
    found: Document = dict.fromkeys(rng.sample(PATHS, rng.randrange(1, 4)), 1)
    if rng.random() < 0.2:
        found |= {"_id": rng.choice([0, 1, False])}
    if rng.random() < 0.2:
        found |= {"d": {"$slice": 2}}
    return found


def some_query(rng: random.Random) -> Document:
    kind = rng.random()
    if kind < 0.2:
        return {"_id": {"$in": rng.sample(IDS, rng.randrange(5))}}
    if kind < 0.3:
        return {"_id": rng.choice(IDS)}
    if kind < 0.4:
        return {"_id": {"$in": rng.sample(IDS, 3)}, rng.choice(NAMES): rng.choice(LEAVES)}
    return query(rng)


def some_rows(rng: random.Random, wanted: Document) -> list[Document]:
    named = wanted.get("_id", {})
    ids = named.get("$in", IDS) if isinstance(named, dict) else [named]
    return [stored_form({"_id": key, **document(rng)}) for key in rng.sample(ids, rng.randrange(len(ids) + 1))]


def test_a_find_that_is_sent_again_has_the_interests_of_a_new_one() -> None:
    rng = random.Random(3)
    by_ids = shared = 0
    for _ in range(3_000):
        wanted, projection = some_query(rng), some_projection(rng)
        sort = [(path, rng.choice([1, -1])) for path in rng.sample(PATHS, rng.choice([0, 0, 1, 2]))]
        limit = rng.choice([0, 1, 3])
        rows = rng.choice([None, some_rows(rng, wanted)])
        if rows is not None and limit:
            rows = rows[:limit]
        changes = some_changes(rng)
        new = Listed(THINGS, [Branch(wanted, sort, limit or None, projection)], limit or None)
        options = {"sort": rng.choice([sort, dict(sort)]), "limit": limit, "batch_size": 7}
        first, again = (of_find(THINGS, copy.deepcopy(wanted), projection, options) for _ in range(2))
        assert told(first, rows, changes) == told(again, rows, changes) == told(new, rows, changes)
        by_ids += isinstance(first, ByIds)
        shared += first is again
    assert by_ids > 300
    assert shared > 1_500


def some_pipeline(rng: random.Random) -> list[Document]:
    wanted, projection = query(rng), some_projection(rng)
    stages: list[Document] = [{"$match": wanted}]
    kind = rng.random()
    if kind < 0.2:
        return [*stages, {"$limit": 3}, {"$count": "number"}]
    if kind < 0.4:
        return [*stages, {"$group": {"_id": "$a", "sum": {"$sum": "$b"}}}]
    stages += [{"$sort": {rng.choice(PATHS): rng.choice([1, -1]), "_id": 1}}, {"$limit": 3}]
    if projection is not None:
        stages.append({"$project": projection})
    if kind < 0.7:
        return stages
    parts = [[*stages, {"$replaceWith": {"part": {"$literal": number}, "document": "$$ROOT"}}] for number in range(2)]
    return [*parts[0], {"$unionWith": {"coll": THINGS, "pipeline": parts[1]}}]


def test_a_pipeline_that_is_sent_again_has_the_interests_of_a_new_one() -> None:
    rng = random.Random(4)
    shared = 0
    for _ in range(1_500):
        stages = some_pipeline(rng)
        rows: list[Document] | None = rng.choice([None, some_rows(rng, {})[:3]])
        if rows is not None and "$unionWith" in stages[-1]:
            rows = [{"part": rng.randrange(2), "document": row} for row in rows]
        changes = some_changes(rng)
        first, again = (of_pipeline(THINGS, copy.deepcopy(stages)) for _ in range(2))
        assert told(first, rows, changes) == told(again, rows, changes) == told(derived(THINGS, stages), rows, changes)
        shared += first is again
    assert shared > 1_000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": Int64(1)}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}),
        ({"a": {"$in": [1, 2]}}, {"a": {"$in": [2, 1]}}),
    ],
)
def test_commands_that_only_python_takes_for_equal_share_no_plan(one: Document, other: Document) -> None:
    assert of_find(THINGS, one, None, {}) is not of_find(THINGS, other, None, {})
    assert of_find(THINGS, one, None, {}) is of_find(THINGS, dict(one), None, {})


def test_a_plan_depends_on_all_of_its_command() -> None:
    time = datetime(2024, 5, 7, tzinfo=UTC)
    plans = {
        of_find(THINGS, {"a": time}, None, {}),
        of_find("others", {"a": time}, None, {}),
        of_find(THINGS, {"a": time}, {"a": 1}, {}),
        of_find(THINGS, {"a": time}, None, {"sort": [("a", 1)]}),
        of_find(THINGS, {"a": time}, None, {"sort": [("a", -1)]}),
        of_find(THINGS, {"a": time}, None, {"limit": 1}),
        of_pipeline(THINGS, [{"$match": {"a": time}}]),
        of_pipeline("others", [{"$match": {"a": time}}]),
    }
    assert len(plans) == 8


def test_an_array_of_ids_is_no_list_of_them() -> None:
    assert not isinstance(of_find(THINGS, {"_id": IDS}, None, {}), ByIds)
    assert not isinstance(of_find(THINGS, {"_id": {"$nin": IDS}}, None, {}), ByIds)
    assert not isinstance(of_find(THINGS, {"_id": {"$in": [*IDS, 1]}}, None, {}), ByIds)
    assert isinstance(of_find(THINGS, {"_id": {"$in": IDS}}, None, {}), ByIds)
