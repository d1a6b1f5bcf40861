"""Items that are nowhere, and other damage that `portico doctor` finds by what should be there. It names each."""

from __future__ import annotations

from pathlib import Path

import pytest
from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world import room_actions
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_runs import Acting
from portico.resolvers.writes.marks import random_operation_id
from portico.schema.kinds import split_id
from tests.game.support.importing import WORLD, room, run
from tests.game.support.scene import Temple, add_temple, assert_sound
from tests.support.documents import stored
from tests.support.domains import INVARIANTS
from tests.support.harness import GatewayClient, SettableClock


@pytest.fixture
async def temple(db: Database) -> Temple:
    return await add_temple(db)


async def problems(db: Database) -> list[tuple[str, str]]:
    """Returns the subject and the text of each problem that the doctor finds."""
    return [(one.subject, one.text) for invariant in INVARIANTS async for one in invariant.check(db)]


async def set_in(db: Database, collection: str, document: Document, update: Document) -> None:
    changed = await db[collection].update_one({"_id": document["_id"]}, update)
    assert changed.modified_count == 1


def item_key(temple: Temple, name: str) -> ObjectId:
    return ObjectId(split_id(temple.items[name])[1])


@pytest.mark.parametrize("place", ["gifts", "keepers"])
async def test_an_item_that_is_also_among_gifts_or_wares_is_in_two_places(
    db: Database, temple: Temple, place: str
) -> None:
    pear = next(one for one in temple.me["items"] if one["name"] == "pear")
    path = "characters.1.gifts" if place == "gifts" else "keepers.0.items"
    await set_in(db, "game.locations", temple.room, {"$push": {path: pear}})

    other = (
        f"among the gifts for character {temple.friend['_id']}"
        if place == "gifts"
        else f"with shopkeeper {temple.room['_id']}.0"
    )
    with_me = f"with character {temple.me['_id']}"
    assert (f"item {pear['_id']}", f"it is in 2 places: {other}; {with_me}") in await problems(db)


async def test_an_item_that_a_character_has_lost_is_missed_by_its_room(db: Database, temple: Temple) -> None:
    await set_in(db, "game.characters", temple.me, {"$pull": {"items": {"name": "pear"}}})

    assert await problems(db) == [
        (
            f"character {temple.me['_id']}",
            "its room counts 8 items of 800 hundredths of a pound, but it carries 7 of 700",
        )
    ]


async def test_an_imported_item_that_is_nowhere_is_named(db: Database, tmp_path: Path) -> None:
    await run(db, tmp_path, *WORLD)
    cellar, square = await room(db, "cellar"), await room(db, "square")
    assert await problems(db) == []
    sword = square["keepers"][0]["items"][0]
    await set_in(db, "game.locations", cellar, {"$set": {"items": []}})
    await set_in(db, "game.locations", square, {"$pull": {"keepers.0.items": {"_id": sword["_id"]}}})

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
    await set_in(db, "game.locations", cellar, {"$set": {"items": []}})
    await set_in(
        db,
        "game.characters",
        temple.friend,
        {"$set": {"turn": 2, "action": {**slot, "items": cellar["items"]}}},
    )

    assert not [subject for subject, _ in await problems(db) if subject == f"item {chest['_id']}"]


async def test_a_shopkeeper_who_owes_gold_is_named(db: Database, temple: Temple) -> None:
    await set_in(db, "game.locations", temple.room, {"$inc": {"keepers.0.gold": -1_001}})
    await set_in(db, "game.characters", temple.friend, {"$inc": {"gold": 1_001}})

    assert await problems(db) == [(f"shopkeeper {temple.room['_id']}.0", "it has -1 gold pieces")]


async def test_an_old_copy_of_a_room_is_named_and_repaired(gateway: GatewayClient, clock: SettableClock) -> None:
    db = gateway.db
    temple = await add_temple(db)
    rooms = Rooms()
    acting = Acting(db, rooms, temple.friend["_id"], None, clock.now(), random_operation_id())
    await room_actions.pick_up(acting, item_id=item_key(temple, "sword"))
    old = {**temple.me["location"], "version": 1}
    await set_in(db, "game.characters", temple.me, {"$set": {"location": old}})

    found = [problem for invariant in INVARIANTS async for problem in invariant.check(db)]

    text = f"its copy of room {temple.room['_id']} is old"
    assert [(one.subject, one.text) for one in found] == [(f"character {temple.me['_id']}", text)]
    assert found[0].repair is not None
    await found[0].repair()
    await assert_sound(db)
    me = await stored(db, "game.characters", temple.me)
    assert "sword" not in {one["name"] for one in me["location"]["items"]}
