"""The copy of the room that a character has: whatever is delayed, an older copy never replaces a newer one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from portico.gateway.settings import Settings
from tests.game.support.machine import Machine, State
from tests.game.support.model import Call, Setting, Thing, World
from tests.game.support.worlds import machine_of
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs, running
from tests.support.interruptions import database_of, delayed, interrupted

THINGS = ("lamp", "rope", "torch")
SETTING = Setting(
    exits={"square": {"N": "cave"}, "cave": {"S": "square"}},
    keepers={},
    strength={"ann": 12, "bob": 12, "cem": 12},
    things={name: Thing(1, 5, "OTHER") for name in THINGS},
)
WORLD = World(
    setting=SETTING,
    rooms=dict.fromkeys(SETTING.strength, "square"),
    gold=dict.fromkeys(SETTING.strength, 100),
    places=dict.fromkeys(THINGS, ("floor", "square")),
)


@pytest.fixture
async def players(gateway: GatewayClient, clock: SettableClock) -> Machine:
    """Three characters and three things in the square."""
    return await machine_of(gateway, clock, WORLD, start="square")


@pytest.fixture
async def others(players: Machine, settings: Settings, clock: SettableClock) -> AsyncIterator[Machine]:
    """The same players, at another gateway."""
    async with running(settings, clock=clock) as other:
        yield Machine(other, clock, SETTING, players.ids, [State(WORLD)])


async def act(machine: Machine, action: str, actor: str, item: str = "", target: str = "") -> None:
    key = f"{action} {actor} {item} {target} {random.random()}"
    result = await machine.ask(Call(action, actor, item, target, key))
    assert result["__typename"] == "CharacterPayload", result


async def test_a_refresh_that_comes_late_does_not_replace_a_newer_copy(players: Machine, others: Machine) -> None:
    gateway = players.gateway

    async def overtake() -> None:
        await act(others, "pickUp", "bob", "rope")

    late = interrupted(gateway.state.database, "game.characters", "update_many", overtake)
    with database_of(gateway, late):
        await act(players, "pickUp", "ann", "lamp")

    world = WORLD.moved("lamp", "carried", "ann").moved("rope", "carried", "bob")
    assert await players.read_world() == world
    await assert_invariants(gateway)


async def test_who_arrives_sees_what_happened_on_the_way(players: Machine, others: Machine) -> None:
    gateway = players.gateway
    await act(players, "move", "bob", target="N")
    await act(players, "pickUp", "cem", "torch")

    async def overtake() -> None:
        # The copies of the cave are refreshed before the character has one.
        await act(others, "move", "cem", target="N")
        await act(others, "drop", "cem", "torch")

    late = interrupted(gateway.state.database, "game.characters", "find_one_and_update", overtake)
    with database_of(gateway, late):
        await act(players, "move", "ann", target="N")

    found = await players.read_world()
    assert found.rooms == {"ann": "cave", "bob": "cave", "cem": "cave"}
    assert found.places["torch"] == ("floor", "cave")
    await assert_invariants(gateway)


@pytest.mark.sample(3)
@pytest.mark.parametrize("stop", range(8))
async def test_copies_are_current_as_soon_as_a_late_job_has_run(
    players: Machine, others: Machine, clock: SettableClock, stop: int
) -> None:
    gateway = players.gateway

    async def overtake() -> None:
        clock.advance(seconds=31)
        await run_jobs(others.gateway, clock)
        await act(others, "pickUp", "bob", "rope")

    late = interrupted(gateway.state.database, None, None, overtake, skip=stop)
    with database_of(gateway, late):
        await act(players, "move", "ann", target="N")

    await players.read_world()
    await assert_invariants(gateway)


async def test_copies_are_current_after_delayed_writes_of_two_gateways(players: Machine, others: Machine) -> None:
    rng = random.Random(4)

    async def play(machine: Machine, actor: str, thing: str) -> None:
        for way in ("N", "S", "N"):
            await act(machine, "pickUp", actor, thing)
            await act(machine, "move", actor, target=way)
            await act(machine, "drop", actor, thing)

    with (
        database_of(players.gateway, delayed(players.gateway.state.database, rng, 0.01)),
        database_of(others.gateway, delayed(others.gateway.state.database, rng, 0.01)),
    ):
        await asyncio.gather(play(players, "ann", "lamp"), play(others, "bob", "rope"), play(players, "cem", "torch"))

    found = await players.read_world()
    assert set(found.places.values()) == {("floor", "cave")}
    await assert_invariants(players.gateway)
