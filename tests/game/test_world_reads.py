"""Characters and rooms as clients read them, where exits lead, and maps of a part of the world."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world.locations import LOCATIONS
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.game.support.world import add_character, add_room, character_id, item, item_ids, keeper, keeper_id, room_id
from tests.support.harness import GatewayClient
from tests.support.sending import assert_indexed

ITEM = "id name quantity bonus description weight price contents { name contents { name contents { name } } }"
ROOM = f"name description exits {{ direction locationId }} characters {{ characterId name }} inventory {{ {ITEM} }}"
CHARACTER = f"""
    id name characterClass health mana gold
    intrinsics {{ strength dexterity intelligence charisma }}
    location {{ locationId {ROOM} }}
    armor {{ head {{ name }} hands {{ name }} feet {{ name }} body {{ name }} }}
    weapons {{ left {{ name }} right {{ name }} both {{ name }} }}
    inventory {{ {ITEM} }}
"""
READ = f"query ($id: ID!) {{ character(id: $id) {{ {CHARACTER} }} }}"
READ_NAME = "query ($id: ID!) { character(id: $id) { name } node(id: $id) { id } }"
READ_ROOM = f"query ($id: ID!) {{ location(id: $id) {{ id {ROOM} }} }}"


async def read(
    gateway: GatewayClient, text: str, subject: str | None = "ann", role: Role | None = None, **v: Any
) -> Any:
    token = None if subject is None else gateway.token(subject, roles=() if role is None else (role,))
    return await gateway.data(text, v, token=token)


async def test_one_command_reads_a_character_with_its_room(gateway: GatewayClient, db: Database) -> None:
    to = await add_room(db, "Market")
    chest = item("chest", capacity=10_000, cost=None)
    coins = item("coins", quantity=12, weight=24, inside=chest["_id"])
    hat = item("wizard's hat", bonus=3, kind="ARMOR", regions=["HEAD"])
    staff = item("staff", hands=2, kind="WEAPON", weight=450)
    room = await add_room(
        db, "Temple", exits=[{"direction": "N", "to": to["_id"]}], items=[chest, coins], keepers=[keeper("Priest")]
    )
    ann = await add_character(
        db, "ann", room, items=[hat, staff], armor={"HEAD": [hat["_id"]]}, weapons={"BOTH": staff["_id"]}
    )
    gateway.commands.clear()

    found = (await read(gateway, READ, id=character_id(ann)))["character"]

    assert gateway.commands.names() == ["find game.characters"]
    assert found["location"] == {
        "locationId": room_id(room),
        "name": "Temple",
        "description": "This is the Temple.",
        "exits": [{"direction": "N", "locationId": room_id(to)}],
        "characters": [
            {"characterId": keeper_id(room), "name": "Priest"},
            {"characterId": character_id(ann), "name": "Ann"},
        ],
        "inventory": [
            {
                "id": item_ids([chest])[0],
                "name": "chest",
                "quantity": 1,
                "bonus": None,
                "description": "chest",
                "weight": 1.0,
                "price": None,
                "contents": [{"name": "coins", "contents": None}],
            }
        ],
    }
    assert found["armor"] == {"head": [{"name": "wizard's hat"}], "hands": [], "feet": [], "body": []}
    assert found["weapons"] == {"left": None, "right": None, "both": {"name": "staff"}}
    assert [one["description"] for one in found["inventory"]] == ["+3 wizard's hat", "staff"]
    assert found["inventory"][1]["weight"] == 4.5
    assert (found["gold"], found["intrinsics"]["charisma"], found["characterClass"]) == (100, 13, "wizard")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "arrow"),
        ({"quantity": 12, "description": "arrows"}, "12 arrows"),
        ({"bonus": 3}, "+3 arrow"),
        ({"bonus": -1}, "-1 arrow"),
        ({"bonus": 0}, "arrow"),
        ({"quantity": 2, "bonus": 1, "description": "arrows"}, "2 +1 arrows"),
    ],
)
async def test_a_description_names_the_quantity_and_the_bonus(
    gateway: GatewayClient, db: Database, fields: dict[str, Any], shown: str
) -> None:
    room = await add_room(db, "Temple", items=[item("arrow", **fields)])

    found = await read(
        gateway, "query ($id: ID!) { location(id: $id) { inventory { description } } }", id=room_id(room)
    )

    assert found == {"location": {"inventory": [{"description": shown}]}}


async def test_everybody_reads_a_room_with_what_lies_in_nested_containers(gateway: GatewayClient, db: Database) -> None:
    chest = item("chest", capacity=10_000)
    box = item("box", capacity=5_000, inside=chest["_id"])
    bag = item("bag", capacity=1_000, inside=box["_id"])
    gem = item("gem", inside=bag["_id"])
    room = await add_room(db, "Vault", items=[gem, bag, chest, box])
    await add_character(db, "ann", room)

    found = (await read(gateway, READ_ROOM, None, id=room_id(room)))["location"]

    assert found["id"] == room_id(room)
    assert [one["name"] for one in found["characters"]] == ["Ann"]
    (top,) = found["inventory"]
    assert top["name"] == "chest"
    assert top["contents"] == [{"name": "box", "contents": [{"name": "bag", "contents": [{"name": "gem"}]}]}]


async def test_a_room_shows_nobody_who_is_leaving_or_was_refused(gateway: GatewayClient, db: Database) -> None:
    room = await add_room(db, "Temple")
    for name in ("ann", "bob", "cid"):
        await add_character(db, name, room)
    for name, mark in (("Bob", "leaving"), ("Cid", "absent")):
        where = {"_id": room["_id"], "characters.name": name}
        await db["game.locations"].update_one(where, {"$set": {f"characters.$.{mark}": True}})

    found = (await read(gateway, READ_ROOM, id=room_id(room)))["location"]

    assert [one["name"] for one in found["characters"]] == ["Ann"]


async def test_a_shopkeeper_is_a_character_with_prices_of_its_own(gateway: GatewayClient, db: Database) -> None:
    sword, relic = item("sword", cost=15, kind="WEAPON"), item("relic", cost=None)
    room = await add_room(db, "Shop", keepers=[keeper("Smith", sword, relic, asks=125, number=3)])
    gateway.commands.clear()

    found = (await read(gateway, READ, None, id=keeper_id(room, 3)))["character"]

    assert gateway.commands.names() == ["find game.locations"]
    assert (found["name"], found["characterClass"], found["gold"]) == ("Smith", "shopkeeper", 1_000)
    assert [(one["name"], one["price"]) for one in found["inventory"]] == [("sword", 19), ("relic", None)]
    assert found["location"]["name"] == "Shop"
    assert found["weapons"] == {"left": None, "right": None, "both": None}


async def test_shopkeepers_and_characters_of_a_request_are_read_together(gateway: GatewayClient, db: Database) -> None:
    shops = [await add_room(db, name, keepers=[keeper(f"Keeper of {name}")]) for name in ("A", "B")]
    ann = await add_character(db, "ann", shops[0])
    ids = [character_id(ann), *map(keeper_id, shops), keeper_id(shops[0], 7)]
    gateway.commands.clear()

    text = "query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Character { name location { name } } } }"
    found = await read(gateway, text, ids=ids)

    assert [one and one["name"] for one in found["nodes"]] == ["Ann", "Keeper of A", "Keeper of B", None]
    assert sorted(gateway.commands.names()) == ["find game.characters", "find game.locations"]


@pytest.mark.parametrize("key", ["{room}.01", "{room}.", "{room}.x", "zz.0", ".0", "{room}.0.0", "{room}.-1"])
async def test_a_text_that_is_no_key_of_a_shopkeeper_is_no_id(gateway: GatewayClient, db: Database, key: str) -> None:
    room = await add_room(db, "Shop", keepers=[keeper("Smith")])

    found = await read(
        gateway,
        "query ($id: ID!) { character(id: $id) { name } }",
        id=Kind.encode_id("Character", key.format(room=room["_id"])),
    )

    assert found == {"character": None}


async def test_a_players_character_exists_only_for_its_player_and_a_game_master(gateway: GatewayClient) -> None:
    ann = await add_character(gateway.db, "ann", await add_room(gateway.db, "Temple"))

    for subject, role in ((None, None), ("bob", None), ("bob", Role.EDITOR)):
        found = await read(gateway, READ_NAME, subject, role, id=character_id(ann))
        assert found == {"character": None, "node": None}
    for subject, role in (("ann", None), ("bob", GAME_MASTER), ("bob", Role.ADMIN)):
        found = await read(gateway, READ_NAME, subject, role, id=character_id(ann))
        assert found == {"character": {"name": "Ann"}, "node": {"id": character_id(ann)}}


async def test_a_viewer_lists_their_own_characters_in_the_order_of_their_creation(gateway: GatewayClient) -> None:
    room = await add_room(gateway.db, "Temple")
    for owner, name in (("ann", "First"), ("bob", "Other"), ("ann", "Second")):
        await add_character(gateway.db, owner, room, name=name)
    text = "{ viewer { characters { name location { name } } } }"

    found = await read(gateway, text, role=GAME_MASTER)

    assert [one["name"] for one in found["viewer"]["characters"]] == ["First", "Second"]


async def test_a_viewer_reads_a_few_characters_with_all_their_things_and_rooms(gateway: GatewayClient) -> None:
    room = await add_room(gateway.db, "Temple")
    made = [await add_character(gateway.db, "ann", room, name=f"Ann {number}") for number in range(3)]
    text = f"query ($first: Int!) {{ viewer {{ characters(first: $first) {{ {CHARACTER} }} }} }}"

    few = await read(gateway, text, first=2)
    default = await gateway.ask(f"{{ viewer {{ characters {{ {CHARACTER} }} }} }}")

    assert [one["id"] for one in few["viewer"]["characters"]] == [character_id(one) for one in made[:2]]
    (error,) = default.body["errors"]
    assert error["extensions"]["code"] == "OPERATION_TOO_COMPLEX"
    assert error["message"].endswith("With pages of about 6 for `characters`, it fits.")
    assert len((await read(gateway, text, first=6))["viewer"]["characters"]) == 3


@pytest.mark.parametrize("first", [0, -1, 21])
async def test_a_viewer_asks_for_one_to_twenty_characters(gateway: GatewayClient, first: int) -> None:
    answer = await gateway.ask(f"{{ viewer {{ subject characters(first: {first}) {{ id }} }} }}")

    assert answer.body["data"] == {"viewer": {"subject": "tester", "characters": None}}
    assert answer.body["errors"][0]["message"] == f"`first` must be between 1 and 20; got {first}."


async def test_no_read_shows_a_character_before_it_has_entered_the_world(gateway: GatewayClient, db: Database) -> None:
    ann = await add_character(db, "ann", await add_room(db, "Temple"))
    await db["game.characters"].update_one({"_id": ann["_id"]}, {"$unset": {"location": ""}})

    assert await read(gateway, READ_NAME, id=character_id(ann)) == {"character": None, "node": None}
    assert await read(gateway, "{ viewer { characters { name } } }") == {"viewer": {"characters": []}}


async def test_an_unknown_id_of_a_room_or_a_character_is_null(gateway: GatewayClient) -> None:
    text = "query ($room: ID!, $who: ID!) { location(id: $room) { name } character(id: $who) { name } }"
    room, who = Kind.encode_id("Location", ObjectId()), Kind.encode_id("Character", ObjectId())

    assert await read(gateway, text, room=room, who=who) == {"location": None, "character": None}
    assert await read(gateway, text, room=who, who=room) == {"location": None, "character": None}


async def test_a_read_fetches_only_what_it_shows(gateway: GatewayClient, db: Database) -> None:
    room = await add_room(db, "Temple", keepers=[keeper("Priest")])
    ann = await add_character(db, "ann", room)
    gateway.commands.clear()

    await read(gateway, "query ($id: ID!) { character(id: $id) { name location { name } } }", id=character_id(ann))
    await read(gateway, "query ($id: ID!) { character(id: $id) { gold } }", id=keeper_id(room))
    await read(gateway, "query ($id: ID!) { location(id: $id) { characters { name } } }", id=room_id(room))

    projections = [set(command["projection"]) - {"schema_version"} for command in gateway.commands.sent]
    slot = {"action.turn", "action.kind", "action.room"}
    assert projections[0] == {"name", "location.name", "owner"} | slot
    assert projections[1] == {f"keepers.{name}" for name in ("number", "name", "class", "gold", "asks")}
    assert not any(path.startswith("items") for path in projections[2])


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
