"""The commands of actions: their number, shards and indexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway.test_routing import unroutable
from tests.shop.test_shop_commands import assert_indexed
from tests.support.game_scene import Temple, action, add_temple, own_action
from tests.support.harness import GatewayClient

_SHARED = {"pickUp": "Item", "drop": "Item", "unequip": "Item", "takeOut": "Container", "putIn": "Container"}
CHARACTER, ROOM = "game.characters", "game.locations"
READ, READ_ROOM = f"find {CHARACTER}", f"find {ROOM}"
# Taking the slot, and freeing it with what the room has decided.
SLOT, DECIDE = f"findAndModify {CHARACTER}", f"update {ROOM}"
# The copies of the room, and its mark.
REFRESH = [f"update {CHARACTER}", f"update {ROOM}"]
# The process reads a room when it acts there for the first time.
TURN = [READ, SLOT, READ_ROOM, DECIDE, SLOT]
COMMANDS = {
    "pickUp": [*TURN, *REFRESH],
    "drop": [*TURN, *REFRESH],
    "takeOut": [*TURN, *REFRESH],
    "putIn": [*TURN, *REFRESH],
    "sell": TURN,
    "buy": TURN,
    # The character that gets the gift takes a turn, too.
    "give": [*TURN, READ_ROOM, READ, SLOT, DECIDE, SLOT, READ],
    # The old room lets go, the new one decides, both refresh, and the old one forgets.
    "move": [*TURN, READ_ROOM, DECIDE, READ_ROOM, *REFRESH, *REFRESH, DECIDE],
    # The room asks whether the creation is still under way, because its entry of an earlier one may be gone.
    "createCharacter": [
        *(READ, READ_ROOM, f"insert {CHARACTER}", READ_ROOM),
        *(f"update {CHARACTER}", DECIDE, f"update {CHARACTER}", READ_ROOM, *REFRESH, SLOT),
    ],
    "wear": [READ, SLOT],
    "wield": [READ, SLOT],
    "unequip": [READ, SLOT],
}
# These go to all shards: characters do not lie with their rooms.
ASTRAY = {
    f"update {CHARACTER} location._id location.version",
    f"find {CHARACTER} owner",
    f"find {ROOM} start",
}


async def sent_by(
    gateway: GatewayClient, mutation: str, input_of: Callable[[Temple, str], dict[str, Any]]
) -> list[str]:
    """Acts in a new temple. Returns the commands, after checking their indexes and shards."""
    temple = await add_temple(gateway.db)
    kind = _SHARED.get(mutation, mutation[0].upper() + mutation[1:])
    text = f"mutation ($input: {kind}Input!) {{ {mutation}(input: $input) {{ __typename }} }}"
    gateway.commands.clear()
    answer = await gateway.data(text, {"input": input_of(temple, mutation)})
    commands, found = list(gateway.commands.sent), gateway.commands.names()
    assert answer[mutation]["__typename"] == "CharacterPayload"
    assert set(unroutable(commands)) <= ASTRAY
    await assert_indexed(gateway, commands)
    return sorted(found)


@pytest.mark.parametrize("mutation", COMMANDS)
async def test_an_action_sends_few_indexed_commands(gateway: GatewayClient, mutation: str) -> None:
    assert await sent_by(gateway, mutation, action) == sorted(COMMANDS[mutation])


@pytest.mark.parametrize("mutation", ["takeOut", "putIn"])
async def test_a_change_of_the_own_inventory_takes_one_read_and_one_write(
    gateway: GatewayClient, mutation: str
) -> None:
    assert await sent_by(gateway, mutation, own_action) == sorted([READ, SLOT])
