"""Changes of the own inventory, and rests, that crash anywhere. The kit has the crashes and pauses of each action."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.documents import Database
from portico.resolvers.writes.sweeps import SweepFailed
from tests.game.support.scene import action, assert_settled, assert_sound, own_action, world
from tests.game.support.stages import Keeping, Resting, Turns
from tests.support.harness import GatewayClient, SettableClock, stops

OWN_CHANGES: dict[str, dict[str, Any]] = {"takeOut": {"apple": "Tester"}, "putIn": {"pear": "bag"}}


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Turns:
    return Turns(gateway, clock)


@pytest.mark.parametrize("mutation", OWN_CHANGES)
async def test_a_change_of_the_own_inventory_crashes_without_a_trace(scene: Turns, mutation: str) -> None:
    db = scene.gateway.db
    for stop in stops():
        await scene.restore()
        before = await world(db)
        given = {**own_action(scene.temple, mutation), "idempotencyKey": "the key"}
        crashed = await scene.crash(mutation, given, stop)
        await assert_settled(db)
        scene.clock.advance(seconds=31)

        assert await scene.typename_of(mutation, given) == "CharacterPayload"

        assert await world(db) == {**before, **OWN_CHANGES[mutation]}
        await assert_settled(db)
        if not crashed:
            break


async def resting(db: Database) -> list[str]:
    found = await db["game.characters"].find({"resting_since": {"$ne": None}}).to_list()
    return [one["name"] for one in found]


async def test_a_rest_that_crashes_anywhere_is_finished_and_an_action_ends_it(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    scene, db = Keeping(gateway, clock), gateway.db
    for stop in stops():
        await scene.restore()
        await scene.age()
        before = await world(db)
        faulty, crashing_db = FaultyDatabase.around(db, stop)
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
        if not faulty.has_crashed:
            break


async def test_an_action_of_a_resting_character_ends_its_rest_wherever_it_crashes(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    scene = Resting(gateway, clock)
    for stop in stops():
        await scene.restore()
        given = {**action(scene.temple, "drop"), "idempotencyKey": "the key"}
        crashed = await scene.crash("drop", given, stop)
        scene.clock.advance(seconds=31)

        assert await scene.typename_of("drop", given) == "CharacterPayload"

        await scene.run_jobs()
        assert await resting(gateway.db) == []
        if not crashed:
            break
