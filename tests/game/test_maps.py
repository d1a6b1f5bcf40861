"""Where exits lead, who is a shopkeeper, and maps of a part of the world."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world.locations import LOCATIONS
from tests.game.support.world import add_character, add_room, character_id, keeper, keeper_id, room_id
from tests.support.harness import GatewayClient
from tests.support.sending import assert_indexed

MAP = """query ($room: ID!, $steps: Int! = 2, $first: Int! = 50) {
  worldMap(locationId: $room, steps: $steps, first: $first) {
    id steps path location { id name exits { direction locationId } } } }"""


async def add_grid(db: Database, side: int) -> dict[tuple[int, int], Document]:
    """Stores a square of rooms, each with exits to its neighbors. Row 0 is in the north."""
    ids = {(row, column): ObjectId() for row in range(side) for column in range(side)}
    ways = {"N": (-1, 0), "S": (1, 0), "E": (0, 1), "W": (0, -1)}
    rooms = {}
    for (row, column), key in ids.items():
        around = {way: (row + down, column + right) for way, (down, right) in ways.items()}
        exits = [{"direction": way, "to": ids[to]} for way, to in reversed(around.items()) if to in ids]
        rooms[row, column] = await add_room(db, f"{row}.{column}", _id=key, exits=exits)
    return rooms


async def shown(gateway: GatewayClient, room: Document, **given: int) -> Any:
    return (await gateway.data(MAP, {"room": room_id(room), **given}, token=None))["worldMap"]


async def test_one_command_reads_the_rooms_behind_all_exits(gateway: GatewayClient, db: Database) -> None:
    rooms = await add_grid(db, 3)
    ann = await add_character(db, "ann", rooms[1, 1])
    text = """query ($me: ID!, $room: ID!) {
      character(id: $me) { location { exits { direction location { name } } } }
      location(id: $room) { exits { direction locationId location { id name } } } }"""
    gateway.commands.clear()

    given = {"me": character_id(ann), "room": room_id(rooms[0, 0])}
    found = await gateway.data(text, given, token=gateway.token("ann", []))

    behind = {one["direction"]: one["location"]["name"] for one in found["character"]["location"]["exits"]}
    assert behind == {"N": "0.1", "S": "2.1", "E": "1.2", "W": "1.0"}
    assert found["location"]["exits"][0]["location"] == {"id": room_id(rooms[0, 1]), "name": "0.1"}
    assert found["location"]["exits"][0]["locationId"] == room_id(rooms[0, 1])
    sent = gateway.commands.names()
    assert sent.count("find game.characters") == 1
    assert sent.count("find game.locations") <= 1 + 2


async def test_an_exit_that_leads_nowhere_shows_no_room(gateway: GatewayClient, db: Database) -> None:
    room = await add_room(db, "Cliff", exits=[{"direction": "N", "to": ObjectId()}])
    text = "query ($room: ID!) { location(id: $room) { exits { direction location { name } } } }"

    found = await gateway.data(text, {"room": room_id(room)}, token=None)

    assert found["location"]["exits"] == [{"direction": "N", "location": None}]
    assert [one["path"] for one in await shown(gateway, room)] == [[]]


async def test_a_room_tells_players_and_shopkeepers_apart(gateway: GatewayClient, db: Database) -> None:
    room = await add_room(db, "Smithy", keepers=[keeper("Smith")])
    ann = await add_character(db, "ann", room)
    text = """query ($room: ID!, $me: ID!) {
      location(id: $room) { characters { characterId name kind } }
      character(id: $me) { location { characters { characterId name kind } } } }"""

    given = {"room": room_id(room), "me": character_id(ann)}
    found = await gateway.data(text, given, token=gateway.token("ann", []))

    expected = [
        {"characterId": keeper_id(room), "name": "Smith", "kind": "SHOPKEEPER"},
        {"characterId": character_id(ann), "name": "Ann", "kind": "PLAYER"},
    ]
    assert found["location"]["characters"] == expected
    assert found["character"]["location"]["characters"] == expected


async def test_a_map_has_the_nearest_rooms_with_a_shortest_way_to_each(gateway: GatewayClient, db: Database) -> None:
    rooms = await add_grid(db, 7)

    found = await shown(gateway, rooms[3, 3], steps=2)

    assert [(one["steps"], one["location"]["name"]) for one in found] == [
        (0, "3.3"),
        *((1, name) for name in ("2.3", "4.3", "3.4", "3.2")),
        *((2, name) for name in ("1.3", "2.4", "2.2", "5.3", "4.4", "4.2", "3.5", "3.1")),
    ]
    assert [one["path"] for one in found[:7]] == [[], ["N"], ["S"], ["E"], ["W"], ["N", "N"], ["N", "E"]]
    assert len({one["id"] for one in found}) == len(found)
    names = {one["location"]["id"]: one["location"]["name"] for one in found}
    exits = {way["direction"]: names.get(way["locationId"]) for way in found[5]["location"]["exits"]}
    assert exits == {"N": None, "S": "2.3", "E": None, "W": None}


async def test_a_map_stops_at_its_number_of_rooms(gateway: GatewayClient, db: Database) -> None:
    rooms = await add_grid(db, 5)

    found = await shown(gateway, rooms[2, 2], steps=5, first=3)

    assert [one["location"]["name"] for one in found] == ["2.2", "1.2", "3.2"]


async def test_a_map_takes_one_indexed_command_a_step_and_one_for_what_it_shows(gateway: GatewayClient) -> None:
    rooms = await add_grid(gateway.db, 13)
    gateway.commands.clear()

    found = await shown(gateway, rooms[6, 6], steps=5, first=100)

    assert len(found) == 1 + 4 + 8 + 12 + 16 + 20
    assert gateway.commands.names() == ["find game.locations"] * 7
    await assert_indexed(gateway, list(gateway.commands.sent))
    gateway.commands.clear()
    twice = "query ($room: ID!) { a: worldMap(locationId: $room) { steps } b: worldMap(locationId: $room) { path } }"
    await gateway.data(twice, {"room": room_id(rooms[0, 0])}, token=None)
    assert gateway.commands.names() == ["find game.locations"] * 3


async def test_a_map_of_a_circle_ends_and_has_each_room_once(gateway: GatewayClient, db: Database) -> None:
    first = await add_room(db, "A")
    second = await add_room(db, "B", exits=[{"direction": "S", "to": first["_id"]}])
    ways = [{"direction": way, "to": second["_id"]} for way in ("DOWN", "UP", "N")]
    ways.append({"direction": "E", "to": first["_id"]})
    await db[LOCATIONS.name].update_one({"_id": first["_id"]}, {"$set": {"exits": ways}})

    found = await shown(gateway, first, steps=5)

    assert [(one["location"]["name"], one["path"]) for one in found] == [("A", []), ("B", ["N"])]


async def test_a_map_around_no_room_is_null(gateway: GatewayClient, db: Database) -> None:
    ann = await add_character(db, "ann", await add_room(db, "Temple"))

    for text in (room_id({"_id": ObjectId()}), character_id(ann), "nonsense"):
        assert (await gateway.data(MAP, {"room": text}, token=None))["worldMap"] is None


@pytest.mark.parametrize(
    ("given", "path"),
    [({"steps": 6}, "steps"), ({"steps": -1}, "steps"), ({"first": 0}, "first"), ({"first": 101}, "first")],
)
async def test_a_map_beyond_its_bounds_is_refused(gateway: GatewayClient, given: dict[str, int], path: str) -> None:
    room = await add_room(gateway.db, "Temple")

    answer = await gateway.ask(MAP, {"room": room_id(room), **given}, token=None)

    (error,) = answer.body["errors"]
    assert error["extensions"]["code"] == "BAD_USER_INPUT"
    assert f"`{path}` must be between" in error["message"]
