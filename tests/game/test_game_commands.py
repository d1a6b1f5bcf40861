"""The commands of the game: their number (`budgets.json`), shards and indexes, and what large inventories cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from portico.resolvers.game.inventories.stacks import Place, stack_id
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.writes.settler import Settler
from portico.schema.kinds import Kind
from tests.game.kit import KIT
from tests.game.support.scene import action, add_temple, assert_settled, own_action
from tests.game.support.stacks import bag, give, goods, keyed, moved, offer, offered, used
from tests.game.support.world import character_id, keeper_id
from tests.support.explaining import explain
from tests.support.harness import IS_SOAK, MUTATIONS, GatewayClient
from tests.support.routing import unroutable
from tests.support.sending import assert_indexed, assert_sends, names, sent

ME = "tester"
STACKS, TRADES, PAIRS = "game.stacks", "game.trades", "game.trade_pairs"
LARGE = 1_000_000 if IS_SOAK else 5_000
PAGE = 50

READS: dict[str, tuple[str, list[str]]] = {
    "a bag": (f'{{ inventory(owner: "{ME}") {{ stacks {{ nodes {{ name quantity }} }} }} }}', [f"find {STACKS}"]),
    "two bags": (
        f"""{{ a: inventory(owner: "{ME}") {{ stacks {{ nodes {{ name }} }} }}
              b: inventory(owner: "{ME}", name: "bank") {{ stacks {{ nodes {{ name }} }} }} }}""",
        [f"aggregate {STACKS}"],
    ),
    "the number of stacks in two bags": (
        f"""{{ a: inventory(owner: "{ME}") {{ stacks {{ totalCount }} }}
              b: inventory(owner: "{ME}", name: "bank") {{ stacks {{ totalCount totalCountIsExact }} }} }}""",
        [f"aggregate {STACKS}", f"aggregate {STACKS}"],
    ),
    "items of two bags": (
        f"""{{ a: inventory(owner: "{ME}") {{ x: stack(category: "thing", itemId: "sword") {{ quantity }}
                 y: stack(category: "thing", itemId: "coin") {{ quantity }} }}
              b: inventory(owner: "{ME}", name: "bank") {{ stack(category: "thing", itemId: "sword") {{ quantity }} }}
            }}""",
        [f"find {STACKS}"],
    ),
    "the viewer's open trades": (
        "{ viewer { trades(state: OFFERED) { nodes { state expiresAt } } } }",
        [f"find {TRADES}"],
    ),
    "the number of the viewer's open trades": (
        "{ viewer { trades(state: OFFERED) { totalCount nodes { id } } } }",
        [f"aggregate {TRADES}", f"find {TRADES}"],
    ),
    "the viewer's trades": ("{ viewer { trades { nodes { state offers { itemId } } } } }", [f"find {TRADES}"]),
}
# Operation records come with every key. The other commands are those of `exchanges`.
OPERATION = ["insert operations", "update operations"]
# The record that decides these has the outcome, too.
DECIDED_BY_RECORD = {"a move", "an offer"}
WRITES: dict[str, tuple[str, list[str]]] = {
    "a consumption": ("consume", [f"findAndModify {STACKS}"]),
    "a move": (
        "transferStack",
        [f"find {STACKS}", f"find {STACKS}", f"insert {TRADES}", f"update {STACKS}", f"update {STACKS}"],
    ),
    "an offer": ("offerTrade", [f"insert {TRADES}", f"update {STACKS}", f"update {STACKS}", f"update {PAIRS}"]),
    "an acceptance": (
        "acceptTrade",
        [
            f"aggregate {TRADES}",
            f"findAndModify {TRADES}",
            f"update {STACKS}",
            f"update {STACKS}",
            f"update {PAIRS}",
            f"update {TRADES}",
        ],
    ),
    "a cancellation": (
        "cancelTrade",
        [f"aggregate {TRADES}", f"findAndModify {TRADES}", f"update {STACKS}", f"update {STACKS}", f"update {PAIRS}"],
    ),
}


async def inputs(gateway: GatewayClient) -> dict[str, dict[str, Any]]:
    await give(gateway.db, ME, "sword", 90)
    await give(gateway.db, ME, "sword", 9, name="bank")
    await give(gateway.db, "jonas", "coin", 90)
    mine = bag(ME)
    # What an inventory gets for the first time takes no more commands.
    accepted, cancelled = [await offer(gateway, "jonas", ME, [goods("coin")], [goods("sword")]) for _ in range(2)]
    return {
        "a consumption": used("sword", of=mine),
        "a move": moved("sword", of=mine, to=bag(ME, "vault")),
        "an offer": offered([goods("sword")], [goods("coin")], of=mine),
        "an acceptance": keyed(id=accepted),
        "a cancellation": keyed(id=cancelled),
    }


async def test_every_write_sends_few_indexed_commands_and_each_to_one_shard(gateway: GatewayClient) -> None:
    given = await inputs(gateway)
    for name, (mutation, expected) in WRITES.items():
        operation = OPERATION[:1] if name in DECIDED_BY_RECORD else OPERATION
        call = gateway.data(MUTATIONS[mutation], {"input": given[name]})

        assert await assert_sends(gateway, call, sorted([*expected, *operation]), name) == [], name


async def test_every_read_sends_its_indexed_commands_and_lists_go_to_all_shards(gateway: GatewayClient) -> None:
    await inputs(gateway)
    for name, (text, expected) in READS.items():
        commands = await sent(gateway, gateway.data(text))

        assert names(commands) == expected, name
        assert unroutable(commands) == ([] if name == "items of two bags" else list(map(_astray, commands))), name
        await assert_indexed(gateway, commands)


def _astray(command: Mapping[str, Any]) -> str:
    (name,) = names([command])
    wanted = command["filter"] if "filter" in command else command["pipeline"][0]["$match"]
    paths = "inventory owner quantity" if STACKS in name else "kind owners" + (" state" if "state" in wanted else "")
    return f"{name} {paths}"


async def test_any_page_of_a_large_inventory_examines_its_own_rows(gateway: GatewayClient) -> None:
    await _fill(gateway)
    lists = {
        "by category": "first: 50",
        "by name": "first: 50, sort: NAME",
        "a category": 'first: 50, category: "c3"',
        "a category by name": 'first: 50, category: "c3", sort: NAME',
        "a prefix": 'first: 50, namePrefix: "ITEM 0000"',
        "a prefix in a category": 'first: 50, category: "c3", namePrefix: "item 0"',
    }
    for name, arguments in lists.items():
        after = ""
        for _ in range(3):
            text = f"""{{ inventory(owner: "{ME}") {{ stacks({arguments}{after}) {{
              nodes {{ name }} pageInfo {{ endCursor }} }} }} }}"""
            (command,) = await sent(gateway, gateway.data(text))
            page = (await gateway.data(text))["inventory"]["stacks"]
            (plan,) = await explain(gateway.db, command)

            assert len(page["nodes"]) == PAGE, name
            assert (plan.scans_collection, plan.sorts_in_memory) == (False, False), name
            # One more row says whether there is a next page, and one whether the caller sees that row.
            assert plan.documents_examined <= PAGE + 2, name
            assert plan.keys_examined <= PAGE + 10, name
            after = f', after: "{page["pageInfo"]["endCursor"]}"'


async def _fill(gateway: GatewayClient) -> None:
    """Fill the bag with many stacks in ten categories, every third of which is empty."""
    place = Place(ME, "bag")
    for start in range(0, LARGE, 10_000):
        await gateway.db[STACKS].insert_many(
            {
                "_id": stack_id(place, f"c{number % 10}", f"item {number:07}"),
                "owner": ME,
                "inventory": "bag",
                "category": f"c{number % 10}",
                "item_id": f"item {number:07}",
                "name": f"Item {number:07}",
                "name_key": f"item {number:07}",
                "quantity": number % 3,
                "granted": number % 3,
                "consumed": 0,
                "notes": [],
            }
            for number in range(start, min(start + 10_000, LARGE))
        )


BUDGETS = KIT.budgets
WORLD_READS = {
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
ACTIONS = {
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
    for name, text in WORLD_READS.items():
        variables = {key: value for key, value in ids.items() if f"${key}:" in text}

        await assert_sends(gateway, gateway.data(text, variables), BUDGETS[name], name)


@pytest.mark.parametrize("name", [*ACTIONS, *OWN_WRITES])
async def test_every_action_sends_the_indexed_commands_of_its_budget(gateway: GatewayClient, name: str) -> None:
    """In a process that knows no room yet. It reads a room once and remembers it, so later actions send no more."""
    temple = await add_temple(gateway.db, gateway.subject)
    mutation = {**ACTIONS, **OWN_WRITES}[name]
    given = action(temple, mutation) if name in ACTIONS else own_action(temple, mutation)
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
