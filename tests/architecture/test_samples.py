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


def items_of(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """All tests of this module, also those that this run leaves out."""
    return list(request.session.genitems(request.node.getparent(pytest.Module)))


@pytest.mark.parametrize("seed", range(4))
def test_tests_of_the_same_members_take_different_ones(request: pytest.FixtureRequest, seed: int) -> None:
    items = items_of(request)

    left = left_out(items, seed)

    sampled = {item for item in items if item.get_closest_marker(MARK)}
    members = [item.name.partition("[")[2] for item in sampled - left]
    assert len(members) == len(set(members)) == 6
    assert left <= sampled
    assert left == left_out(items[::-1], seed)


def test_the_runs_together_take_every_case(request: pytest.FixtureRequest) -> None:
    items = items_of(request)

    runs = [left_out(items, seed) for seed in range(10, 13)]

    assert all(runs)
    assert set.intersection(*runs) == set()
