"""Reads that are repeated: equal commands share a plan, and a run takes over interests of the former one."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Int64, ObjectId

from portico.gateway.reads.comparing import row_key, stored_form
from portico.gateway.reads.deriving import derived, of_find, of_pipeline
from portico.gateway.reads.index import Index
from portico.gateway.reads.interests import DELETE, INSERT, REPLACE, UPDATE, Change
from portico.gateway.reads.lists import Branch, ByIds, Listed
from portico.gateway.reads.paths import ALL_PATHS, Paths
from portico.gateway.reads.plans import Plan
from portico.gateway.reads.read_sets import ReadSet
from portico.resolvers.documents import Document
from tests.gateway.support.filters import LEAVES, NAMES, PATHS, document, query

# Runs

THINGS = "things"
IDS = [ObjectId(f"{number:024x}") for number in range(8)]


class Run:
    """What repeats the same commands, with or without the interests of the former run."""

    def __init__(self, *, takes_over: bool) -> None:
        self.index = Index()
        self._takes_over = takes_over
        self._former: ReadSet | None = None

    def read(self, plans: Sequence[Plan], rows: Sequence[Any], meanwhile: Sequence[Change]) -> None:
        former = self._former if self._takes_over else None
        reads = ReadSet(self.index, lambda: None, former=former, is_repeated=self._takes_over)
        for number, (plan, found) in enumerate(zip(plans, rows, strict=True)):
            read = reads.begin(plan)
            if number == len(plans) // 2:
                self.change(meanwhile)
            reads.end(read, found)
        reads.finish()
        if self._former is not None:
            self._former.release()
        self._former = reads

    def change(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.index.dispatch(replace(change))

    def end(self) -> None:
        if self._former is not None:
            self._former.release()

    @property
    def is_affected(self) -> bool:
        return self._former is not None and self._former.is_affected


def some_change(rng: random.Random) -> Change:
    kind, key = rng.choice([INSERT, DELETE, UPDATE, UPDATE]), rng.choice(IDS)
    new = None if kind == DELETE else stored_form({"_id": key, **document(rng)})
    paths = Paths(rng.sample(PATHS, 1)) if kind == UPDATE else ALL_PATHS
    return Change(THINGS, kind, row_key(key), new, paths)


def some_command(rng: random.Random) -> tuple[Document, Document | None, dict[str, Any]]:
    kind = rng.random()
    wanted: Document = query(rng) if kind < 0.4 else {"_id": {"$in": rng.sample(IDS, 4)}} if kind < 0.7 else {}
    order = [(rng.choice(NAMES), rng.choice([1, -1])), ("_id", 1)] if rng.random() < 0.5 else []
    return wanted, rng.choice([None, {"a": 1, "b": 1, "c": 1}, {"a": 1}]), {"sort": order, "limit": rng.choice([0, 2])}


def some_rows(rng: random.Random, wanted: Document, limit: int) -> list[Document]:
    ids = wanted.get("_id", {}).get("$in", IDS)
    number = rng.choice([len(ids), rng.randrange(len(ids) + 1)])
    return [stored_form({"_id": key, **document(rng)}) for key in rng.sample(ids, number)][: limit or None]


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(4))
def test_a_run_with_the_interests_of_the_former_one_is_affected_like_one_with_its_own(seed: int) -> None:
    rng = random.Random(seed)
    affected = same = runs = 0
    for _ in range(100):
        commands = [some_command(rng) for _ in range(rng.randrange(1, 5))]
        rows = [some_rows(rng, wanted, options["limit"]) for wanted, _, options in commands]
        repeated, other = Run(takes_over=True), Run(takes_over=False)
        for _ in range(8):
            if rng.random() < 0.4:
                place = rng.randrange(len(commands))
                rows[place] = some_rows(rng, commands[place][0], commands[place][2]["limit"])
            plans = [of_find(THINGS, *command) for command in commands]
            meanwhile = [some_change(rng)] if rng.random() < 0.3 else []
            before = set(map(id, interests_of(repeated.index)))
            for run in (repeated, other):
                run.read(plans, rows, meanwhile)
            assert repeated.is_affected == other.is_affected
            assert repeated.index.size == other.index.size
            same += len(before.intersection(map(id, interests_of(repeated.index))))
            changes = [some_change(rng)]
            repeated.change(changes)
            other.change(changes)
            assert repeated.is_affected == other.is_affected
            affected += repeated.is_affected
            runs += 1
        for run in (repeated, other):
            run.end()
            assert run.index.size == 0
    assert 0.2 * runs < affected < 0.9 * runs
    assert same > runs


def interests_of(index: Index) -> list[object]:
    found = index._collections.get(THINGS)
    return [] if found is None else [*found.rows.all(), *found._entering.all(), *found._matches.all()]


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), ("a", "b"), (1, 2), (None, 0)])
def test_a_page_that_ends_with_another_value_has_interests_of_its_own(one: object, other: object) -> None:
    plan = of_find(THINGS, {"a": {"$gte": 0}}, None, {"sort": [("b", 1)], "limit": 1})
    assert isinstance(plan, Listed)
    first, second = (plan.signature([{"_id": IDS[0], "b": value}]) for value in (one, other))
    assert first is not None
    assert first == plan.signature([{"_id": IDS[0], "b": one}])
    assert first != second


@pytest.mark.parametrize("value", [[1], {"a": 1}, 1.0, float("nan")])
def test_a_page_that_ends_with_a_value_of_which_equality_is_not_exact_takes_nothing_over(value: object) -> None:
    plan = of_find(THINGS, {"a": {"$gte": 0}}, None, {"sort": [("b", 1)], "limit": 1})
    assert plan.signature([{"_id": IDS[0], "b": value}]) is None


def test_a_read_by_ids_that_shows_other_paths_has_interests_of_its_own() -> None:
    wanted = {"_id": {"$in": IDS[:2]}}
    rows: list[Document] = [{"_id": key} for key in IDS[:2]]

    def signature(collection: str, *paths: str) -> object:
        return of_find(collection, wanted, dict.fromkeys(paths, 1), {}).signature(rows)

    assert signature(THINGS, "a") == signature(THINGS, "a")
    assert len({signature(THINGS, "a"), signature(THINGS, "a", "b"), signature(THINGS), signature("others", "a")}) == 4
    # Without all of its documents, it also follows which ones come.
    assert of_find(THINGS, wanted, {"a": 1}, {}).signature(rows[:1]) is None


# Plans

KEYS = IDS[:6]


class Reader:
    def affected(self, change: Change) -> None:
        raise NotImplementedError


def some_changes(rng: random.Random) -> Sequence[Change]:
    """Returns changes of each kind, of documents that are among the rows and of others."""
    found = []
    for kind in (INSERT, REPLACE, DELETE, UPDATE, UPDATE, UPDATE):
        key = rng.choice(KEYS)
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
        return {"_id": {"$in": rng.sample(KEYS, rng.randrange(5))}}
    if kind < 0.3:
        return {"_id": rng.choice(KEYS)}
    if kind < 0.4:
        return {"_id": {"$in": rng.sample(KEYS, 3)}, rng.choice(NAMES): rng.choice(LEAVES)}
    return query(rng)


def rows_of(rng: random.Random, wanted: Document) -> list[Document]:
    named = wanted.get("_id", {})
    ids = named.get("$in", KEYS) if isinstance(named, dict) else [named]
    return [stored_form({"_id": key, **document(rng)}) for key in rng.sample(ids, rng.randrange(len(ids) + 1))]


def test_a_find_that_is_sent_again_has_the_interests_of_a_new_one() -> None:
    rng = random.Random(3)
    by_ids = shared = 0
    for _ in range(3_000):
        wanted, projection = some_query(rng), some_projection(rng)
        sort = [(path, rng.choice([1, -1])) for path in rng.sample(PATHS, rng.choice([0, 0, 1, 2]))]
        limit = rng.choice([0, 1, 3])
        rows = rng.choice([None, rows_of(rng, wanted)])
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
        rows: list[Document] | None = rng.choice([None, rows_of(rng, {})[:3]])
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
    assert not isinstance(of_find(THINGS, {"_id": KEYS}, None, {}), ByIds)
    assert not isinstance(of_find(THINGS, {"_id": {"$nin": KEYS}}, None, {}), ByIds)
    assert not isinstance(of_find(THINGS, {"_id": {"$in": [*KEYS, 1]}}, None, {}), ByIds)
    assert isinstance(of_find(THINGS, {"_id": {"$in": KEYS}}, None, {}), ByIds)
