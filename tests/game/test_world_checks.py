"""`portico doctor` names every kind of damage to the world, also items that are nowhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.domains.game.world import acting
from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world import room_actions
from portico.resolvers.game.world.rooms import Rooms
from tests.game.support.importing import WORLD, room, run
from tests.game.support.players import acting_for
from tests.game.support.scene import Temple, add_temple, assert_sound
from tests.game.support.world import change_room, item
from tests.support.documents import stored
from tests.support.domains import INVARIANTS
from tests.support.harness import GatewayClient, SettableClock

CHARACTERS, ROOMS = "game.characters", "game.locations"


@pytest.fixture
async def temple(db: Database) -> Temple:
    return await add_temple(db)


async def problems(db: Database) -> list[tuple[str, str]]:
    """Returns the subject and the text of each problem that the doctor finds."""
    return [(one.subject, one.text) for invariant in INVARIANTS async for one in invariant.check(db)]


async def set_in(db: Database, collection: str, document: Document, update: Document) -> None:
    changed = await db[collection].update_one({"_id": document["_id"]}, update)
    assert changed.modified_count == 1


@pytest.mark.parametrize("place", ["gifts", "keepers"])
async def test_an_item_that_is_also_among_gifts_or_wares_is_in_two_places(
    db: Database, temple: Temple, place: str
) -> None:
    pear = next(one for one in temple.me["items"] if one["name"] == "pear")
    path = "characters.1.gifts" if place == "gifts" else "keepers.0.items"
    await set_in(db, ROOMS, temple.room, {"$push": {path: pear}})

    other = (
        f"among the gifts for character {temple.friend['_id']}"
        if place == "gifts"
        else f"with shopkeeper {temple.room['_id']}.0"
    )
    with_me = f"with character {temple.me['_id']}"
    assert (f"item {pear['_id']}", f"it is in 2 places: {other}; {with_me}") in await problems(db)


async def test_an_item_that_a_character_has_lost_is_missed_by_its_room(db: Database, temple: Temple) -> None:
    await set_in(db, CHARACTERS, temple.me, {"$pull": {"items": {"name": "pear"}}})

    text = "its room counts 8 items of 800 hundredths of a pound, but it carries 7 of 700"
    assert await problems(db) == [(f"character {temple.me['_id']}", text)]


async def test_an_imported_item_that_is_nowhere_is_named(db: Database, tmp_path: Path) -> None:
    await run(db, tmp_path, *WORLD)
    cellar, square = await room(db, "cellar"), await room(db, "square")
    assert await problems(db) == []
    sword = square["keepers"][0]["items"][0]
    await set_in(db, ROOMS, cellar, {"$set": {"items": []}})
    await set_in(db, ROOMS, square, {"$pull": {"keepers.0.items": {"_id": sword["_id"]}}})

    assert sorted(await problems(db)) == sorted(
        [
            (f"item {cellar['items'][0]['_id']}", f"it is nowhere; room {cellar['_id']} had it as 'chest'"),
            (f"item {sword['_id']}", f"it is nowhere; room {square['_id']} had it as 'sword'"),
        ]
    )


async def test_an_imported_item_is_not_missed_while_it_is_on_its_way(
    db: Database, tmp_path: Path, clock: SettableClock
) -> None:
    await run(db, tmp_path, *WORLD)
    cellar = await room(db, "cellar")
    temple = await add_temple(db)
    chest = cellar["items"][0]
    slot = {"id": "r-left", "turn": 2, "kind": "DROP", "room": temple.room["_id"], "since": clock.now()}
    await set_in(db, ROOMS, cellar, {"$set": {"items": []}})
    await set_in(
        db, "game.characters", temple.friend, {"$set": {"turn": 2, "action": {**slot, "items": cellar["items"]}}}
    )

    assert not [subject for subject, _ in await problems(db) if subject == f"item {chest['_id']}"]


async def test_a_shopkeeper_who_owes_gold_is_named(db: Database, temple: Temple) -> None:
    await set_in(db, ROOMS, temple.room, {"$inc": {"keepers.0.gold": -1_001}})
    await set_in(db, CHARACTERS, temple.friend, {"$inc": {"gold": 1_001}})

    assert await problems(db) == [(f"shopkeeper {temple.room['_id']}.0", "it has -1 gold pieces")]


async def test_an_old_copy_of_a_room_is_named_and_repaired(gateway: GatewayClient, clock: SettableClock) -> None:
    db = gateway.db
    temple = await add_temple(db)
    await room_actions.pick_up(acting_for(db, Rooms(), temple.friend, clock), item_id=temple.room["items"][0]["_id"])
    old = {**temple.me["location"], "version": 1}
    await set_in(db, CHARACTERS, temple.me, {"$set": {"location": old}})

    found = [problem for invariant in INVARIANTS async for problem in invariant.check(db)]

    text = f"its copy of room {temple.room['_id']} is old"
    assert [(one.subject, one.text) for one in found] == [(f"character {temple.me['_id']}", text)]
    assert found[0].repair is not None
    await found[0].repair()
    await assert_sound(db)
    me = await stored(db, "game.characters", temple.me)
    assert "sword" not in {one["name"] for one in me["location"]["items"]}


Damage = Callable[[Database, Temple], Awaitable[Any]]


async def _debt(db: Database, temple: Temple) -> None:
    await set_in(db, CHARACTERS, temple.me, {"$inc": {"gold": -150}})
    await set_in(db, CHARACTERS, temple.friend, {"$inc": {"gold": 150}})


async def _listed_by_two_rooms(db: Database, temple: Temple) -> None:
    room = await stored(db, ROOMS, temple.room)
    await set_in(db, ROOMS, temple.market, {"$push": {"characters": room["characters"][0]}})


async def _listed_without_existing(db: Database, temple: Temple) -> None:
    await set_in(db, CHARACTERS, temple.me, {"$set": {"gold": 0}})
    await db[CHARACTERS].delete_one({"_id": temple.friend["_id"]})


async def _wrong_load(db: Database, temple: Temple) -> None:
    await change_room(db, temple.room, {"$inc": {"characters.$.load": 40}}, of=temple.friend)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "an item in two rooms": (
        lambda db, temple: set_in(db, ROOMS, temple.market, {"$push": {"items": temple.room["items"][0]}}),
        "it is in 2 places",
    ),
    "a ware that also lies on the floor": (
        lambda db, temple: set_in(db, ROOMS, temple.room, {"$push": {"items": temple.room["keepers"][0]["items"][0]}}),
        "it is in 2 places",
    ),
    "something inside a container that is not there": (
        lambda db, temple: set_in(db, ROOMS, temple.market, {"$push": {"items": item("pearl", inside=ObjectId())}}),
        "inside an item that is not there",
    ),
    "a hat that is worn and gone": (
        lambda db, temple: set_in(db, CHARACTERS, temple.me, {"$pull": {"items": {"name": "hat"}}}),
        "wears or wields it, but does not have it",
    ),
    "gold from nothing": (
        lambda db, temple: set_in(db, CHARACTERS, temple.me, {"$inc": {"gold": 7}}),
        "there are 1,207 gold pieces; there should be 1,200",
    ),
    "gold that a shopkeeper lost": (
        lambda db, temple: set_in(db, ROOMS, temple.room, {"$inc": {"keepers.0.gold": -1}}),
        "there are 1,199 gold pieces; there should be 1,200",
    ),
    "a debt": (_debt, "it has -50 gold pieces"),
    "a character in two rooms": (_listed_by_two_rooms, " lists it"),
    "a character in no room": (
        lambda db, temple: set_in(db, ROOMS, temple.room, {"$pull": {"characters": {"_id": temple.friend["_id"]}}}),
        "but no room lists it",
    ),
    "a character that does not exist": (_listed_without_existing, "lists it, but it does not exist"),
    "a load that does not add up": (_wrong_load, "hundredths of a pound, but it carries"),
    "an old copy of a room": (
        lambda db, temple: set_in(db, CHARACTERS, temple.me, {"$set": {"location.version": -1}}),
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


@pytest.mark.parametrize(
    ("collection", "document", "reason"),
    [
        (ROOMS, {}, "KeyError: 'items'"),
        (ROOMS, {"items": [], "keepers": [], "version": 1}, "KeyError: 'characters'"),
        (CHARACTERS, {"items": [], "gold": "many"}, "TypeError: 'gold' is no number"),
        (CHARACTERS, {"items": [{"_id": 1}]}, "KeyError: 'inside'"),
    ],
)
async def test_the_doctor_names_a_damaged_document_and_checks_all_others(
    db: Database, temple: Temple, collection: str, document: Document, reason: str
) -> None:
    broken = {"_id": ObjectId(), **document}
    await db[collection].insert_one(broken)
    await db[ROOMS].update_one({"_id": temple.market["_id"]}, {"$push": {"items": temple.room["items"][0]}})
    await _debt(db, temple)
    await _wrong_load(db, temple)

    found = await problems(db)

    named = (f"{'room' if collection == ROOMS else 'character'} {broken['_id']}",)
    assert [one for one in found if one[:1] == named] == [
        (*named, f"a field is missing or invalid ({reason})") for _ in range(3)
    ]
    others = " ".join(text for subject, text in found if subject != named[0])
    assert len(found) == 6, found
    for expected in ("it is in 2 places", "it has -50 gold pieces", "hundredths of a pound, but it carries"):
        assert expected in others


async def test_a_damaged_room_makes_nothing_else_seem_wrong(db: Database, temple: Temple, tmp_path: Path) -> None:
    await run(db, tmp_path, *WORLD)
    await set_in(db, ROOMS, temple.room, {"$unset": {"keepers": ""}})
    await set_in(db, ROOMS, await room(db, "cellar"), {"$unset": {"items": ""}})

    subjects = {subject for subject, _ in await problems(db)}

    assert subjects == {f"room {temple.room['_id']}", f"room {(await room(db, 'cellar'))['_id']}"}
