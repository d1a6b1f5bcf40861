"""`portico doctor` names every kind of damage to the world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.domains.game.world import acting
from portico.resolvers.documents import Database
from tests.game.support.scene import Temple, add_temple, assert_sound
from tests.game.support.world import item
from tests.support.harness import GatewayClient

CHARACTERS, ROOMS = "game.characters", "game.locations"
Damage = Callable[[Database, Temple], Awaitable[Any]]


async def _item_in_two_places(db: Database, temple: Temple) -> None:
    await db[ROOMS].update_one({"_id": temple.market["_id"]}, {"$push": {"items": temple.room["items"][0]}})


async def _item_with_a_keeper_and_on_the_floor(db: Database, temple: Temple) -> None:
    ware = temple.room["keepers"][0]["items"][0]
    await db[ROOMS].update_one({"_id": temple.room["_id"]}, {"$push": {"items": ware}})


async def _contents_without_container(db: Database, temple: Temple) -> None:
    await db[ROOMS].update_one({"_id": temple.market["_id"]}, {"$push": {"items": item("pearl", inside=ObjectId())}})


async def _worn_item_that_is_gone(db: Database, temple: Temple) -> None:
    hat = next(one for one in temple.me["items"] if one["name"] == "hat")
    await db[CHARACTERS].update_one({"_id": temple.me["_id"]}, {"$pull": {"items": {"_id": hat["_id"]}}})


async def _gold_from_nothing(db: Database, temple: Temple) -> None:
    await db[CHARACTERS].update_one({"_id": temple.me["_id"]}, {"$inc": {"gold": 7}})


async def _gold_lost_by_a_keeper(db: Database, temple: Temple) -> None:
    await db[ROOMS].update_one({"_id": temple.room["_id"]}, {"$inc": {"keepers.0.gold": -1}})


async def _debt(db: Database, temple: Temple) -> None:
    await db[CHARACTERS].update_one({"_id": temple.me["_id"]}, {"$inc": {"gold": -150}})
    await db[CHARACTERS].update_one({"_id": temple.friend["_id"]}, {"$inc": {"gold": 150}})


async def _listed_by_two_rooms(db: Database, temple: Temple) -> None:
    room = await db[ROOMS].find_one({"_id": temple.room["_id"]})
    assert room is not None
    await db[ROOMS].update_one({"_id": temple.market["_id"]}, {"$push": {"characters": room["characters"][0]}})


async def _listed_by_no_room(db: Database, temple: Temple) -> None:
    gone = {"$pull": {"characters": {"_id": temple.friend["_id"]}}}
    await db[ROOMS].update_one({"_id": temple.room["_id"]}, gone)


async def _listed_without_existing(db: Database, temple: Temple) -> None:
    await db[CHARACTERS].update_one({"_id": temple.me["_id"]}, {"$set": {"gold": 0}})
    await db[CHARACTERS].delete_one({"_id": temple.friend["_id"]})


async def _wrong_load(db: Database, temple: Temple) -> None:
    where = {"_id": temple.room["_id"], "characters._id": temple.friend["_id"]}
    await db[ROOMS].update_one(where, {"$inc": {"characters.$.load": 40}})


async def _old_copy(db: Database, temple: Temple) -> None:
    await db[CHARACTERS].update_one({"_id": temple.me["_id"]}, {"$set": {"location.version": -1}})


DAMAGES: dict[str, tuple[Damage, str]] = {
    "an item in two rooms": (_item_in_two_places, "it is in 2 places"),
    "a ware that also lies on the floor": (_item_with_a_keeper_and_on_the_floor, "it is in 2 places"),
    "something inside a container that is not there": (_contents_without_container, "inside an item that is not there"),
    "a hat that is worn and gone": (_worn_item_that_is_gone, "wears or wields it, but does not have it"),
    "gold from nothing": (_gold_from_nothing, "there are 1,207 gold pieces; there should be 1,200"),
    "gold that a shopkeeper lost": (_gold_lost_by_a_keeper, "there are 1,199 gold pieces; there should be 1,200"),
    "a debt": (_debt, "it has -50 gold pieces"),
    "a character in two rooms": (_listed_by_two_rooms, " lists it"),
    "a character in no room": (_listed_by_no_room, "but no room lists it"),
    "a character that does not exist": (_listed_without_existing, "lists it, but it does not exist"),
    "a load that does not add up": (_wrong_load, "hundredths of a pound, but it carries"),
    "an old copy of a room": (_old_copy, "its copy of room"),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_the_doctor_names_what_is_wrong_with_the_world(gateway: GatewayClient, damage: str) -> None:
    temple = await add_temple(gateway.db)
    await assert_sound(gateway.db)
    cause, expected = DAMAGES[damage]

    await cause(gateway.db, temple)

    found = [problem.text for invariant in acting.INVARIANTS async for problem in invariant.problems(gateway.db)]
    assert any(expected in problem for problem in found), found
