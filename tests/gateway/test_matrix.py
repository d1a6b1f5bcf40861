"""Each call on the stages of the kits is stopped, repeated and overtaken everywhere, and has its effect once."""

from __future__ import annotations

import itertools
import random

import pytest

from portico.testing.stages import WAYS, Stage, places
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock
from tests.support.kits import kits


def ways_of(stage: type[Stage], name: str) -> list[str]:
    """Returns the ways in which the case is tried: all of them in a soak.

    Otherwise the cases of one mutation on one stage, which send mostly the same commands, share the ways: together they
    try each one, and each case is at least crashed and paused. Each run takes some of the places of a call, and others
    than the last one (`places`).
    """
    cases = [other for other, case in stage.cases.items() if case.mutation == stage.cases[name].mutation]
    parts = 1 if IS_SOAK else min(len(cases), 3)
    return [way for number, way in enumerate(WAYS) if (cases.index(name) + number) % parts == 0]


CASES = [
    pytest.param(stage, name, id=f"{domain}: {name}")
    for domain, kit in kits().items()
    for stage in kit.stages
    for name in stage.cases
]


# A test tries up to eight ways, and each of them may take as long as another test.
@pytest.mark.timeout(7_200 if IS_SOAK else 600)
@pytest.mark.parametrize(("stage", "name"), CASES)
async def test_a_call_has_one_effect_whatever_happens_to_it(
    gateway: GatewayClient, clock: SettableClock, stage: type[Stage], name: str
) -> None:
    # All ways share the data, because creating it takes as long as trying one of them.
    shared = stage(gateway, clock)
    for way in ways_of(stage, name):
        try:
            assert await WAYS[way](shared, name, IS_SOAK) > 0
        except BaseException as error:
            error.add_note(f"In the way: {way}")
            raise


@pytest.mark.parametrize("stage", dict.fromkeys(case.values[0] for case in CASES))
def test_each_mutation_is_tried_in_every_way(stage: type[Stage]) -> None:
    tried = {(stage.cases[name].mutation, way) for name in stage.cases for way in ways_of(stage, name)}

    assert tried == {(case.mutation, way) for case in stage.cases.values() for way in WAYS}


def test_the_runs_together_try_every_place() -> None:
    def taken(seed: int, *, whole: bool) -> list[int]:
        random.seed(seed)
        return list(itertools.takewhile(lambda place: place < 12, places(4, whole=whole)))

    runs = [taken(seed, whole=False) for seed in range(50)]
    assert {tuple(run) for run in runs} == {(n, n + 4, n + 8) for n in range(4)}
    assert taken(1, whole=False) == taken(1, whole=False)
    assert taken(1, whole=True) == list(range(12))
