"""How many commands what characters do may send to MongoDB: `budgets.json` lists them."""

from __future__ import annotations

import pytest

from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.writes.settler import Settler
from portico.schema.kinds import Kind
from tests.game.kit import KIT
from tests.game.support.scene import action, add_temple, assert_settled, own_action
from tests.game.support.world import character_id, keeper_id
from tests.support.harness import MUTATIONS, GatewayClient
from tests.support.routing import unroutable
from tests.support.sending import assert_indexed

BUDGETS = KIT.budgets
READS = {
    "a character with its room": """query ($me: ID!) { character(id: $me) {
        gold inventory { name } location { name characters { name } inventory { name contents { name } } } } }""",
    "a room of the game": "query ($room: ID!) { location(id: $room) { name characters { name } inventory { name } } }",
    "the rooms behind the exits": """query ($room: ID!) { location(id: $room) {
        characters { kind } exits { direction location { name } } } }""",
    "a map": "query ($room: ID!) { worldMap(locationId: $room) { steps path location { name exits { locationId } } } }",
    "a shopkeeper with its wares": "query ($keeper: ID!) { character(id: $keeper) { gold inventory { name price } } }",
    "one's own characters": "{ viewer { characters { name location { name } } } }",
    "all characters": "{ characters { nodes { name owner } } }",
    "the characters of a player": '{ characters(owner: "tester") { nodes { name } } }',
    "the characters of a room": "query ($room: ID!) { characters(locationId: $room) { nodes { name } } }",
    "a character, a room and a shopkeeper": """query ($me: ID!, $room: ID!, $keeper: ID!) {
        nodes(ids: [$me, $keeper]) { id } location(id: $room) { name } }""",
}
WRITES = {
    "create a character": "createCharacter",
    "move a character": "move",
    "pick up an item": "pickUp",
    "drop an item": "drop",
    "take an item out of a chest": "takeOut",
    "put an item into a chest": "putIn",
    "wear an item": "wear",
    "wield a weapon": "wield",
    "unequip an item": "unequip",
    "give an item": "give",
    "buy an item": "buy",
    "sell an item": "sell",
    "move a character anywhere": "moveCharacter",
    "delete a character": "deleteCharacter",
    "spawn a character": "spawnCharacter",
}
OWN_WRITES = {"take an item out of one's bag": "takeOut", "put an item into one's bag": "putIn"}
# The copies of a room, and the characters of a player, are on all shards.
OF_MANY = {
    "update game.characters location._id location.version resting_since",
    "find game.characters location owner",
    "find game.characters owner",
    "find game.locations start",
}


async def test_every_read_of_the_world_sends_the_indexed_commands_of_its_budget(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, gateway.subject)
    ids = {"me": character_id(temple.me), "room": Kind.encode_id("Location", temple.room["_id"])}
    ids["keeper"] = keeper_id(temple.room)
    for name, text in READS.items():
        gateway.commands.clear()
        await gateway.data(text, {key: value for key, value in ids.items() if f"${key}:" in text})

        assert sorted(gateway.commands.names()) == BUDGETS[name], name
        await assert_indexed(gateway, list(gateway.commands.sent))


@pytest.mark.parametrize("name", [*WRITES, *OWN_WRITES])
async def test_every_action_sends_the_indexed_commands_of_its_budget(gateway: GatewayClient, name: str) -> None:
    """In a process that knows no room yet. It reads a room once and remembers it, so later actions send no more."""
    temple = await add_temple(gateway.db, gateway.subject)
    mutation = {**WRITES, **OWN_WRITES}[name]
    given = action(temple, mutation) if name in WRITES else own_action(temple, mutation)
    gateway.state.resources[Rooms] = Rooms(settler=gateway.state.resources.of(Settler))
    gateway.commands.clear()

    result = await gateway.result(mutation, given)

    sent = list(gateway.commands.sent)
    assert result["__typename"].endswith("Payload")
    assert sorted(gateway.commands.names()) == BUDGETS[name]
    assert set(unroutable(sent)) <= OF_MANY
    await assert_indexed(gateway, sent)
    await assert_settled(gateway.db)


async def test_a_repeated_action_by_its_key_sends_no_further_update_of_the_world(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, gateway.subject)
    given = {**action(temple, "pickUp"), "idempotencyKey": "once"}
    first = await gateway.ask(MUTATIONS["pickUp"], {"input": given})
    gateway.commands.clear()

    again = await gateway.ask(MUTATIONS["pickUp"], {"input": given})

    assert again.body == first.body
    assert sorted(gateway.commands.names()) == BUDGETS["repeat an action by its key"]


@pytest.mark.parametrize("mutation", ["pickUp", "give", "move", "wear"])
async def test_an_action_follows_from_reads_that_no_failover_rolls_back(gateway: GatewayClient, mutation: str) -> None:
    temple = await add_temple(gateway.db, gateway.subject)
    gateway.state.resources[Rooms] = Rooms(settler=gateway.state.resources.of(Settler))
    gateway.commands.clear()

    await gateway.result(mutation, action(temple, mutation))

    reads = [command for command in gateway.commands.sent if "find" in command]
    assert reads
    assert [read.get("readConcern", {}).get("level") for read in reads] == ["majority"] * len(reads)
