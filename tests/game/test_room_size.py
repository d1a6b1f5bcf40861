"""What a room keeps of turns that are over: nothing, after the next turn in it or the next run of a job."""

from __future__ import annotations

import asyncio

import pytest

from portico.resolvers.documents import Document
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_jobs import settle_rooms
from tests.game.support.machine import MUTATIONS, Machine
from tests.game.support.model import Call, Setting, Thing, World
from tests.game.support.worlds import machine_of
from tests.support.documents import stored
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs
from tests.support.interruptions import crashing

NAMES = [f"player {number}" for number in range(12)]
SETTING = Setting(
    exits={"square": {}},
    keepers={},
    strength=dict.fromkeys([*NAMES, "last"], 12),
    things={f"thing of {name}": Thing(1, 5, "OTHER") for name in [*NAMES, "last"]},
)
WORLD = World(
    setting=SETTING,
    rooms=dict.fromkeys(SETTING.strength, "square"),
    gold=dict.fromkeys(SETTING.strength, 100),
    places=dict.fromkeys(SETTING.things, ("floor", "square")),
)


@pytest.fixture
async def players(gateway: GatewayClient, clock: SettableClock) -> Machine:
    return await machine_of(gateway, clock, WORLD, start="square")


async def pick_up(players: Machine, name: str) -> None:
    result = await players.ask(Call("pickUp", name, f"thing of {name}", "", f"{name} picks up {players.ids[name]}"))
    assert result["__typename"] == "CharacterPayload", result


async def square(players: Machine) -> Document:
    return await stored(players.gateway.db, "game.locations", {"name": "square"})


async def with_took(players: Machine) -> list[str]:
    """Returns the names of the characters for whom the room keeps what their latest turn gave them."""
    return [entry["name"] for entry in (await square(players))["characters"] if entry["took"]]


async def test_a_room_does_not_keep_what_concurrent_turns_gave_to_characters(players: Machine) -> None:
    await asyncio.gather(*(pick_up(players, name) for name in NAMES))
    await pick_up(players, "last")

    assert await with_took(players) == ["last"]


async def test_a_job_empties_what_a_restarted_process_no_longer_knows(players: Machine, clock: SettableClock) -> None:
    gateway = players.gateway
    await asyncio.gather(*(pick_up(players, name) for name in NAMES))
    gateway.state.resources[Rooms] = Rooms()
    assert await with_took(players) != []
    before = await square(players)

    clock.advance(seconds=6)
    await run_jobs(gateway, clock)

    after = await square(players)
    assert await with_took(players) == []
    assert after["took_since"] is None
    # Players see no difference, so nothing is delivered or refreshed.
    assert after["version"] == before["version"]
    await assert_invariants(gateway)


async def test_a_job_keeps_what_a_character_has_not_got_yet(players: Machine, clock: SettableClock) -> None:
    gateway = players.gateway
    call = Call("pickUp", "last", "thing of last", "", f"held back {players.ids['last']}")
    # The operation record, the slot, and the room's update.
    with crashing(gateway, 3):
        await gateway.ask(MUTATIONS[call.action], players.given(call), token=players.token(call.actor))
    assert await with_took(players) == ["last"]
    rooms = gateway.state.resources[Rooms] = Rooms()
    clock.advance(seconds=6)

    await settle_rooms(gateway.db, rooms, now=clock.now())
    assert await with_took(players) == ["last"]
    await run_jobs(gateway, clock)

    assert await with_took(players) == []
    character = await stored(gateway.db, "game.characters", {"name": "last"})
    assert [one["name"] for one in character["items"]] == ["thing of last"]
    await assert_invariants(gateway)
