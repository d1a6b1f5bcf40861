"""Rests that crash anywhere. The kit has the crashes and pauses of each action."""

from __future__ import annotations

import contextlib

from portico.gateway.mongo.faults import Crash
from portico.resolvers.writes.sweeps import SweepFailed
from tests.game.support.scene import action, assert_settled, assert_sound, world
from tests.game.support.stages import Keeping, resting
from tests.support.crashing_databases import CrashingDatabases
from tests.support.harness import GatewayClient, SettableClock


async def test_a_rest_that_crashes_anywhere_is_finished_and_an_action_ends_it(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    scene, db = Keeping(gateway, clock), gateway.db
    for crashing_db in CrashingDatabases(db):
        await scene.restore()
        await scene.age()
        before = await world(db)
        with contextlib.suppress(Crash, SweepFailed):
            await scene.rest(crashing_db)
        await assert_sound(db)

        await scene.run_jobs()
        await scene.rest(db)
        await scene.run_jobs()

        assert await world(db) == before
        assert await resting(db) == ["Tester"]
        await assert_settled(db)
        assert await scene.typename_of("pickUp", action(scene.temple, "pickUp")) == "CharacterPayload"
        assert await world(db) == {**before, "sword": "Tester"}
        assert await resting(db) == []
        await scene.run_jobs()
        await assert_settled(db)
