"""Actions that crash or pause anywhere: a retry or a job finishes them, and nothing is lost or doubled."""

from __future__ import annotations

from typing import Any

import pytest

from portico.resolvers.game.rooms import Rooms
from portico.resolvers.game.turn_jobs import finish_turns, settle_rooms
from tests.game.support.scene import action, assert_settled, assert_sound, own_action, world
from tests.game.support.turn_scene import Scene
from tests.support.harness import GatewayClient, SettableClock, stops, stops_of
from tests.support.interruptions import database_of, interrupted

# What each action changes; see `world`.
CHANGES: dict[str, dict[str, Any]] = {
    "createCharacter": {"Eve": "Temple", "gold of Eve": 100, "equipment of Eve": []},
    "move": {"Tester": "Market"},
    "pickUp": {"sword": "Tester"},
    "drop": {"bag": "Temple", "apple": "Temple"},
    "takeOut": {"coin": "Tester"},
    "putIn": {"pear": "Temple"},
    "wear": {"equipment of Tester": ["cap", "hat", "knife"]},
    "wield": {"equipment of Tester": ["dagger", "hat", "knife"]},
    "unequip": {"equipment of Tester": ["knife"]},
    "give": {"bag": "Bo", "apple": "bag"},
    "buy": {"helmet": "Tester", "gold of Tester": 40, "gold of Smith": 1_060},
    "sell": {"axe": "Smith", "gold of Tester": 105, "gold of Smith": 995},
}
OWN_CHANGES: dict[str, dict[str, Any]] = {"takeOut": {"apple": "Tester"}, "putIn": {"pear": "bag"}}


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Scene:
    return Scene(gateway, clock)


@pytest.mark.parametrize("jobs_first", [True, False])
@pytest.mark.parametrize("mutation", CHANGES)
async def test_an_action_that_crashes_anywhere_has_one_effect(scene: Scene, mutation: str, jobs_first: bool) -> None:
    db = scene.gateway.db
    for stop in stops_of(jobs_first=jobs_first):
        await scene.restore()
        before = await world(db)
        given = {**action(scene.temple, mutation), "idempotencyKey": "the key"}
        crashed = await scene.crash(mutation, given, stop)
        await assert_sound(db)
        scene.restart()
        if jobs_first:
            await scene.jobs()
            assert await world(db) in (before, {**before, **CHANGES[mutation]})
            await assert_settled(db)
        scene.clock.advance(seconds=31)

        assert await scene.typename_of(mutation, given) == "CharacterPayload"

        await scene.jobs()
        assert await world(db) == {**before, **CHANGES[mutation]}
        await assert_settled(db)
        if not crashed:
            break


@pytest.mark.parametrize("mutation", OWN_CHANGES)
async def test_a_change_of_the_own_inventory_crashes_without_a_trace(scene: Scene, mutation: str) -> None:
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


@pytest.mark.parametrize("mutation", CHANGES)
async def test_a_process_that_resumes_after_others_have_finished_its_action_changes_nothing_more(
    scene: Scene, mutation: str
) -> None:
    """The call pauses before each of its commands, and jobs of another process finish what it has begun."""
    db = scene.gateway.db
    for skip in stops():
        await scene.restore()
        before = await world(db)
        has_paused = False

        async def meanwhile() -> None:
            nonlocal has_paused
            has_paused = True
            scene.clock.advance(seconds=31)
            other = Rooms()
            await finish_turns(db, other, now=scene.clock.now())
            await settle_rooms(db, other, now=scene.clock.now())
            await assert_sound(db)

        given = {**action(scene.temple, mutation), "idempotencyKey": "the key"}
        with database_of(scene.gateway, interrupted(db, None, None, meanwhile, skip=skip)):
            assert await scene.typename_of(mutation, given) == "CharacterPayload"

        await scene.jobs()
        assert await world(db) == {**before, **CHANGES[mutation]}
        await assert_settled(db)
        if not has_paused:
            break
