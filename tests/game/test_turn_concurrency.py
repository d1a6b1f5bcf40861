"""Many characters in one room at once, in one process and in several: nothing is lost, doubled or taken twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

import pytest

from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import DomainError
from portico.resolvers.game.refusals import LimitReached
from portico.resolvers.game.world import room_actions
from portico.resolvers.game.world.action_refusals import InsufficientGold, ItemGone, WrongItem
from portico.resolvers.game.world.characters import INTRINSICS
from portico.resolvers.game.world.creation import create_character
from portico.resolvers.game.world.locations import LOCATIONS, MAX_CHARACTERS
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turns import help_along
from portico.resolvers.writes.marks import random_operation_id
from tests.game.support.players import Players
from tests.game.support.scene import add_temple, assert_settled, assert_sound
from tests.game.support.world import add_character, add_room, change_room, item, keeper, monks
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock
from tests.support.interruptions import interrupted

PLAYERS = 200 if IS_SOAK else 20


@pytest.fixture
def players(db: Database, clock: SettableClock) -> Players:
    return Players(db, clock)


async def crowd(db: Database, room: Document, size: int, **fields: Any) -> list[Document]:
    return [await add_character(db, f"player{number}", room, **fields) for number in range(size)]


async def outcomes(actions: Iterable[Awaitable[Any]]) -> list[Any]:
    """Does everything at once. Returns what each action has returned, or its refusal."""
    found = await asyncio.gather(*actions, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException) and not isinstance(one, DomainError):
            raise one
    return list(found)


async def test_each_item_of_a_crowded_room_is_picked_up_by_one_character(db: Database, players: Players) -> None:
    things = [item(f"thing {number}") for number in range(PLAYERS // 2)]
    room = await add_room(db, "Temple", items=things)
    characters = await crowd(db, room, PLAYERS)

    found = await outcomes(
        room_actions.pick_up(players.acting(character, number), item_id=things[number // 2]["_id"])
        for number, character in enumerate(characters)
    )

    got = [len(one["items"]) for one in found if isinstance(one, dict)]
    assert got == [1] * len(things)
    gone = [one.item for one in found if isinstance(one, ItemGone)]
    assert sorted(gone) == sorted(str(thing["_id"]) for thing in things)
    await assert_settled(db)


async def test_characters_who_come_and_go_at_once_are_each_in_one_room(db: Database, players: Players) -> None:
    here, there = await add_room(db, "Temple"), await add_room(db, "Market")
    for one, other in ((here, there), (there, here)):
        ways = [{"direction": "N", "to": other["_id"]}]
        await db[LOCATIONS.name].update_one({"_id": one["_id"]}, {"$set": {"exits": ways}})
        one["exits"] = ways
    characters = [
        character
        for room in (here, there)
        for character in [await add_character(db, f"{room['name']}{n}", room) for n in range(PLAYERS // 2)]
    ]

    async def walk(character: Document, number: int) -> None:
        for _ in range(3):
            await room_actions.move(players.acting(character, number), direction="N")

    await asyncio.gather(*(walk(character, number) for number, character in enumerate(characters)))

    rooms = {room["_id"]: room async for room in db[LOCATIONS.name].find({})}
    assert {entry["_id"] for entry in rooms[here["_id"]]["characters"]} == {
        character["_id"] for character in characters[PLAYERS // 2 :]
    }
    assert sum(len(room["characters"]) for room in rooms.values()) == PLAYERS
    await assert_settled(db)


async def test_a_room_admits_no_more_than_its_bound(db: Database, players: Players) -> None:
    full = await add_room(db, "Cell")
    entries = monks()[:-2]
    await db[LOCATIONS.name].update_one({"_id": full["_id"]}, {"$set": {"characters": entries}})
    temple = await add_room(db, "Temple", exits=[{"direction": "N", "to": full["_id"]}])
    characters = await crowd(db, temple, 8)

    found = await outcomes(
        room_actions.move(players.acting(one, number), direction="N") for number, one in enumerate(characters)
    )

    assert sum(isinstance(one, room_actions.Moved) for one in found) == 2
    assert {one.limit for one in found if isinstance(one, LimitReached)} == {MAX_CHARACTERS}
    rooms = {room["name"]: room async for room in db[LOCATIONS.name].find({})}
    assert (len(rooms["Cell"]["characters"]), len(rooms["Temple"]["characters"])) == (MAX_CHARACTERS, 6)


async def test_two_full_rooms_whose_characters_swap_block_nobody(db: Database, players: Players) -> None:
    rooms = [await add_room(db, name) for name in ("Temple", "Market")]
    walkers = []
    for room, other in (rooms, reversed(rooms)):
        walkers.append(await add_character(db, f"walker of {room['name']}", room))
        ways = [{"direction": "N", "to": other["_id"]}]
        await db[LOCATIONS.name].update_one({"_id": room["_id"]}, {"$set": {"exits": ways}})
        copy = {"location._id": room["_id"]}
        await db["game.characters"].update_many(copy, {"$set": {"location.exits": ways}})
        others = monks()[:-1]
        query = {"_id": room["_id"]}
        await db[LOCATIONS.name].update_one(query, {"$push": {"characters": {"$each": others}}})

    async def swap() -> list[Any]:
        return await outcomes(room_actions.move(players.acting(one, n), direction="N") for n, one in enumerate(walkers))

    refused = await swap()
    for room in rooms:
        await change_room(db, room, {"$pull": {"characters": {"name": "Monk 0"}}})
    moved = await swap()

    assert [type(one) for one in refused] == [LimitReached, LimitReached]
    assert [one.character["location"]["_id"] for one in moved] == [rooms[1]["_id"], rooms[0]["_id"]]
    async for room in db[LOCATIONS.name].find({}):
        assert len(room["characters"]) == MAX_CHARACTERS - 1
        assert not any("leaving" in entry or "absent" in entry for entry in room["characters"])


async def test_a_creation_that_another_process_has_refused_on_its_way_blocks_no_number(
    db: Database, players: Players, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = await add_room(db, "Cell", start=0)
    entries = monks()
    await db[LOCATIONS.name].update_one({"_id": full["_id"]}, {"$set": {"characters": entries}})
    # The second attempt begins in the same moment.
    drawn = iter([999])
    monkeypatch.setattr("random.randrange", lambda _: next(drawn, 0))

    async def refuse_and_crash() -> None:
        _, faulty = FaultyDatabase.around(db, stop_after=3)
        (character,) = await db["game.characters"].find({}).to_list()
        with pytest.raises(Crash):
            await help_along(faulty, Rooms(), character["_id"])

    with pytest.raises(LimitReached):
        await create_character(
            interrupted(db, LOCATIONS.name, "update_one", refuse_and_crash),
            players.processes[0],
            owner="ann",
            name="Eve",
            character_class="Thief",
            intrinsics=dict.fromkeys(INTRINSICS, 10),
            gold=100,
            now=players.clock.now(),
            operation_id=random_operation_id(),
        )

    assert await db["game.characters"].count_documents({}) == 0
    assert [room["characters"] async for room in db[LOCATIONS.name].find({})] == [entries]


async def test_a_purse_pays_no_more_than_it_holds_however_many_sell_at_once(db: Database, players: Players) -> None:
    room = await add_room(db, "Market", keepers=[keeper("Smith", gold=17, initial_gold=17)])
    sellers = []
    for number in range(8):
        sword = item(f"sword {number}", kind="WEAPON", cost=10)
        sellers.append((await add_character(db, f"player{number}", room, items=[sword]), sword))
    key = f"{room['_id']}.0"

    found = await outcomes(
        room_actions.sell(players.acting(seller, n), keeper_key=key, item_id=sword["_id"])
        for n, (seller, sword) in enumerate(sellers)
    )

    assert sorted(one["gold"] for one in found if isinstance(one, dict)) == [105] * 3
    assert {(one.price, one.gold) for one in found if isinstance(one, InsufficientGold)} == {(5, 2)}
    await assert_settled(db)


async def test_a_ware_is_sold_once_and_its_price_is_paid_once(db: Database, players: Players) -> None:
    crown = item("crown", cost=45)
    room = await add_room(db, "Market", keepers=[keeper("Smith", crown)])
    buyers = await crowd(db, room, 8)

    found = await outcomes(
        room_actions.buy(players.acting(one, n), keeper_key=f"{room['_id']}.0", item_id=crown["_id"])
        for n, one in enumerate(buyers)
    )

    assert [one["gold"] for one in found if isinstance(one, dict)] == [10]
    assert sum(isinstance(one, ItemGone) for one in found) == 7
    await assert_settled(db)


async def test_two_who_give_each_other_something_at_once_both_have_it(db: Database, players: Players) -> None:
    room = await add_room(db, "Temple")
    rings = [item(f"ring {number}") for number in range(2)]
    one, other = [await add_character(db, f"player{number}", room, items=[rings[number]]) for number in range(2)]

    await asyncio.gather(
        room_actions.give(players.acting(one, 0), item_id=rings[0]["_id"], to=other["_id"]),
        room_actions.give(players.acting(other, 1), item_id=rings[1]["_id"], to=one["_id"]),
    )

    held = {found["_id"]: [thing["name"] for thing in found["items"]] async for found in db["game.characters"].find({})}
    assert held == {one["_id"]: ["ring 1"], other["_id"]: ["ring 0"]}
    await assert_settled(db)


async def test_the_load_never_exceeds_the_strength_of_a_character_who_gets_gifts_from_many(
    db: Database, players: Players
) -> None:
    room = await add_room(db, "Temple")
    taker = await add_character(db, "taker", room)
    givers = []
    for number in range(5):
        anvil = item(f"anvil {number}", weight=6_000)
        givers.append((await add_character(db, f"giver{number}", room, items=[anvil]), anvil))

    found = await outcomes(
        room_actions.give(players.acting(giver, n), item_id=anvil["_id"], to=taker["_id"])
        for n, (giver, anvil) in enumerate(givers)
    )

    assert sum(isinstance(one, dict) for one in found) == 2
    refused = [one for one in found if isinstance(one, WrongItem)]
    assert [one.message for one in refused] == ["Taker cannot carry this as well."] * 3
    await assert_settled(db)


async def test_concurrent_actions_in_a_room_share_their_updates(gateway: GatewayClient, clock: SettableClock) -> None:
    db = gateway.db
    players = Players(db, clock, processes=1)
    things = [item(f"thing {number}") for number in range(30)]
    room = await add_room(db, "Temple", items=things)
    characters = await crowd(db, room, 30)
    gateway.commands.clear()

    await asyncio.gather(
        *(
            room_actions.pick_up(players.acting(one), item_id=thing["_id"])
            for one, thing in zip(characters, things, strict=True)
        )
    )

    assert 0 < gateway.commands.names().count("update game.locations") < len(characters)
    refreshes = [
        one
        for one in gateway.commands.sent
        if one.get("update") == "game.characters" and "location._id" in one["updates"][0]["q"]
    ]
    assert 0 < len(refreshes) < len(characters)
    await assert_settled(db)


async def test_a_cancelled_caller_harms_no_other(db: Database, players: Players) -> None:
    things = [item(f"thing {number}") for number in range(6)]
    room = await add_room(db, "Temple", items=things)
    characters = await crowd(db, room, 6)
    tasks = [
        asyncio.create_task(room_actions.pick_up(players.acting(one), item_id=thing["_id"]))
        for one, thing in zip(characters, things, strict=True)
    ]
    # The room's update is under way.
    while all(process._steps.is_idle(room["_id"]) for process in players.processes):  # noqa: ASYNC110 - no event says so
        await asyncio.sleep(0)
    tasks[0].cancel()

    found = await asyncio.gather(*tasks, return_exceptions=True)

    assert [len(one["items"]) for one in found[1:] if isinstance(one, dict)] == [1] * 5
    await assert_sound(db)


async def test_an_action_finishes_first_what_its_character_has_under_way(db: Database, players: Players) -> None:
    temple = await add_temple(db)
    action = {"id": "r-left", "turn": 2, "kind": "PICK_UP", "room": temple.room["_id"], "since": players.clock.now()}
    sword = temple.room["items"][0]["_id"]
    await db["game.characters"].update_one(
        {"_id": temple.me["_id"]}, {"$set": {"turn": 2, "action": {**action, "item": sword}}}
    )

    moved = await room_actions.move(players.acting(temple.me), direction="N")

    assert sword in {one["_id"] for one in moved.character["items"]}
    await assert_settled(db)
