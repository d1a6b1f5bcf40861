"""Each call on the stages of the kits is stopped, repeated and overtaken everywhere, and has its effect once."""

from __future__ import annotations

import pytest

from portico.testing.stages import WAYS, Stage
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock
from tests.support.kits import kits

CASES = [
    pytest.param(stage, name, id=f"{domain}: {name}")
    for domain, kit in kits().items()
    for stage in kit.stages
    for name in stage.cases
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("stage", "name"), CASES)
async def test_a_call_has_one_effect_whatever_happens_to_it(
    gateway: GatewayClient, clock: SettableClock, stage: type[Stage], name: str, way: str
) -> None:
    places = await WAYS[way](stage(gateway, clock), name, IS_SOAK)

    assert places > 0
