"""Idle characters leave their room, so that newcomers have a place, and come back when they act."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.mongo.faults import Crash
from portico.resolvers.documents import Database, Document
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.game.world.resting import rest_idle
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.writes.sweeps import SweepFailed
from portico.schema.game.game_masters import GAME_MASTER
from tests.game.support.scene import action, add_temple, assert_settled, assert_sound, world
from tests.game.support.stacks import call
from tests.game.support.stages import Keeping, names_of_resting
from tests.game.support.world import add_character, add_room, change_room, character_id, item, item_ids, monks, room_id
from tests.support.crashing_databases import CrashingDatabases
from tests.support.documents import stored
from tests.support.harness import GatewayClient, SettableClock

DAY = timedelta(days=1)
SHOWN = """query ($id: ID!) { character(id: $id) { name owner restingSince location { name characters { name } } } }"""


async def age(db: Database, clock: SettableClock, *characters: Document) -> None:
    """Makes the latest actions of these characters old, unless they rest."""
    for one in characters:
        old = {"$set": {"characters.$.since": clock.now() - 2 * DAY}, "$inc": {"revision": 1}}
        await db["game.locations"].update_one({"characters._id": one["_id"]}, old)


async def rest(db: Database, clock: SettableClock, *idle: Document, rooms: Rooms | None = None) -> int:
    """Lets these characters rest, and others that are idle. Returns how many rest now."""
    await age(db, clock, *idle)
    return await rest_idle(db, rooms or Rooms(), idle_for=DAY, now=clock.now())


async def shown(gateway: GatewayClient, character: Document, subject: str) -> Any:
    data = await gateway.data(SHOWN, {"id": character_id(character)}, token=gateway.token(subject))
    return data["character"]


async def test_an_idle_character_leaves_its_room_and_comes_back_when_it_acts(
    gateway: GatewayClient, db: Database, clock: SettableClock
) -> None:
    temple = await add_temple(db)

    assert await rest(db, clock, temple.me) == 1
    assert await rest(db, clock) == 0

    resting = await shown(gateway, temple.me, "tester")
    assert resting["location"] == {"name": "Temple", "characters": [{"name": "Smith"}, {"name": "Bo"}]}
    assert resting["restingSince"] is not None
    assert (await shown(gateway, temple.friend, "bo"))["location"] == resting["location"]
    await assert_settled(db)

    taken = await gateway.result("pickUp", action(temple, "pickUp"))

    assert taken["__typename"] == "CharacterPayload"
    assert [one["name"] for one in taken["character"]["location"]["characters"]] == ["Smith", "Bo", "Tester"]
    assert (await shown(gateway, temple.me, "tester"))["restingSince"] is None
    await assert_settled(db)


@pytest.mark.sample(3)
@pytest.mark.parametrize("mutation", ["wear", "unequip", "move", "give", "sell", "deleteCharacter"])
async def test_every_action_brings_a_resting_character_back(
    gateway: GatewayClient, db: Database, clock: SettableClock, mutation: str
) -> None:
    temple = await add_temple(db)
    await rest(db, clock, temple.me)

    answer = await gateway.result(mutation, action(temple, mutation))

    assert answer["__typename"].endswith("Payload")
    await assert_settled(db)


async def test_a_gift_goes_to_nobody_who_rests(gateway: GatewayClient, db: Database, clock: SettableClock) -> None:
    temple = await add_temple(db)
    await rest(db, clock, temple.friend)

    refused = await gateway.result("give", action(temple, "give"))

    assert refused["__typename"] == "NotFound"
    await assert_settled(db)


async def test_idle_characters_do_not_keep_new_ones_out(gateway: GatewayClient) -> None:
    temple = await add_room(gateway.db, "Temple", start=0, characters=monks()[:-8])
    given = {"name": "A", "characterClass": "thief"}
    await asyncio.gather(*(call(gateway, "createCharacter", "idler", given) for _ in range(8)))
    refused = await call(gateway, "createCharacter", "ann", given)
    await gateway.run_jobs(hours=25)
    created = await call(gateway, "createCharacter", "ann", given)

    assert refused["__typename"] == "LimitReached"
    assert [one["name"] for one in created["character"]["location"]["characters"]][-2:] == ["Monk 191", "A"]
    assert await gateway.db["game.characters"].count_documents({"resting_since": {"$ne": None}}) == 8
    await empty(gateway.db, temple)
    await assert_sound(gateway.db)


async def test_with_zero_hours_nobody_rests(gateway: GatewayClient, db: Database, clock: SettableClock) -> None:
    gateway.state.resources[GameSettings] = GameSettings(idle_character_hours=0)
    temple = await add_temple(db)
    await age(db, clock, temple.me)

    await gateway.run_jobs()

    assert (await shown(gateway, temple.me, "tester"))["restingSince"] is None


async def test_a_resting_character_whose_room_is_full_enters_a_start_room(gateway: GatewayClient, db: Database) -> None:
    temple = await add_temple(db)
    await rest(db, gateway.clock, temple.me)
    await fill(db, temple.room)
    drop = action(temple, "drop")

    stuck = await gateway.result("drop", drop)
    square = await add_room(db, "Square", start=1)
    dropped = await gateway.result("drop", drop)

    assert stuck["__typename"] == "LimitReached"
    assert dropped["character"]["location"]["locationId"] == room_id(square)
    await empty(db, temple.room)
    await assert_sound(db)


async def fill(db: Database, room: Document) -> None:
    await change_room(db, room, {"$push": {"characters": {"$each": monks()}}})


async def empty(db: Database, room: Document) -> None:
    """Takes the monks away, who have no documents of their own."""
    await change_room(db, room, {"$pull": {"characters": {"limit": 0}}})


async def test_a_game_master_moves_a_resting_character_whose_room_is_full(gateway: GatewayClient, db: Database) -> None:
    temple = await add_temple(db)
    await rest(db, gateway.clock, temple.me)
    await fill(db, temple.room)

    moved = await call(gateway, "moveCharacter", "master", action(temple, "moveCharacter"), GAME_MASTER)

    assert (moved["from"]["name"], moved["to"]["name"]) == ("Temple", "Market")
    assert [one["name"] for one in moved["to"]["characters"]] == ["Tester"]
    assert (await shown(gateway, temple.me, "tester"))["restingSince"] is None
    await empty(db, temple.room)
    await assert_sound(db)


async def test_characters_that_act_while_jobs_let_others_rest_stay_consistent(
    gateway: GatewayClient, db: Database, clock: SettableClock
) -> None:
    """Two processes let everybody rest, again and again, while two others act for everybody."""
    things = [item(f"thing {number}") for number in range(8)]
    room = await add_room(db, "Temple", items=things, start=0)
    everybody = [await add_character(db, f"player {number}", room) for number in range(8)]
    ids = item_ids(things)
    jobs = [Rooms(), Rooms()]
    counts = {"CharacterPayload": 0}

    async def lull() -> None:
        for number in range(12):
            await rest(db, clock, *everybody, rooms=jobs[number % 2])

    async def play(number: int) -> None:
        given = {"characterId": character_id(everybody[number]), "itemId": ids[number]}
        for mutation in ("pickUp", "drop") * 4:
            answer = await call(gateway, mutation, f"player {number}", given)
            counts[answer["__typename"]] = counts.get(answer["__typename"], 0) + 1

    await asyncio.gather(lull(), lull(), *(play(number) for number in range(8)))

    assert counts == {"CharacterPayload": 64}
    await gateway.run_jobs()
    await assert_sound(db)
    assert len((await stored(db, "game.locations"))["items"]) == 8


async def test_characters_that_rest_in_a_room_cost_those_that_act_there_nothing(
    gateway: GatewayClient, db: Database, clock: SettableClock
) -> None:
    temple = await add_temple(db)
    await rest(db, clock, temple.friend)
    before = await stored(db, "game.characters", temple.friend)
    crowd = [{**before, "_id": ObjectId(), "number": number} for number in range(300)]
    await db["game.characters"].insert_many(crowd)

    dropped = await gateway.result("drop", action(temple, "drop"))

    assert dropped["__typename"] == "CharacterPayload"
    resting = await db["game.characters"].find({"resting_since": {"$ne": None}}, {"location": 1}).to_list()
    assert len(resting) == 301
    assert all(one["location"] == before["location"] for one in resting)
    refresh = {"location._id": temple.room["_id"], "location.version": {"$lt": 10**9}, "resting_since": None}
    plan = {"update": "game.characters", "updates": [{"q": refresh, "u": {"$set": {"mana": 1}}, "multi": True}]}
    stats = (await db.command("explain", plan, verbosity="executionStats"))["executionStats"]
    assert stats["totalDocsExamined"] == 1


async def test_a_rest_that_crashes_anywhere_is_finished_and_an_action_ends_it(gateway: GatewayClient) -> None:
    scene, db = Keeping(gateway, gateway.clock), gateway.db
    for crashing_db in CrashingDatabases(db):
        await scene.restore()
        await scene.age()
        before = await world(db)
        with contextlib.suppress(Crash, SweepFailed):
            await scene.rest(crashing_db)
        await assert_sound(db)

        await scene.run_jobs()
        await scene.rest(db)
        await scene.run_jobs()

        assert await world(db) == before
        assert await names_of_resting(db) == ["Tester"]
        await assert_settled(db)
        assert await scene.typename_of("pickUp", action(scene.temple, "pickUp")) == "CharacterPayload"
        assert await world(db) == {**before, "sword": "Tester"}
        assert await names_of_resting(db) == []
        await scene.run_jobs()
        await assert_settled(db)
