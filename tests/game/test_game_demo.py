"""The demo has a world. Its viewer plays a character in it, walks to a shop, buys a sword and wields it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from portico.gateway.demo import demo_token
from portico.gateway.demo.loading import Demo
from portico.gateway.domains.game import demo
from portico.resolvers.game.world.blueprints import SHOP
from portico.resolvers.game.world.world_imports import room_id
from portico.resolvers.writes.marks import derived_id
from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.game.support.world import keeper_id
from tests.support.harness import GatewayClient, assert_invariants

MINE = "{ viewer { characters { id name gold location { name } weapons { right { name } } inventory { name } } } }"
MOVE = """mutation ($me: ID!, $to: Direction!) { move(input: { characterId: $me, direction: $to }) {
  ... on CharacterPayload { character { location { name } } } } }"""
BUY = """mutation ($me: ID!, $keeper: ID!, $item: ID!) {
  buy(input: { characterId: $me, shopkeeperId: $keeper, itemId: $item }) { __typename }
  wield(input: { characterId: $me, itemId: $item, hand: RIGHT }) { __typename } }"""
_OPPOSITE = {"n": "s", "s": "n", "e": "w", "w": "e", "up": "down", "down": "up"}


async def load(gateway: GatewayClient) -> Counter[str]:
    """Loads the demo of the game. Returns how many records of its world had each outcome."""
    counts: Counter[str] = Counter()

    async def load_files(importer: str, files: Sequence[Path]) -> None:
        for file in files:
            counts.update(await gateway.import_records(importer, file))

    state = gateway.state
    await demo.load(Demo(gateway.db, state.clock.now(), 1, Path(), state.resources, load_files, lambda _line: None))
    return counts


@pytest.fixture
def player(gateway: GatewayClient) -> GatewayClient:
    gateway.roles, gateway.subject = (Role.ADMIN,), demo_token.SUBJECT
    return gateway


async def test_the_viewer_buys_a_sword_and_wields_it_and_loading_again_takes_nothing_back(
    player: GatewayClient,
) -> None:
    first = await load(player)
    (wren,) = (await player.data(MINE))["viewer"]["characters"]
    for to in ("S", "S", "E", "N"):
        moved = await player.data(MOVE, {"me": wren["id"], "to": to})
    smithy = room_id("smithy")
    sword = Kind.encode_id("Item", derived_id(f"world.{SHOP}.smith.0", "long-sword"))
    given = {"me": wren["id"], "keeper": keeper_id({"_id": smithy}), "item": sword}

    bought = await player.data(BUY, given)
    again = await load(player)

    assert (wren["name"], wren["gold"], wren["location"]["name"]) == ("Wren", 100, "The Temple of Lamps")
    assert moved["move"]["character"]["location"]["name"] == "The Smithy"
    assert bought == {"buy": {"__typename": "CharacterPayload"}, "wield": {"__typename": "CharacterPayload"}}
    (wren,) = (await player.data(MINE))["viewer"]["characters"]
    assert wren["weapons"]["right"] == {"name": "long sword"}
    assert (wren["gold"], wren["location"]["name"], wren["inventory"]) == (82, "The Smithy", [{"name": "long sword"}])
    assert (set(first), again) == ({"created"}, {"unchanged": first.total()})
    await assert_invariants(player)


INVENTORIES = """{
  bag: inventory(owner: "demo") { stacks { nodes { itemId quantity } } }
  shop: inventory(owner: "npc:outfitter", name: "shop") { stacks { nodes { itemId quantity } } }
  viewer { trades { nodes { id state from to } } } }"""
ACCEPT = "mutation ($id: ID!) { acceptTrade(input: { id: $id }) { __typename } }"


async def test_the_viewer_has_stacks_and_two_open_trades_and_loading_again_gives_nothing_back(
    player: GatewayClient,
) -> None:
    await load(player)
    first = await player.data(INVENTORIES)
    trade = next(one for one in first["viewer"]["trades"]["nodes"] if one["to"] == demo_token.SUBJECT)

    accepted = await player.data(ACCEPT, {"id": trade["id"]})
    held = await player.data(INVENTORIES)
    await load(player)

    assert {(one["from"], one["to"], one["state"]) for one in first["viewer"]["trades"]["nodes"]} == {
        ("demo", "mara", "OFFERED"),
        ("mara", "demo", "OFFERED"),
    }
    assert {"itemId": "mint", "quantity": 15} in first["bag"]["stacks"]["nodes"]
    assert {"itemId": "amber", "quantity": 9} in first["bag"]["stacks"]["nodes"]
    assert {"itemId": "lantern", "quantity": 20} in first["shop"]["stacks"]["nodes"]
    assert accepted == {"acceptTrade": {"__typename": "TradePayload"}}
    assert {"itemId": "mint", "quantity": 10} in held["bag"]["stacks"]["nodes"]
    assert {"itemId": "light", "quantity": 1} in held["bag"]["stacks"]["nodes"]
    assert await player.data(INVENTORIES) == held
    await assert_invariants(player)


def test_every_room_can_be_reached_and_left_and_every_way_is_wide_enough() -> None:
    records: list[dict[str, Any]] = [orjson.loads(line) for line in demo.WORLD.read_bytes().splitlines()]
    rooms = {one["id"]: one for one in records if "exits" in one}
    reached, left = {"temple"}, ["temple"]
    while left:
        for to in rooms[left.pop()]["exits"].values():
            if to not in reached:
                reached.add(to)
                left.append(to)

    assert reached == set(rooms)
    assert 30 <= len(rooms) <= 40
    # Outside of the maze, the way back is the opposite direction.
    for key, one in rooms.items():
        for way, to in one["exits"].items():
            assert one["zone"] == "maze" or rooms[to]["exits"][_OPPOSITE[way]] == key
    assert Counter("keeper" in one for one in records)[True] == 5


async def test_a_character_of_the_demo_that_was_deleted_does_not_come_back(player: GatewayClient) -> None:
    await load(player)
    (wren,) = (await player.data(MINE))["viewer"]["characters"]
    await player.result("deleteCharacter", {"characterId": wren["id"]})

    await load(player)

    assert (await player.data(MINE))["viewer"]["characters"] == []
    await assert_invariants(player)
