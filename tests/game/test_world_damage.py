"""`portico doctor` names every kind of damage to the world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.domains.game.world import acting
from portico.resolvers.documents import Database, Document
from tests.game.support.scene import Temple, add_temple, assert_sound
from tests.game.support.world import change_room, item
from tests.support.documents import stored
from tests.support.harness import GatewayClient

CHARACTERS, ROOMS = "game.characters", "game.locations"
Damage = Callable[[Database, Temple], Awaitable[Any]]


def _room(db: Database, room: Document, change: Document) -> Awaitable[Any]:
    return db[ROOMS].update_one({"_id": room["_id"]}, change)


def _character(db: Database, character: Document, change: Document) -> Awaitable[Any]:
    return db[CHARACTERS].update_one({"_id": character["_id"]}, change)


async def _debt(db: Database, temple: Temple) -> None:
    await _character(db, temple.me, {"$inc": {"gold": -150}})
    await _character(db, temple.friend, {"$inc": {"gold": 150}})


async def _listed_by_two_rooms(db: Database, temple: Temple) -> None:
    room = await stored(db, ROOMS, temple.room)
    await _room(db, temple.market, {"$push": {"characters": room["characters"][0]}})


async def _listed_without_existing(db: Database, temple: Temple) -> None:
    await _character(db, temple.me, {"$set": {"gold": 0}})
    await db[CHARACTERS].delete_one({"_id": temple.friend["_id"]})


async def _wrong_load(db: Database, temple: Temple) -> None:
    await change_room(db, temple.room, {"$inc": {"characters.$.load": 40}}, of=temple.friend)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "an item in two rooms": (
        lambda db, temple: _room(db, temple.market, {"$push": {"items": temple.room["items"][0]}}),
        "it is in 2 places",
    ),
    "a ware that also lies on the floor": (
        lambda db, temple: _room(db, temple.room, {"$push": {"items": temple.room["keepers"][0]["items"][0]}}),
        "it is in 2 places",
    ),
    "something inside a container that is not there": (
        lambda db, temple: _room(db, temple.market, {"$push": {"items": item("pearl", inside=ObjectId())}}),
        "inside an item that is not there",
    ),
    "a hat that is worn and gone": (
        lambda db, temple: _character(db, temple.me, {"$pull": {"items": {"name": "hat"}}}),
        "wears or wields it, but does not have it",
    ),
    "gold from nothing": (
        lambda db, temple: _character(db, temple.me, {"$inc": {"gold": 7}}),
        "there are 1,207 gold pieces; there should be 1,200",
    ),
    "gold that a shopkeeper lost": (
        lambda db, temple: _room(db, temple.room, {"$inc": {"keepers.0.gold": -1}}),
        "there are 1,199 gold pieces; there should be 1,200",
    ),
    "a debt": (_debt, "it has -50 gold pieces"),
    "a character in two rooms": (_listed_by_two_rooms, " lists it"),
    "a character in no room": (
        lambda db, temple: _room(db, temple.room, {"$pull": {"characters": {"_id": temple.friend["_id"]}}}),
        "but no room lists it",
    ),
    "a character that does not exist": (_listed_without_existing, "lists it, but it does not exist"),
    "a load that does not add up": (_wrong_load, "hundredths of a pound, but it carries"),
    "an old copy of a room": (
        lambda db, temple: _character(db, temple.me, {"$set": {"location.version": -1}}),
        "its copy of room",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_the_doctor_names_what_is_wrong_with_the_world(gateway: GatewayClient, damage: str) -> None:
    temple = await add_temple(gateway.db)
    await assert_sound(gateway.db)
    cause, expected = DAMAGES[damage]

    await cause(gateway.db, temple)

    found = [problem.text for invariant in acting.INVARIANTS async for problem in invariant.problems(gateway.db)]
    assert any(expected in problem for problem in found), found
