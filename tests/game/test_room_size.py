"""What a room keeps of turns that are over: nothing, after the next turn in it."""

from __future__ import annotations

import asyncio

from bson import ObjectId

from portico.schema.nodes import decode_id
from tests.support.game_machine import Machine, State
from tests.support.game_model import Call, Setting, Thing, World
from tests.support.game_worlds import enter, store
from tests.support.harness import GatewayClient, SettableClock

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


async def test_a_room_does_not_keep_what_concurrent_turns_gave_to_characters(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    ids = await store(gateway.db, WORLD, start="square")
    ids |= {name: await enter(gateway, name, strength) for name, strength in SETTING.strength.items()}
    machine = Machine(gateway, clock, SETTING, ids, [State(WORLD)])

    async def pick_up(name: str) -> None:
        result = await machine.ask(Call("pickUp", name, f"thing of {name}", "", f"{name} picks up {ids[name]}"))
        assert result["__typename"] == "CharacterPayload", result

    await asyncio.gather(*map(pick_up, NAMES))
    await pick_up("last")

    room = await gateway.db["game.locations"].find_one({"_id": ObjectId(decode_id(ids["square"])[1])})
    assert room is not None
    assert [entry["name"] for entry in room["characters"] if entry["took"]] == ["last"]
