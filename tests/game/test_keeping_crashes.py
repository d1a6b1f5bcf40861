"""Moves by an operator, deletions, spawned characters and rests that crash or pause anywhere."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.documents import Database
from portico.resolvers.game.locations import LOCATIONS
from portico.resolvers.game.resting import rest_idle
from portico.resolvers.game.rooms import Rooms
from portico.resolvers.game.turn_jobs import finish_turns, settle_rooms
from portico.resolvers.writes.sweeps import SweepFailed
from tests.game.support.scene import action, assert_settled, assert_sound, world
from tests.game.support.turn_scene import Scene
from tests.support.harness import GatewayClient, SettableClock, stops, stops_of
from tests.support.interruptions import database_of, interrupted

DAY = timedelta(days=1)
# What `me` has, which falls to the floor.
_THINGS = ("knife", "hat", "axe", "dagger", "cap", "bag", "apple", "pear")
_GONE = ("Tester", "gold of Tester", "equipment of Tester")
CHANGES: dict[str, dict[str, Any]] = {
    "moveCharacter": {"Tester": "Market"},
    "deleteCharacter": dict.fromkeys(_THINGS, "Temple"),
    "spawnCharacter": {"Eva": "Market", "gold of Eva": 100, "equipment of Eva": []},
}


class Keeping(Scene):
    """The temple; with `rests`, `me` rests."""

    rests = False

    async def build(self) -> None:
        await super().build()
        if self.rests:
            await self.age()
            assert await self.rest(self.gateway.db) == 1

    async def age(self) -> None:
        """Makes the latest action of `me` old."""
        entry = {"_id": self.temple.room["_id"], "characters._id": self.temple.me["_id"]}
        old = {"characters.$.since": self.clock.now() - 2 * DAY}
        assert (await self.gateway.db[LOCATIONS.name].update_one(entry, {"$set": old})).matched_count

    async def rest(self, db: Database) -> int:
        return await rest_idle(db, self.restart(), idle_for=DAY, now=self.clock.now())


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Keeping:
    return Keeping(gateway, clock)


def after(before: dict[str, Any], mutation: str) -> dict[str, Any]:
    gone = _GONE if mutation == "deleteCharacter" else ()
    return {name: value for name, value in {**before, **CHANGES[mutation]}.items() if name not in gone}


@pytest.mark.parametrize("jobs_first", [True, False])
@pytest.mark.parametrize("rests", [False, True])
@pytest.mark.parametrize("mutation", CHANGES)
async def test_what_an_operator_does_crashes_anywhere_and_has_one_effect(
    scene: Keeping, mutation: str, rests: bool, jobs_first: bool
) -> None:
    db = scene.gateway.db
    scene.rests = rests
    for stop in stops_of(jobs_first=jobs_first):
        await scene.restore()
        before = await world(db)
        given = {**action(scene.temple, mutation), "idempotencyKey": "the key"}
        crashed = await scene.crash(mutation, given, stop)
        await assert_sound(db)
        scene.restart()
        if jobs_first:
            await scene.jobs()
            assert await world(db) in (before, after(before, mutation))
            await assert_settled(db)
        scene.clock.advance(seconds=31)

        assert (await scene.typename_of(mutation, given)).endswith("Payload")

        await scene.jobs()
        assert await world(db) == after(before, mutation)
        await assert_settled(db)
        if not crashed:
            break


@pytest.mark.parametrize("mutation", CHANGES)
async def test_a_process_that_resumes_after_others_have_finished_the_turn_changes_nothing_more(
    scene: Keeping, mutation: str
) -> None:
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
            assert (await scene.typename_of(mutation, given)).endswith("Payload")

        await scene.jobs()
        assert await world(db) == after(before, mutation)
        await assert_settled(db)
        if not has_paused:
            break


async def test_a_rest_that_crashes_anywhere_is_finished_and_an_action_ends_it(scene: Keeping) -> None:
    db = scene.gateway.db
    for stop in stops():
        await scene.restore()
        await scene.age()
        before = await world(db)
        faulty, crashing_db = FaultyDatabase.around(db, stop)
        with contextlib.suppress(Crash, SweepFailed):
            await scene.rest(crashing_db)
        await assert_sound(db)

        await scene.jobs()
        await scene.rest(db)
        await scene.jobs()

        assert await world(db) == before
        assert await resting(db) == ["Tester"]
        await assert_settled(db)
        assert await scene.typename_of("pickUp", action(scene.temple, "pickUp")) == "CharacterPayload"
        assert await world(db) == {**before, "sword": "Tester"}
        assert await resting(db) == []
        await scene.jobs()
        await assert_settled(db)
        if not faulty.has_crashed:
            break


async def resting(db: Database) -> list[str]:
    found = await db["game.characters"].find({"resting_since": {"$ne": None}}).to_list()
    return [one["name"] for one in found]


@pytest.mark.parametrize("jobs_first", [True, False])
async def test_an_action_of_a_resting_character_crashes_anywhere_and_has_one_effect(
    scene: Keeping, jobs_first: bool
) -> None:
    db = scene.gateway.db
    scene.rests = True
    for stop in stops_of(jobs_first=jobs_first):
        await scene.restore()
        before = await world(db)
        given = {**action(scene.temple, "drop"), "idempotencyKey": "the key"}
        crashed = await scene.crash("drop", given, stop)
        await assert_sound(db)
        scene.restart()
        if jobs_first:
            await scene.jobs()
            await assert_settled(db)
        scene.clock.advance(seconds=31)

        assert await scene.typename_of("drop", given) == "CharacterPayload"

        await scene.jobs()
        assert await world(db) == {**before, "bag": "Temple", "apple": "Temple"}
        assert await resting(db) == []
        await assert_settled(db)
        if not crashed:
            break
