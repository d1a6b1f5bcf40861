"""Every number of the game at zero and at its bound, and actions that fail by a fault: the character can act again."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.errors import WriteError

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world import room_actions
from portico.resolvers.game.world.action_refusals import TurnFailed
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.locations import LOCATIONS
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_runs import Acting
from tests.game.support.players import acting_for
from tests.game.support.scene import add_temple, assert_settled
from tests.game.support.stacks import do
from tests.game.support.world import add_character, add_room, character_id, item, item_ids, keeper, keeper_id
from tests.support.documents import stored
from tests.support.harness import GatewayClient, SettableClock, assert_invariants
from tests.support.interruptions import interrupted

MOST_GOLD, MOST_PERCENT = 10**9, 100_000


async def stand_in_shop(
    db: Database, ware: Document, carried: Document, *, gold: int = 100, purse: int = 1_000, **fields: Any
) -> Document:
    """Stores a shop with the ware. Returns the input of an action that Ann does with its keeper."""
    room = await add_room(db, "Shop", keepers=[keeper("Smith", ware, gold=purse, initial_gold=purse, **fields)])
    me = await add_character(db, "ann", room, items=[carried], gold=gold, initial_gold=gold)
    return {"characterId": character_id(me), "shopkeeperId": keeper_id(room)}


@pytest.mark.parametrize(
    ("cost", "asks", "pays", "purse", "price", "payment"),
    [
        (0, 200, 50, 1_000, 0, 0),
        (10, 0, 50, 1_000, 0, 5),
        (10, 200, 0, 1_000, 20, 0),
        (10, 0, 0, 0, 0, 0),
        (0, MOST_PERCENT, MOST_PERCENT, 0, 0, 0),
        (MOST_GOLD, MOST_PERCENT, 0, MOST_GOLD, 10**12, 0),
        (MOST_GOLD, 0, 100, MOST_GOLD, 0, MOST_GOLD),
    ],
)
async def test_wares_are_bought_and_sold_at_every_price(
    gateway: GatewayClient, cost: int, asks: int, pays: int, purse: int, price: int, payment: int
) -> None:
    ware, carried = item("ware", kind="WEAPON", cost=cost), item("carried", kind="WEAPON", cost=cost)
    given = await stand_in_shop(gateway.db, ware, carried, gold=10**12, purse=purse, asks=asks, pays=pays)

    bought = await do(gateway, "buy", **given, itemId=item_ids([ware])[0])
    sold = await do(gateway, "sell", **given, itemId=item_ids([carried])[0])

    assert bought["character"]["gold"] == 10**12 - price
    assert sold["character"]["gold"] == 10**12 - price + payment
    assert [one["id"] for one in sold["character"]["inventory"]] == item_ids([ware])
    await assert_settled(gateway.db)


async def test_who_has_no_gold_buys_what_costs_nothing_and_nothing_else(gateway: GatewayClient) -> None:
    free, dear = item("free", cost=0), item("dear", cost=1)
    given = await stand_in_shop(gateway.db, free, item("carried"), gold=0)
    await gateway.db[LOCATIONS.name].update_one({}, {"$push": {"keepers.0.items": dear}, "$inc": {"revision": 1}})

    refused = await do(gateway, "buy", **given, itemId=item_ids([dear])[0])
    bought = await do(gateway, "buy", **given, itemId=item_ids([free])[0])

    assert (refused["__typename"], refused["price"], refused["gold"]) == ("InsufficientGold", 2, 0)
    assert bought["character"]["gold"] == 0
    await assert_settled(gateway.db)


@pytest.mark.parametrize("fields", [{"weight": 0}, {"capacity": 0}, {"bonus": 0}, {"weight": 15_000, "cost": None}])
async def test_an_item_moves_whatever_its_numbers_are(gateway: GatewayClient, fields: Document) -> None:
    thing = item("thing", **fields)
    room = await add_room(gateway.db, "Temple", items=[thing])
    me, friend = [await add_character(gateway.db, name, room) for name in ("ann", "bob")]
    mine = {"characterId": character_id(me), "itemId": item_ids([thing])[0]}

    picked = await do(gateway, "pickUp", **mine)
    dropped = await do(gateway, "drop", **mine)
    again = await do(gateway, "pickUp", **mine)
    given = await do(gateway, "give", **mine, toId=character_id(friend))

    assert {one["__typename"] for one in (picked, dropped, again, given)} == {"CharacterPayload"}
    await assert_settled(gateway.db)


async def test_a_container_of_no_capacity_holds_what_weighs_nothing(gateway: GatewayClient) -> None:
    bag, air, stone = item("bag", capacity=0), item("air", weight=0), item("stone", weight=1)
    room = await add_room(gateway.db, "Temple", items=[bag, air, stone])
    me = {"characterId": character_id(await add_character(gateway.db, "ann", room))}
    bag_id, air_id, stone_id = item_ids([bag, air, stone])
    for thing in (air_id, stone_id):
        await do(gateway, "pickUp", **me, itemId=thing)

    put = await do(gateway, "putIn", **me, containerId=bag_id, itemId=air_id)
    refused = await do(gateway, "putIn", **me, containerId=bag_id, itemId=stone_id)

    assert (put["__typename"], refused["__typename"], refused["limit"]) == ("CharacterPayload", "LimitReached", 0)
    await assert_settled(gateway.db)


async def test_a_purchase_for_nothing_that_an_earlier_version_has_begun_is_finished(gateway: GatewayClient) -> None:
    ware = item("ware", cost=0)
    given = await stand_in_shop(gateway.db, ware, item("carried"))
    room = await stored(gateway.db, LOCATIONS.name)
    action = {"id": "r-old", "turn": 2, "kind": "BUY", "room": room["_id"], "since": gateway.clock.now(), "keeper": 0}
    stuck = {"turn": 2, "action": {**action, "item": ware["_id"]}}
    await gateway.db[CHARACTERS.name].update_one({}, {"$set": stuck})
    await gateway.run_jobs(seconds=6)

    await assert_settled(gateway.db)
    sold = await do(gateway, "sell", **given, itemId=item_ids([ware])[0])
    assert sold["__typename"] == "WrongItem"


class Fault:
    """A room and a character, in a process that reports faults."""

    def __init__(self, db: Database, clock: SettableClock) -> None:
        self.db = db
        self.clock = clock
        self.reported: list[tuple[str, str]] = []
        self.rooms = Rooms(lambda error, step: self.reported.append((type(error).__name__, step["kind"])))

    def acting(self, character: Document, db: Database | None = None) -> Acting:
        return acting_for(self.db if db is None else db, self.rooms, character, self.clock)


@pytest.fixture
def fault(db: Database, clock: SettableClock) -> Fault:
    return Fault(db, clock)


async def test_an_action_that_damage_makes_fail_is_undone_and_the_character_can_act_again(
    db: Database, fault: Fault
) -> None:
    good, damaged = item("good"), item("damaged")
    del damaged["weight"]
    room = await add_room(db, "Temple", items=[good, damaged])
    me = await add_character(db, "ann", room)

    with pytest.raises(TurnFailed, match="PICK_UP failed: KeyError: 'weight'"):
        await room_actions.pick_up(fault.acting(me), item_id=damaged["_id"])
    after = await room_actions.pick_up(fault.acting(me), item_id=good["_id"])

    assert [one["name"] for one in after["items"]] == ["good"]
    assert [one["name"] for one in after["location"]["items"]] == ["damaged"]
    assert fault.reported == [("KeyError", "PICK_UP")]
    assert "action" not in after


async def test_a_damaged_item_that_was_handed_over_goes_back(db: Database, fault: Fault) -> None:
    damaged = item("damaged")
    del damaged["weight"]
    room = await add_room(db, "Temple")
    me = await add_character(db, "ann", room, items=[damaged])

    with pytest.raises(TurnFailed):
        await room_actions.drop(fault.acting(me), item_id=damaged["_id"])

    character = await stored(db, CHARACTERS.name, me)
    assert [one["name"] for one in character["items"]] == ["damaged"]
    assert "action" not in character


async def test_an_action_whose_room_mongodb_refuses_to_store_is_undone(db: Database, fault: Fault) -> None:
    temple = await add_temple(db)
    bag = next(one["_id"] for one in temple.me["items"] if one["name"] == "bag")

    async def refuse() -> None:
        raise WriteError("Document failed validation", 121)

    refusing = interrupted(db, LOCATIONS.name, "update_one", refuse)
    with pytest.raises(TurnFailed, match="DROP failed: WriteError"):
        await room_actions.drop(fault.acting(temple.me, refusing), item_id=bag)
    dropped = await room_actions.drop(fault.acting(temple.me), item_id=bag)

    assert "bag" in {one["name"] for one in dropped["location"]["items"]}
    assert fault.reported == [("WriteError", "DROP")]
    await assert_settled(db)


async def test_a_fault_of_one_action_does_not_spread_to_gifts_and_other_rooms(gateway: GatewayClient) -> None:
    db = gateway.db
    damaged = item("damaged")
    del damaged["weight"]
    room = await add_room(db, "Temple", items=[damaged])
    ring = item("ring", cost=None)
    me, friend = await add_character(db, "ann", room), await add_character(db, "bob", room, items=[ring])
    kind = {"kind": "PICK_UP", "room": room["_id"], "item": damaged["_id"]}
    stuck = {"turn": 2, "action": {"id": "r-old", "turn": 2, "since": gateway.clock.now(), **kind}}
    await db[CHARACTERS.name].update_one({"_id": me["_id"]}, {"$set": stuck})

    given = {"characterId": character_id(friend), "itemId": item_ids([ring])[0], "toId": character_id(me)}
    result = await do(gateway, "give", "bob", **given)
    await gateway.run_jobs(seconds=6)

    assert result["__typename"] == "CharacterPayload"
    character = await stored(db, CHARACTERS.name, me)
    assert [one["name"] for one in character["items"]] == ["ring"]
    await db[LOCATIONS.name].update_one({"_id": room["_id"]}, {"$pull": {"items": {"name": "damaged"}}})
    await assert_invariants(gateway)
