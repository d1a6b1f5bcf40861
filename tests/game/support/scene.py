"""A temple with a shopkeeper, a market, and two players' characters: for tests of everything that characters do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portico.gateway.domains.game.world import acting
from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world import locations
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.gift_records import GIFTS
from portico.resolvers.game.world.locations import LOCATIONS
from portico.resolvers.game.world.turn_checks import find_left_behind
from portico.schema.kinds import Kind
from tests.game.support.world import add_character, add_room, character_id, item, keeper, keeper_id, room_id

Given = dict[str, Any]


@dataclass
class Temple:
    """The scene. `items` are the ids of the items by name, as clients have them."""

    room: Document
    market: Document
    me: Document
    friend: Document
    items: dict[str, str]

    def on(self, name: str, **given: str) -> Given:
        """Returns the input of an action of `me` with an item."""
        return {"characterId": character_id(self.me), "itemId": self.items[name], **given}


def equipment() -> list[Document]:
    """A knife in the right hand, a hat on the head, a shield, and a bag with an apple."""
    bag = item("bag", capacity=2_000)
    return [
        item("knife", kind="WEAPON", hands=1),
        item("hat", kind="ARMOR", regions=["HEAD"]),
        item("axe", kind="WEAPON", hands=2),
        item("dagger", kind="WEAPON", hands=1),
        item("cap", kind="ARMOR", regions=["HEAD"]),
        bag,
        item("apple", inside=bag["_id"]),
        item("pear"),
    ]


async def add_equipped(db: Database, owner: str, room: Document) -> Document:
    """Stores a character with this equipment in the room."""
    carried = equipment()
    by_name = {one["name"]: one["_id"] for one in carried}
    armor, weapons = {"HEAD": [by_name["hat"]]}, {"RIGHT": by_name["knife"]}
    return await add_character(db, owner, room, items=carried, armor=armor, weapons=weapons)


async def add_temple(db: Database, owner: str = "tester", friend: str = "bo") -> Temple:
    """Stores the scene. `me` has the equipment, and 100 gold pieces like everybody."""
    market = await add_room(db, "Market")
    chest = item("chest", capacity=10_000)
    floor = [item("sword", kind="WEAPON", hands=1, cost=11), chest, item("coin", inside=chest["_id"])]
    stock = [item("helmet", kind="ARMOR", cost=30, regions=["HEAD"])]
    room = await add_room(
        db,
        "Temple",
        start=0,
        exits=[{"direction": "N", "to": market["_id"]}, {"direction": "UP", "to": market["_id"]}],
        items=floor,
        keepers=[keeper("Smith", *stock)],
    )
    me = await add_equipped(db, owner, room)
    other = await add_character(db, friend, room)
    every = [*floor, *stock, *me["items"]]
    return Temple(room, market, me, other, {one["name"]: Kind.encode_id("Item", one["_id"]) for one in every})


def action(temple: Temple, mutation: str) -> Given:
    """Returns an input with which the mutation succeeds."""
    to = {"toId": character_id(temple.friend)}
    smith = {"shopkeeperId": keeper_id(temple.room)}
    return {
        "createCharacter": {"name": "Eve", "characterClass": "thief"},
        "move": {"characterId": character_id(temple.me), "direction": "N"},
        "pickUp": temple.on("sword"),
        "drop": temple.on("bag"),
        "takeOut": temple.on("coin", containerId=temple.items["chest"]),
        "putIn": temple.on("pear", containerId=temple.items["chest"]),
        "wear": temple.on("cap", region="HEAD"),
        "wield": temple.on("dagger", hand="LEFT"),
        "unequip": temple.on("hat"),
        "give": temple.on("bag", **to),
        "buy": temple.on("helmet", **smith),
        "sell": temple.on("axe", **smith),
        "moveCharacter": {"characterId": character_id(temple.me), "locationId": room_id(temple.market)},
        "deleteCharacter": {"characterId": character_id(temple.me)},
        "spawnCharacter": {
            "owner": "eva",
            "locationId": room_id(temple.market),
            "name": "Eva",
            "characterClass": "thief",
        },
    }[mutation]


def own_action(temple: Temple, mutation: str) -> Given:
    """Returns another input with which the mutation succeeds, of what `me` carries."""
    return {
        "takeOut": temple.on("apple", containerId=temple.items["bag"]),
        "putIn": temple.on("pear", containerId=temple.items["bag"]),
    }[mutation]


async def world(db: Database) -> dict[str, Any]:
    """Returns where everybody and everything is, by name, how much gold everybody has, and what they were given, when
    nobody acts.
    """
    found: dict[str, Any] = {}
    async for room in db[LOCATIONS.name].find({}):
        for one in room["items"]:
            found[one["name"]] = room["name"]
        for one in room["keepers"]:
            found[f"gold of {one['name']}"] = one["gold"]
            found |= {ware["name"]: one["name"] for ware in one["items"]}
    async for character in db[CHARACTERS.name].find({"deleted": {"$exists": False}}):
        name = character["name"]
        found[name] = character["location"]["name"]
        found[f"gold of {name}"] = character["gold"]
        inside = {one["_id"]: one["name"] for one in character["items"]}
        found |= {one["name"]: inside.get(one["inside"], name) for one in character["items"]}
        used = [*character["weapons"].values(), *(key for worn in character["armor"].values() for key in worn)]
        found[f"equipment of {name}"] = sorted(inside[key] for key in used)
    async for gift in db[GIFTS.name].find({}):
        found.setdefault(f"gifts to {gift['receiver']['name']}", []).append(gift["item"]["description"])
    return found


async def assert_settled(db: Database) -> None:
    """Nothing is under way, the invariants hold, and every character that does not rest sees its room as it is."""
    assert await db[CHARACTERS.name].find({"action": {"$exists": True}}).to_list() == []
    rooms = {room["_id"]: room async for room in db[LOCATIONS.name].find({})}
    for room in rooms.values():
        marks = [room.get(name) for name in ("stale_since", "gifts_since", "leaving_since")]
        assert marks == [None] * 3, room["name"]
    async for character in db[CHARACTERS.name].find({"deleted": {"$exists": False}, "resting_since": None}):
        assert character["location"] == locations.copy_of(rooms[character["location"]["_id"]])
    await assert_sound(db)


async def assert_sound(db: Database) -> None:
    """Asserts the invariants, but how long something waits: a test may take longer. See `assert_settled` for that."""
    for invariant in acting.INVARIANTS:
        if invariant.check is not find_left_behind:
            assert [problem async for problem in invariant.problems(db)] == []
