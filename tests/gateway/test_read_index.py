"""The index of interests finds all that a change affects, and looks at few others."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from portico.gateway.reads.comparing import row_key, stored_form
from portico.gateway.reads.counting import NUMBER, Estimate
from portico.gateway.reads.deriving import of_find
from portico.gateway.reads.index import Index
from portico.gateway.reads.interests import (
    DELETE,
    INSERT,
    REPLACE,
    UPDATE,
    Change,
    Entering,
    Interest,
    Matches,
    Window,
    order_of,
)
from portico.gateway.reads.paths import ALL_PATHS, NO_PATHS, Paths
from portico.gateway.reads.plans import Plan
from portico.gateway.reads.queries import Query
from portico.gateway.reads.read_sets import ReadSet
from portico.gateway.reads.spans import Spans, place_of
from portico.gateway.reads.used_paths import UsedPaths
from portico.resolvers.documents import COMPARED
from tests.gateway.support.filters import LEAVES, PATHS, document, query

THINGS = "things"


class Reader:
    """What has an interest."""

    def __init__(self, name: object) -> None:
        self.name = name
        self.is_affected = False

    def affected(self, _change: Change) -> None:
        self.is_affected = True


def some_interest(rng: random.Random, number: int) -> Interest:
    """Returns an interest like those of reads: equalities, comparisons, pages up to a last row, and others."""
    wanted: dict[str, Any] = query(rng) if rng.random() < 0.4 else {}
    for _ in range(rng.randrange(3)):
        path = rng.choice(PATHS)
        wanted = {**wanted, path: rng.choice([rng.choice(LEAVES), comparison(rng)])}
    found = Query(wanted).filter
    if rng.random() < 0.3:
        return Matches(Reader(number), THINGS, found, NO_PATHS)
    order = [(path, rng.choice([1, -1])) for path in rng.sample(PATHS, rng.randrange(1, 3))]
    window = Window(order_of(order), stored_form(document(rng))) if rng.random() < 0.6 else None
    return Entering(Reader(number), THINGS, found, found.paths | Paths(path for path, _ in order), window)


def comparison(rng: random.Random) -> dict[str, Any]:
    return {
        operator: rng.choice(LEAVES) for operator in rng.sample(["$gt", "$gte", "$lt", "$lte"], rng.randrange(1, 3))
    }


def some_change(rng: random.Random) -> Change:
    kind = rng.choice([INSERT, UPDATE, UPDATE, REPLACE, DELETE])
    found = Change(THINGS, kind, rng.randrange(5), None if kind == DELETE else stored_form(document(rng)))
    if kind == UPDATE:
        found.paths = Paths(rng.sample(PATHS, rng.randrange(1, 3)))
    return found


def test_a_change_affects_the_same_interests_by_the_index_and_one_by_one() -> None:
    rng = random.Random(5)
    index = Index()
    kept: list[Interest] = []
    affected = 0
    for number in range(2_000):
        if len(kept) > 60:
            index.remove(kept.pop(rng.randrange(len(kept))))
        kept.append(some_interest(rng, number))
        index.add(kept[-1])
        change = some_change(rng)
        for one in kept:
            one.reader.is_affected = False  # type: ignore[attr-defined]
        index.dispatch(change)
        by_index = {one for one in kept if one.reader.is_affected}  # type: ignore[attr-defined]
        assert by_index == {one for one in kept if one.is_affected(change)}
        affected += len(by_index)
    assert affected > 5_000
    for one in kept:
        index.remove(one)
    assert not index.collections


def test_the_used_paths_are_those_of_the_interests_that_are_left() -> None:
    rng = random.Random(11)
    used = UsedPaths()
    kept: list[Paths] = []
    found = 0
    for _ in range(3_000):
        if kept and rng.random() < 0.5 + (len(kept) - 6) / 20:
            used.remove(kept.pop(rng.randrange(len(kept))))
        else:
            kept.append(ALL_PATHS if rng.random() < 0.02 else Paths(rng.sample(PATHS, rng.randrange(3))))
            used.add(kept[-1])
        if rng.random() < 0.3:
            changed = ALL_PATHS if rng.random() < 0.1 else Paths(rng.sample(PATHS, rng.randrange(1, 3)))
            # An interest without paths is one that only its rows affect, or any change of which nothing is known.
            touches = any(one.is_all or changed.is_all or one.touch(changed) for one in kept)
            assert used.touch(changed) == touches
            assert used.has_all == any(one.is_all for one in kept)
            assert used.named == set().union(*(one.named for one in kept))
            found += touches
    assert 200 < found < 900


def test_ranges_are_found_by_their_values() -> None:
    rng = random.Random(6)
    spans: Spans[int] = Spans()
    kept: dict[int, tuple[Any, Any, Any]] = {}
    for number in range(3_000):
        low, high = sorted(filter(None, (place_of(rng.randrange(100)) for _ in range(2))))
        kept[number] = low, high, spans.add((low, high), number)
        if len(kept) > 50:
            spans.remove(kept.pop(rng.choice(list(kept)))[2])
        place = place_of(rng.randrange(100))
        assert place is not None
        assert sorted(spans.at(place)) == sorted(one for one, (low, high, _) in kept.items() if low <= place <= high)
    assert sorted(spans.all()) == sorted(kept)
    assert len(spans) == len(kept)


# Cost


def by_equality(number: int) -> Interest:
    wanted = Query({"sku": f"sku-{number}"}).filter
    return Entering(Reader(number), THINGS, wanted, wanted.paths)


def by_range(number: int) -> Interest:
    """The interest of a list of what has a price in a range. All lists have one of their conditions in common."""
    wanted = Query({"kind": "album", "price": {"$gte": 10 * number, "$lt": 10 * number + 10}}).filter
    return Entering(Reader(number), THINGS, wanted, wanted.paths)


def by_count(number: int) -> Interest:
    return Matches(
        Reader(number), THINGS, Query({"price": {"$gte": 10 * number, "$lt": 10 * number + 10}}).filter, NO_PATHS
    )


def by_window(number: int) -> Interest:
    """The interest of a page of a list that follows another one."""
    wanted = Query({"title": {"$gt": f"{number:06d}"}}).filter
    window = Window(order_of([("title", 1), ("_id", 1)]), {"title": f"{number + 1:06d}", "_id": number})
    return Entering(Reader(number), THINGS, wanted, wanted.paths | Paths(["title", "_id"]), window)


def steps_of(act: Callable[[], object]) -> int:
    """Returns how many lines of Python run."""
    steps = 0

    def trace(_frame: Any, _event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return steps


def changes() -> Iterator[Change]:
    inside = {"_id": 1, "sku": "sku-50", "kind": "album", "price": 505, "title": "000050x"}
    for kept in (inside, {**inside, "sku": "none", "price": -1, "title": ""}):
        yield Change(THINGS, INSERT, 1, kept)
        yield Change(THINGS, UPDATE, 1, kept, Paths(["title", "sku", "kind"]))


@pytest.mark.sample(2)
@pytest.mark.parametrize("interest", [by_equality, by_range, by_count, by_window])
def test_the_cost_of_a_change_hardly_grows_with_the_interests(interest: Callable[[int], Interest]) -> None:
    costs = []
    for number in (100, 10_000):
        index = Index()
        for one in range(number):
            index.add(interest(one))
        costs.append([steps_of(lambda change=change, index=index: index.dispatch(change)) for change in changes()])  # type: ignore[misc]
    for few, many in zip(*costs, strict=True):
        assert many <= 1.5 * few, costs


FOUND = [{"_id": 1, "name": "a"}, {"_id": 2, "name": "b"}]


def reads_of(*plans: tuple[Plan, list[dict[str, Any]]]) -> tuple[Index, ReadSet]:
    index = Index()
    reads = ReadSet(index, lambda: None)
    for plan, rows in plans:
        reads.end(reads.begin(plan), rows)
    return index, reads


def by_keys(keys: list[Any]) -> Plan:
    return of_find(THINGS, {"_id": {"$in": keys}, "is_hidden": False}, {"name": 1}, {})


@pytest.mark.parametrize(
    ("change", "affects"),
    [
        (Change(THINGS, DELETE, 1), True),
        # The index does not tell 2 and 2.0, or 1 and true, apart.
        (Change(THINGS, INSERT, 2, {"_id": 2, "is_hidden": False}), True),
        (Change(THINGS, REPLACE, 1, {"_id": 1}), True),
        (Change(THINGS, UPDATE, 1, paths=Paths(["name"])), True),
        (Change(THINGS, UPDATE, 2, paths=Paths(["is_hidden"])), True),
        (Change(THINGS, UPDATE, 2, paths=Paths(["size"])), False),
        (Change(THINGS, INSERT, 3, {"_id": 3, "is_hidden": False}), False),
    ],
)
def test_a_read_by_keys_that_has_found_all_waits_for_its_rows_alone(change: Change, *, affects: bool) -> None:
    index, reads = reads_of((by_keys([1, 2]), FOUND))
    assert index.size == 1
    assert not index.needs_document(Change(THINGS, UPDATE, 3, paths=Paths(["is_hidden"])))
    index.dispatch(change)
    assert reads.is_affected is affects


def test_a_read_by_keys_that_has_not_found_one_waits_for_it() -> None:
    index, reads = reads_of((by_keys([1, 2, 3]), FOUND))
    assert index.size == 2
    index.dispatch(Change(THINGS, INSERT, 3, {"_id": 3, "is_hidden": False}))
    assert reads.is_affected


def list_of(rows: list[dict[str, Any]]) -> tuple[Index, ReadSet]:
    return reads_of((of_find(THINGS, {"size": {"$gte": 1}}, {"name": 1}, {}), rows))


def inserted(key: object) -> Change:
    return Change(THINGS, INSERT, key, {"_id": key, "size": 1})


def test_the_insertion_of_a_row_that_was_read_affects_nothing() -> None:
    index, reads = list_of([{"_id": "a", "name": "a"}])
    index.dispatch(inserted("a"))
    assert not reads.is_affected
    index.dispatch(inserted("b"))
    assert reads.is_affected


def test_a_row_that_was_deleted_and_inserted_again_affects_what_was_read_before() -> None:
    index, reads = list_of([{"_id": "a", "name": "a"}])
    index.dispatch(Change(THINGS, DELETE, "a"))
    assert reads.is_affected


def test_a_key_that_several_documents_can_have_is_not_taken_for_that_of_a_row() -> None:
    for key in (1, True, row_key(b"a"), row_key([]), row_key({"a": [True]})):
        index, reads = list_of([{"_id": 1}, {"_id": b"b"}, {"_id": {}}, {"_id": {"a": [1]}}])
        index.dispatch(inserted(key))
        assert reads.is_affected, key


def test_a_row_that_changes_its_place_affects_the_list() -> None:
    index, reads = list_of([{"_id": "a", "name": "a"}])
    index.dispatch(Change(THINGS, UPDATE, "a", {"_id": "a", "size": 0}, Paths(["size"])))
    assert reads.is_affected


def test_a_read_has_seen_the_changes_that_had_arrived_before_it_began() -> None:
    index = Index()
    early, late = (Change(THINGS, UPDATE, "a", {"_id": "a"}, Paths(["name"]), number) for number in (1, 2))
    index.arrived = 1
    reads = ReadSet(index, lambda: None)
    read = reads.begin(of_find(THINGS, {"_id": "a"}, {"name": 1}, {}))
    index.dispatch(early)
    reads.end(read, [{"_id": "a", "name": "a"}])
    index.dispatch(early)
    assert not reads.is_affected
    index.arrived = 2
    index.dispatch(late)
    assert reads.is_affected


def sized(number: int, *limits: int) -> tuple[Index, ReadSet]:
    return reads_of((Estimate(THINGS, {COMPARED: list(limits)}), [{NUMBER: number}]))


def test_an_estimate_that_is_compared_waits_until_the_comparison_can_change() -> None:
    index, reads = sized(10, 12, 20)
    for key in ("a", "b"):
        index.dispatch(inserted(key))
    assert not reads.is_affected
    index.dispatch(inserted("c"))
    assert reads.is_affected

    index, reads = sized(10, 8, 20)
    index.dispatch(Change(THINGS, DELETE, "a"))
    index.dispatch(inserted("b"))
    assert not reads.is_affected
    # Nobody knows whether the estimate has seen the insertion.
    index.dispatch(Change(THINGS, DELETE, "c"))
    assert reads.is_affected


def test_an_estimate_that_is_shown_follows_each_insertion() -> None:
    index, reads = reads_of((Estimate(THINGS, None), [{NUMBER: 10}]))
    index.dispatch(inserted("a"))
    assert reads.is_affected


def test_the_size_of_a_collection_can_be_forgotten() -> None:
    index, reads = sized(10, 12, 20)
    reads.release()
    assert not index.collections
