"""A run that takes over interests of the former one is affected by the same changes as a run that does not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.reads.comparing import row_key, stored_form
from portico.gateway.reads.deriving import of_find
from portico.gateway.reads.index import Index
from portico.gateway.reads.interests import DELETE, INSERT, UPDATE, Change
from portico.gateway.reads.lists import Listed
from portico.gateway.reads.paths import ALL_PATHS, Paths
from portico.gateway.reads.plans import Plan
from portico.gateway.reads.read_sets import ReadSet
from portico.resolvers.documents import Document
from tests.gateway.support.filters import NAMES, PATHS, document, query

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
