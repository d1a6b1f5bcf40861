"""`portico import world`: rooms, objects and shops, in the format of Portico and of converted MUD files."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.schema.kinds import Kind
from tests.game.support.importing import CELLAR, CHEST, GEM, SMITHY, SQUARE, SWORD, TEMPLE, WORLD, room, run
from tests.game.support.world import add_character, change_room
from tests.support.crashing_databases import CrashingDatabases
from tests.support.documents import stored
from tests.support.harness import GatewayClient, assert_invariants, some_stops
from tests.support.interruptions import stopping
from tests.support.real_data import rows

CREATE = """mutation { createCharacter(input: { name: "Ann", characterClass: "thief" }) {
  ... on CharacterPayload { character { id } } } }"""
PICK_UP = "mutation ($input: ItemInput!) { pickUp(input: $input) { __typename } }"


async def things(db: Database) -> Counter[str]:
    """How many items have each name, wherever they are."""
    rooms = await db["game.locations"].find().to_list()
    places = [*rooms, *(keeper for one in rooms for keeper in one["keepers"])]
    places += await db["game.characters"].find().to_list()
    ids = [item["_id"] for place in places for item in place["items"]]
    assert len(set(ids)) == len(ids)
    return Counter(item["name"] for place in places for item in place["items"])


async def test_rooms_objects_and_shops_are_imported_in_any_order(db: Database, tmp_path: Path) -> None:
    counts, bad = await run(db, tmp_path, *WORLD)

    assert (counts, bad) == ({"created": 7}, {})
    temple, square, cellar = [await room(db, key) for key in ("temple", "square", "cellar")]
    assert (temple["name"], temple["description"], temple["start"]) == ("Temple", "A cool hall.", 0)
    assert temple["exits"] == [{"direction": "N", "to": square["_id"]}]
    assert square["exits"] == [{"direction": "S", "to": temple["_id"]}, {"direction": "DOWN", "to": cellar["_id"]}]
    chest, gem = cellar["items"]
    assert (chest["capacity"], chest["inside"], gem["inside"]) == (5_000, None, chest["_id"])
    assert (gem["quantity"], gem["bonus"], gem["description"], gem["cost"]) == (3, 1, "gems", None)
    (keeper,) = square["keepers"]
    assert (keeper["name"], keeper["gold"], keeper["initial_gold"]) == ("Tamsin", 500, 500)
    assert (keeper["asks"], keeper["pays"], keeper["buys"]) == (125, 40, ["WEAPON"])
    assert [(item["name"], item["weight"], item["cost"]) for item in keeper["items"]] == [("short sword", 250, 15)] * 2


async def test_a_second_import_makes_nothing_twice_when_things_have_moved(db: Database, tmp_path: Path) -> None:
    await run(db, tmp_path, *WORLD)
    # A player has taken everything from the cellar and a sword from the shop, and has paid.
    cellar, square = await room(db, "cellar"), await room(db, "square")
    await add_character(db, "ann", cellar, items=[*cellar["items"], square["keepers"][0]["items"][0]])
    await change_room(db, cellar, {"$set": {"items": []}})
    await change_room(db, square, {"$pop": {"keepers.0.items": -1}, "$inc": {"keepers.0.gold": 19}})
    before = await things(db)

    counts, bad = await run(db, tmp_path, *WORLD)

    assert (counts, bad) == ({"unchanged": 7}, {})
    assert await things(db) == before == {"chest": 1, "gem": 1, "short sword": 2}
    assert (await room(db, "square"))["keepers"][0]["gold"] == 519


async def test_a_later_import_changes_texts_exits_and_prices_and_adds_wares(db: Database, tmp_path: Path) -> None:
    await run(db, tmp_path, *WORLD)
    temple = await room(db, "temple")
    ann = await add_character(db, "ann", temple)
    shield = {"id": "shield", "name": "shield", "type": "ARMOR", "regions": ["body"]}
    changed = {**TEMPLE, "name": "Old Temple", "exits": {"n": "square", "e": "cellar"}}
    shop = {**SMITHY, "keeper": "Tam", "asks": 2, "items": ["sword", "shield"], "gold": 9_999}

    counts, _ = await run(db, tmp_path, changed, shield, shop)

    assert counts == {"changed": 2, "created": 1}
    after = await room(db, "temple")
    assert (after["name"], len(after["exits"])) == ("Old Temple", 2)
    assert after["version"] == temple["version"] + 2
    assert "stale_since" not in after
    copy = await stored(db, "game.characters", ann)
    assert (copy["location"]["name"], copy["location"]["version"]) == ("Old Temple", after["version"])
    (keeper,) = (await room(db, "square"))["keepers"]
    assert (keeper["name"], keeper["asks"], keeper["gold"]) == ("Tam", 200, 500)
    assert Counter(item["name"] for item in keeper["items"]) == {"short sword": 2, "shield": 2}


async def test_an_import_beside_players_who_take_everything_loses_and_doubles_nothing(
    gateway: GatewayClient, tmp_path: Path
) -> None:
    coins = [{"id": f"coin{n}", "name": "coin", "type": "TREASURE", "room": "temple"} for n in range(12)]
    await run(gateway.db, tmp_path, *WORLD, *coins)
    players = [gateway.as_caller(f"player{n}") for n in range(3)]
    created = [await player.data(CREATE) for player in players]
    mine = [one["createCharacter"]["character"]["id"] for one in created]
    there = [Kind.encode_id("Item", item["_id"]) for item in (await room(gateway.db, "temple"))["items"]]

    async def take(number: int, item: str) -> str:
        answer = await players[number].data(PICK_UP, {"input": {"characterId": mine[number], "itemId": item}})
        return str(answer["pickUp"]["__typename"])

    async def change() -> None:
        for n in range(6):
            _, bad = await run(gateway.db, tmp_path, {**TEMPLE, "name": f"Temple {n}"}, *coins)
            assert bad == {}

    taken, _ = await asyncio.gather(
        asyncio.gather(*(take(number, item) for item in there for number in range(3))), change()
    )

    assert Counter(taken) == {"CharacterPayload": 12, "ItemGone": 24}
    assert (await things(gateway.db))["coin"] == 12
    assert (await room(gateway.db, "temple"))["items"] == []
    shown = "{ viewer { characters { location { name inventory { id } } } } }"
    for player in players:
        (seen,) = (await player.data(shown))["viewer"]["characters"]
        assert seen["location"] == {"name": "Temple 5", "inventory": []}
    await assert_invariants(gateway)


async def test_shops_and_objects_do_not_move(db: Database, tmp_path: Path) -> None:
    await run(db, tmp_path, *WORLD)
    before = await things(db)

    counts, bad = await run(db, tmp_path, {**SMITHY, "room": "temple"}, {**CHEST, "room": "temple"})

    assert bad == {1: "room: The shop is in another room already. Shops do not move."}
    assert counts == {"failed": 1, "unchanged": 1}
    assert await things(db) == before
    assert [len((await room(db, key))["items"]) for key in ("temple", "cellar")] == [0, 2]


REFUSED = {
    "no exit": ({**TEMPLE, "exits": {"n": "nowhere"}}, "exits.N: there is no room 'nowhere'"),
    "a wrong direction": ({**TEMPLE, "exits": {"nw": "square"}}, "exits.nw: must be n, s, e, w, up or down"),
    "a direction twice": ({**TEMPLE, "exits": {"n": "square", "N": "cellar"}}, "exits.N: is given twice"),
    "no name": ({"id": 1, "exits": {}, "description": "d"}, "name: is missing"),
    "no id": ({**TEMPLE, "id": None}, "id: is missing"),
    "an empty id": ({**TEMPLE, "id": " "}, "id: must not be empty"),
    "a list for an id": ({**TEMPLE, "id": [1]}, "id: must be a string or a whole number"),
    "a shop nowhere": ({**SMITHY, "room": "nowhere"}, "room: there is no room 'nowhere'"),
    "an unknown ware": ({**SMITHY, "id": "x", "items": ["ghost"]}, "items: there is no object 'ghost'"),
    "a shop without a factor": ({**SMITHY, "asks": None}, "asks: is missing"),
    "a negative factor": ({**SMITHY, "pays": -1}, "pays: must be from 0 to 1,000"),
    "too much gold": ({**SMITHY, "gold": 1e12}, "gold: must be from 0 to 1,000,000,000"),
    "an object nowhere": ({**SWORD, "room": "nowhere"}, "room: there is no room 'nowhere'"),
    "unknown contents": ({**CHEST, "id": "x", "contents": ["ghost"]}, "contents: there is no object 'ghost'"),
    "three hands": ({**SWORD, "hands": 3}, "hands: must be 1 or 2"),
    "a wrong region": ({**SWORD, "regions": ["TAIL"]}, "regions.0: must be one of HEAD, HANDS, FEET, BODY"),
    "half a thing": ({**SWORD, "quantity": 0.5}, "quantity: must be a whole number"),
    "something else": ({"id": "x"}, "must be a room with `exits`, an object with a `type`, or a shop with a `keeper`"),
    "a wrong type of a MUD": (
        {
            "id": 1,
            "keeper": "K",
            "rooms": ["temple"],
            "items": [],
            "profit_buy": 1,
            "profit_sell": 1,
            "buys_types": ["x"],
        },
        "buys_types.0: 'x' is no type of a MUD",
    ),
}


@pytest.mark.parametrize(("record", "reason"), REFUSED.values(), ids=REFUSED)
async def test_an_invalid_record_is_refused_by_its_line_and_the_others_are_stored(
    db: Database, tmp_path: Path, record: Any, reason: str
) -> None:
    others = [{**TEMPLE, "exits": {}}, {**SQUARE, "exits": {}}, SWORD, GEM]

    counts, bad = await run(db, tmp_path, *others, record)

    assert bad == {5: reason}
    assert (counts["created"], counts["failed"]) == (4, 1)


async def test_objects_can_be_nested_four_deep(db: Database, tmp_path: Path) -> None:
    def box(number: int, *contents: str) -> Document:
        return {"id": f"box{number}", "name": f"box {number}", "type": "CONTAINER", "contents": contents}

    deep = [box(1), box(2, "box1"), box(3, "box2"), {**box(4, "box3"), "room": "cellar"}]
    counts, bad = await run(db, tmp_path, {**CELLAR, "exits": {}}, *deep, box(5, "box4"))

    assert (counts["created"], bad) == (5, {6: "contents: The object is nested more than 4 deep."})
    assert len((await room(db, "cellar"))["items"]) == 4
    # An object that contains itself exists nowhere.
    counts, bad = await run(db, tmp_path, box(7, "box8"), box(8, "box7"))
    assert bad == {n: f"contents: there is no object 'box{9 - n}'" for n in (1, 2)} or len(bad) == 2


async def test_a_room_and_a_shopkeeper_have_bounds(db: Database, tmp_path: Path) -> None:
    await run(db, tmp_path, {**SQUARE, "exits": {}}, SWORD)

    counts, bad = await run(db, tmp_path, {**SMITHY, "copies": 151})
    assert bad == {1: "items: A shopkeeper can have 150 items."}

    counts, bad = await run(db, tmp_path, *({**SMITHY, "id": f"shop {n}"} for n in range(9)))
    assert (counts["created"], bad) == (8, {9: "room: A room can have 8 shopkeepers."})


async def test_a_shop_without_copies_is_empty_until_it_is_imported_with_some(
    gateway: GatewayClient, tmp_path: Path
) -> None:
    await run(gateway.db, tmp_path, *WORLD, {**SMITHY, "id": "empty", "copies": 0})
    await assert_invariants(gateway)
    assert sorted(len(one["items"]) for one in (await room(gateway.db, "square"))["keepers"]) == [0, 2]

    await run(gateway.db, tmp_path, {**SMITHY, "id": "empty"})

    assert [len(one["items"]) for one in (await room(gateway.db, "square"))["keepers"]] == [2, 2]
    await assert_invariants(gateway)


async def test_rooms_where_characters_start_can_be_named(db: Database, tmp_path: Path) -> None:
    await run(db, tmp_path, *WORLD, start=["cellar", "square"])

    assert [(await room(db, key))["start"] for key in ("cellar", "square", "temple")] == [0, 1, 0]


MUD_ROOMS = [
    {"id": 100 + n, "zone": 1, "name": f"Room {n}", "description": "A room.", "exits": {"e": 101, "d": 100}}
    for n in range(3)
]
MUD_OBJECTS = [
    {
        "id": 1,
        "zone": 1,
        "name": "a two-handed sword",
        "type": "WEAPON",
        "values": [0, 1, 2, 3],
        "weight": 8,
        "cost": 60,
    },
    {"id": 2, "zone": 1, "name": "a steel helmet", "type": "ARMOR", "values": [4], "weight": 3, "cost": 20},
    {"id": 3, "zone": 1, "name": "the old sack", "type": "CONTAINER", "values": [30, 0], "weight": 1, "cost": 2},
    {"id": 4, "zone": 1, "name": "some bread", "type": "FOOD", "values": [1], "weight": 1, "cost": 1},
    {"id": 5, "zone": 9, "name": "a lost thing", "type": "OTHER", "values": [], "weight": 1, "cost": 1},
]
MUD_SHOP = {
    "id": 7,
    "zone": 1,
    "keeper": "the baker",
    "rooms": [102, 101],
    "items": [4],
    "profit_buy": 2.25,
    "profit_sell": 0.29,
    "buys_types": ["19", "9 helmet"],
}


async def test_objects_of_a_mud_get_what_the_files_lack_from_their_names(db: Database, tmp_path: Path) -> None:
    counts, bad = await run(db, tmp_path, *MUD_OBJECTS, MUD_SHOP, *MUD_ROOMS)

    assert (counts, bad) == ({"created": 9}, {})
    items = {item["name"]: item for n in (100, 101, 102) for item in (await room(db, str(n)))["items"]}
    assert set(items) == {"a two-handed sword", "a steel helmet", "the old sack"}
    assert (items["a two-handed sword"]["hands"], items["a two-handed sword"]["weight"]) == (2, 800)
    assert (items["a steel helmet"]["regions"], items["a steel helmet"]["description"]) == (["HEAD"], "steel helmet")
    assert items["the old sack"]["capacity"] == 3_000
    (keeper,) = (await room(db, "102"))["keepers"]
    assert (keeper["asks"], keeper["pays"], keeper["buys"]) == (225, 29, ["FOOD", "ARMOR"])
    assert [item["name"] for item in keeper["items"]] == ["some bread"] * 5


async def test_things_without_a_place_lie_in_the_same_rooms_however_the_files_are_read(
    db: Database, tmp_path: Path
) -> None:
    await run(db, tmp_path, *MUD_OBJECTS, *MUD_ROOMS, MUD_SHOP)
    first = {n: [item["_id"] for item in (await room(db, str(n)))["items"]] for n in (100, 101, 102)}
    for name in ("game.locations", "game.blueprints"):
        await db[name].delete_many({})
    await run(db, tmp_path, *reversed(MUD_ROOMS), MUD_SHOP, *reversed(MUD_OBJECTS))
    counts, _ = await run(db, tmp_path, *MUD_OBJECTS)

    assert {n: [item["_id"] for item in (await room(db, str(n)))["items"]] for n in first} == first
    assert counts == {"unchanged": 5}


async def test_an_import_that_is_stopped_anywhere_is_completed_by_the_next_one(
    gateway: GatewayClient, tmp_path: Path
) -> None:
    given = [*WORLD, *MUD_OBJECTS, *MUD_ROOMS, MUD_SHOP]

    expected = {"chest": 1, "gem": 1, "short sword": 2, "some bread": 5}
    expected |= {"a two-handed sword": 1, "a steel helmet": 1, "the old sack": 1}
    databases = CrashingDatabases(gateway.db, some_stops(2))
    for database in databases:
        for name in ("game.locations", "game.blueprints"):
            await gateway.db[name].delete_many({})
        with stopping():
            await run(database, tmp_path, *given)
        _, bad = await run(gateway.db, tmp_path, *given)

        assert bad == {}
        assert await things(gateway.db) == expected
        assert (await run(gateway.db, tmp_path, *given))[0] == {"unchanged": len(given)}
    assert databases.stop > len(given)
    await assert_invariants(gateway)


@pytest.mark.parametrize(
    ("collection", "document", "lacks"),
    [
        ("game.locations", {"_id": ObjectId(), "key": "ruin", "exits": []}, "items"),
        ("game.blueprints", {"_id": "object:torn", "zone": "1"}, "contents"),
    ],
)
async def test_a_damaged_room_or_object_is_named_and_nothing_gets_a_place(
    db: Database, tmp_path: Path, collection: str, document: Document, lacks: str
) -> None:
    await db[collection].insert_one(document)

    counts, bad = await run(db, tmp_path, *MUD_OBJECTS, *MUD_ROOMS)

    assert counts == {"created": 8, "failed": 1}
    reason = f"stored data is damaged: a field is missing or invalid (KeyError: '{lacks}')"
    assert bad == {0: f"In {collection}: {document['_id']!r}: {reason}"}
    await db[collection].delete_one({"_id": document["_id"]})
    assert await things(db) == {}
    assert (await run(db, tmp_path, *MUD_OBJECTS, *MUD_ROOMS))[0] == {"unchanged": 8}
    assert (await things(db)).total() == 4


async def test_a_whole_mud_is_imported(gateway: GatewayClient, tmp_path: Path) -> None:
    given = [*rows("mud_objects"), *rows("mud_shops"), *rows("mud_rooms")]

    counts, bad = await run(gateway.db, tmp_path, *given, start=["3001"])

    assert bad == {}
    assert counts == {"created": len(given)}
    assert await gateway.db["game.locations"].count_documents({}) == 1_870
    assert await gateway.db["game.blueprints"].count_documents({"zone": {"$exists": True}, "place": None}) == 162
    assert (await room(gateway.db, "3001"))["start"] == 0
    await assert_invariants(gateway)
