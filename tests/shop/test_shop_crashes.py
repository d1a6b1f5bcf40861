"""Carts that expire in spite of crashes and pauses. The kit has those of each call."""

from __future__ import annotations

import pytest

from portico.resolvers.shop import cart_jobs
from tests.shop.support.stages import Shop
from tests.support.harness import GatewayClient, SettableClock, some_stops
from tests.support.interruptions import crashing, stopping
from tests.support.moments import moments


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Shop:
    return Shop(gateway, clock)


async def test_an_expiry_that_crashes_anywhere_is_finished_by_the_next_run(scene: Shop) -> None:
    for stop in some_stops(2):
        await scene.set("claiming")
        scene.clock.advance(hours=5)

        with crashing(scene.gateway, stop) as faulty, stopping():
            await scene.run_jobs(seconds=0)
        await scene.run_jobs()

        assert await scene.state() == ((10, 0, 0), (1, 0, 0), "EXPIRED", {"plenty": 2}, 0), stop
        await scene.assert_settled()
        if not faulty.has_crashed:
            break
    assert stop > 3


async def test_an_expiry_that_pauses_anywhere_returns_no_unit_twice(scene: Shop) -> None:
    async def others() -> None:
        await scene.run_jobs()
        await scene.run_jobs()

    for moment in moments(some_stops(2)):
        await scene.set("claiming")
        scene.clock.advance(hours=5)

        await cart_jobs.expire_idle(moment.before(scene.gateway.db, others), now=scene.clock.now())
        await scene.run_jobs()

        assert await scene.state() == ((10, 0, 0), (1, 0, 0), "EXPIRED", {"plenty": 2}, 0), moment.place
        await scene.assert_settled()
    assert moment.place > 3
