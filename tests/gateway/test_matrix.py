"""Each call on the stages of the kits is stopped, repeated and overtaken everywhere, and has its effect once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from portico.testing.stages import Stage
from portico.testing.ways import WAYS, places
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock
from tests.support.kits import kits

# Ways that interrupt a call in one place only.
QUICK = ("race", "doubled replies")
# The others. Crashes and pauses alternate, so that of two neighbouring cases one is crashed and the other is paused.
CRASHES, PAUSES = ([way for way in WAYS if way.startswith(kind)] for kind in ("crash", "pause"))
SLOW = [*itertools.chain(*zip(CRASHES, PAUSES, strict=True))]


def ways_of(stage: type[Stage], name: str, run: int) -> list[str]:
    """Returns the ways in which a run tries the case: all of them in a soak.

    Otherwise a run crashes or pauses each case in one way, and races it or doubles its replies; the runs together take
    every way. Each run takes some of the places of a call, and others than the last one (`places`).
    """
    turn = run + list(stage.cases).index(name)
    return [*WAYS] if IS_SOAK else [ways[turn % len(ways)] for ways in (SLOW, QUICK)]


def sampled(stage: type[Stage], name: str) -> Sequence[pytest.MarkDecorator]:
    """Of several cases of one mutation, a run tries every second one."""
    if stage.sample > 1:
        return [pytest.mark.sample(stage.sample)]
    mutation = stage.cases[name].mutation
    is_alone = [case.mutation for case in stage.cases.values()].count(mutation) == 1
    return [] if is_alone else [pytest.mark.sample(2, group=f"{stage.__qualname__} {mutation}")]


CASES = [
    pytest.param(stage, name, id=f"{domain}: {name}, {stage.__name__}", marks=sampled(stage, name))
    for domain, kit in kits().items()
    for stage in kit.stages
    for name in stage.cases
]


# A test tries up to eight ways, and each of them may take as long as another test.
@pytest.mark.timeout(7_200 if IS_SOAK else 600)
@pytest.mark.parametrize(("stage", "name"), CASES)
async def test_a_call_has_one_effect_whatever_happens_to_it(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, stage: type[Stage], name: str
) -> None:
    for (module, constant), value in stage.constants.items():
        monkeypatch.setattr(module, constant, value)
    # All ways share the data, because creating it takes as long as trying one of them.
    shared = stage(gateway, clock)
    for way in ways_of(stage, name, random.randrange(len(SLOW))):
        try:
            assert await WAYS[way](shared, name, IS_SOAK) > 0
        except BaseException as error:
            error.add_note(f"In the way: {way}")
            raise


@pytest.mark.parametrize("stage", dict.fromkeys(case.values[0] for case in CASES))
def test_the_runs_together_try_each_case_in_every_way(stage: type[Stage]) -> None:
    names = list(stage.cases)
    runs = [[ways_of(stage, name, run) for name in names] for run in range(len(SLOW))]
    for of_case in zip(*runs, strict=True):
        assert set(itertools.chain(*of_case)) == WAYS.keys()
    for ways in itertools.chain.from_iterable(itertools.pairwise(of_run) for of_run in runs):
        assert {way[:5] for way in itertools.chain(*ways)} >= {"crash", "pause"}


def test_the_runs_together_try_every_place() -> None:
    def taken(seed: int, *, whole: bool) -> list[int]:
        random.seed(seed)
        return list(itertools.takewhile(lambda place: place < 12, places(4, whole=whole)))

    runs = [taken(seed, whole=False) for seed in range(50)]
    assert {tuple(run) for run in runs} == {(n, n + 4, n + 8) for n in range(4)}
    assert taken(1, whole=False) == taken(1, whole=False)
    assert taken(1, whole=True) == list(range(12))
