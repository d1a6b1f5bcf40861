"""A run of `make test` takes some cases of a large family, another run others, and together they take all."""

from __future__ import annotations

import pytest

from tests.support.samples import MARK, left_out


@pytest.mark.sample(3)
@pytest.mark.parametrize("member", range(9))
def test_a_member(member: int) -> None:
    assert member in range(9)


@pytest.mark.sample(3)
@pytest.mark.parametrize("member", range(9))
def test_the_member_again(member: int) -> None:
    assert member in range(9)


GROUPED = [
    pytest.param(name, number, marks=pytest.mark.sample(2, group=name))
    for name, count in {"pair": 2, "trio": 3}.items()
    for number in range(count)
]


@pytest.mark.parametrize(("group", "number"), GROUPED)
def test_a_member_of_a_group(group: str, number: int) -> None:
    assert (group, number) in {case.values for case in GROUPED}


def items_of(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """All tests of this module, also those that this run leaves out."""
    return list(request.session.genitems(request.node.getparent(pytest.Module)))


def sampled(items: list[pytest.Item], *, is_grouped: bool) -> set[pytest.Item]:
    marks = {item: item.get_closest_marker(MARK) for item in items}
    return {item for item, mark in marks.items() if mark is not None and ("group" in mark.kwargs) == is_grouped}


@pytest.mark.parametrize("seed", range(4))
def test_tests_of_the_same_members_take_different_ones(request: pytest.FixtureRequest, seed: int) -> None:
    items = items_of(request)

    left = left_out(items, seed)

    members = [item.name.partition("[")[2] for item in sampled(items, is_grouped=False) - left]
    assert len(members) == len(set(members)) == 6
    assert left <= sampled(items, is_grouped=False) | sampled(items, is_grouped=True)
    assert left == left_out(items[::-1], seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_run_takes_a_part_of_each_group(request: pytest.FixtureRequest, seed: int) -> None:
    items = items_of(request)

    taken = [item.name for item in sampled(items, is_grouped=True) - left_out(items, seed)]

    assert sum("pair" in name for name in taken) == 1
    assert sum("trio" in name for name in taken) in {1, 2}


def test_the_runs_together_take_every_case(request: pytest.FixtureRequest) -> None:
    items = items_of(request)

    runs = [left_out(items, seed) for seed in range(10, 13)]

    assert all(runs)
    assert set.intersection(*runs) == set()
