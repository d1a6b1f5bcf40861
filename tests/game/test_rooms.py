"""What rooms keep of turns, and the copies of rooms that characters have. Answers show both as they were together."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest

from portico.resolvers.documents import Document
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_jobs import settle_rooms
from tests.game.support.machine import MUTATIONS, Machine, State
from tests.game.support.model import Call, Setting, Thing, World
from tests.game.support.stacks import do
from tests.game.support.world import add_character, add_room, character_id, item, item_ids
from tests.game.support.worlds import machine_of
from tests.support.documents import stored
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, assert_invariants, new_key, run_jobs
from tests.support.interruptions import crashing, database_of, delayed, interrupted

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
async def others(players: Machine, other: GatewayClient, clock: SettableClock) -> Machine:
    """The same players, at another gateway."""
    return Machine(other, clock, SETTING, players.ids, [State(WORLD)])


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


NAMES = [f"player {number}" for number in range(12)]
CROWD_SETTING = Setting(
    exits={"square": {}},
    keepers={},
    strength=dict.fromkeys([*NAMES, "last"], 12),
    things={f"thing of {name}": Thing(1, 5, "OTHER") for name in [*NAMES, "last"]},
)
CROWD = World(
    setting=CROWD_SETTING,
    rooms=dict.fromkeys(CROWD_SETTING.strength, "square"),
    gold=dict.fromkeys(CROWD_SETTING.strength, 100),
    places=dict.fromkeys(CROWD_SETTING.things, ("floor", "square")),
)


@pytest.fixture
async def crowd(gateway: GatewayClient, clock: SettableClock) -> Machine:
    return await machine_of(gateway, clock, CROWD, start="square")


async def pick_up(crowd: Machine, name: str) -> None:
    result = await crowd.ask(Call("pickUp", name, f"thing of {name}", "", f"{name} picks up {crowd.ids[name]}"))
    assert result["__typename"] == "CharacterPayload", result


async def square(crowd: Machine) -> Document:
    return await stored(crowd.gateway.db, "game.locations", {"name": "square"})


async def with_took(crowd: Machine) -> list[str]:
    """Returns the names of the characters for whom the room keeps what their latest turn gave them."""
    return [entry["name"] for entry in (await square(crowd))["characters"] if entry["took"]]


async def test_a_room_does_not_keep_what_concurrent_turns_gave_to_characters(crowd: Machine) -> None:
    await asyncio.gather(*(pick_up(crowd, name) for name in NAMES))
    await pick_up(crowd, "last")

    assert await with_took(crowd) == ["last"]


async def test_a_job_empties_what_a_restarted_process_no_longer_knows(crowd: Machine, clock: SettableClock) -> None:
    gateway = crowd.gateway
    await asyncio.gather(*(pick_up(crowd, name) for name in NAMES))
    gateway.state.resources[Rooms] = Rooms()
    assert await with_took(crowd) != []
    before = await square(crowd)

    clock.advance(seconds=6)
    await run_jobs(gateway, clock)

    after = await square(crowd)
    assert await with_took(crowd) == []
    assert after["took_since"] is None
    # Players see no difference, so nothing is delivered or refreshed.
    assert after["version"] == before["version"]
    await assert_invariants(gateway)


async def test_a_job_keeps_what_a_character_has_not_got_yet(crowd: Machine, clock: SettableClock) -> None:
    gateway = crowd.gateway
    call = Call("pickUp", "last", "thing of last", "", f"held back {crowd.ids['last']}")
    # The operation record, the slot, and the room's update.
    with crashing(gateway, 3):
        await gateway.ask(MUTATIONS[call.action], crowd.given(call), token=crowd.token(call.actor))
    assert await with_took(crowd) == ["last"]
    rooms = gateway.state.resources[Rooms] = Rooms()
    clock.advance(seconds=6)

    await settle_rooms(gateway.db, rooms, now=clock.now())
    assert await with_took(crowd) == ["last"]
    await run_jobs(gateway, clock)

    assert await with_took(crowd) == []
    character = await stored(gateway.db, "game.characters", {"name": "last"})
    assert [one["name"] for one in character["items"]] == ["thing of last"]
    await assert_invariants(gateway)


ROUNDS = 40 if IS_SOAK else 3
CALLS = 6


def ids_of(found: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for item in found for one in (item, *(item["contents"] or []))]


def assert_whole(result: dict[str, Any], every: list[str], kind: str, moved: str) -> None:
    """Each item is in the inventory or on the floor, and the item of the call where the call has put it."""
    assert result["__typename"] == "CharacterPayload", result
    character = result["character"]
    carried, floor = ids_of(character["inventory"]), ids_of(character["location"]["inventory"])
    assert sorted([*carried, *floor]) == sorted(every), kind
    assert moved in (floor if kind in ("drop", "putIn") else carried), kind


def calls_of(room: Document, me: Document) -> list[tuple[str, str, dict[str, str]]]:
    """Returns six calls, each with an item of its own: the mutation, the item, and the rest of the input."""
    floor = {one["name"]: one for one in room["items"]}
    mine = {one["name"]: one for one in me["items"]}
    (chest,) = item_ids([floor["chest"]])
    names = [
        ("pickUp", floor["lamp"], {}),
        ("pickUp", floor["rope"], {}),
        ("takeOut", floor["coin"], {"containerId": chest}),
        ("drop", mine["pear"], {}),
        ("putIn", mine["ring"], {"containerId": chest}),
        ("wear", mine["hat"], {"region": "HEAD"}),
    ]
    return [(kind, item_ids([one])[0], given) for kind, one, given in names]


async def add_scene(gateway: GatewayClient) -> tuple[Document, Document]:
    chest = item("chest", capacity=10_000)
    floor = [item("lamp"), item("rope"), chest, item("coin", inside=chest["_id"])]
    mine = [item("pear"), item("ring"), item("hat", kind="ARMOR", regions=["HEAD"])]
    room = await add_room(gateway.db, "Temple", items=floor)
    return room, await add_character(gateway.db, "ann", room, items=mine)


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_answers_of_parallel_calls_of_one_character_at_two_gateways_are_whole(
    gateway: GatewayClient, other: GatewayClient, seed: int
) -> None:
    rng = random.Random(seed)
    room, me = await add_scene(gateway)
    every = item_ids([*room["items"], *me["items"]])
    calls = calls_of(room, me)
    rng.shuffle(calls)

    async def act(at: GatewayClient, key: str, kind: str, moved: str, given: dict[str, str]) -> None:
        given = {**given, "characterId": character_id(me), "itemId": moved, "idempotencyKey": key}
        assert_whole(await do(at, kind, **given), every, kind, moved)

    keys = [new_key() for _ in calls]

    with (
        database_of(gateway, delayed(gateway.state.database, rng, 0.01)),
        database_of(other, delayed(other.state.database, rng, 0.01)),
    ):
        ats = itertools.cycle((gateway, other))
        await asyncio.gather(*(act(next(ats), key, *call) for key, call in zip(keys, calls, strict=True)))
    # Stored answers, at the other gateway.
    for key, call in zip(keys, calls, strict=True):
        await act(other, key, *call)

    await assert_invariants(gateway)


@pytest.mark.parametrize("changes", [2, 3, 4])
async def test_a_repeated_call_whose_process_died_before_the_copies_were_refreshed_is_whole(
    gateway: GatewayClient, other: GatewayClient, clock: SettableClock, changes: int
) -> None:
    room, me = await add_scene(gateway)
    friend = await add_character(gateway.db, "bob", room)
    kind, moved, given = calls_of(room, me)[0]
    given = {**given, "characterId": character_id(me), "itemId": moved, "idempotencyKey": new_key()}
    with crashing(gateway, changes):
        text = "mutation ($input: ItemInput!) { pickUp(input: $input) { __typename } }"
        await gateway.ask(text, {"input": given}, token=gateway.token("ann"))
    gateway.state.resources[Rooms] = Rooms()
    clock.advance(seconds=31)

    result = await do(other, kind, **given)

    assert_whole(result, item_ids([*room["items"], *me["items"]]), kind, moved)
    # The copies of others are current before the answer.
    seen = await stored(gateway.db, "game.characters", friend)
    assert moved not in item_ids(seen["location"]["items"])
