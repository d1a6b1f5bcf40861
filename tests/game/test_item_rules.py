"""What can be done with an item: containers, armor and weapons."""

from __future__ import annotations

from typing import Any

from portico.resolvers.documents import Database, Document
from tests.game.support.scene import add_temple, assert_settled
from tests.game.support.world import add_character, add_room, change_room, character_id, item, item_ids
from tests.support.harness import GatewayClient


async def do(gateway: GatewayClient, mutation: str, character: Document, thing: Document, **given: Any) -> Any:
    (item_id,) = item_ids([thing])
    return await gateway.result(mutation, {"characterId": character_id(character), "itemId": item_id, **given})


def typename(answer: Any) -> str:
    return str(answer["__typename"])


async def test_a_two_handed_weapon_takes_both_hands_and_they_must_be_free(gateway: GatewayClient, db: Database) -> None:
    temple = await add_temple(db, gateway.subject)
    axe, knife = temple.on("axe"), temple.on("knife")

    assert typename(await gateway.result("wield", {**axe, "hand": "RIGHT"})) == "WrongItem"
    assert typename(await gateway.result("wield", {**axe, "hand": "BOTH"})) == "WrongItem"
    assert typename(await gateway.result("unequip", knife)) == "CharacterPayload"
    assert typename(await gateway.result("wield", {**knife, "hand": "BOTH"})) == "WrongItem"
    wielded = await gateway.result("wield", {**axe, "hand": "BOTH"})

    assert wielded["character"]["weapons"] == {"left": None, "right": None, "both": {"id": temple.items["axe"]}}
    assert typename(await gateway.result("wield", {**knife, "hand": "LEFT"})) == "WrongItem"


async def test_a_chest_holds_no_more_than_its_capacity_however_deep_the_item_goes(
    gateway: GatewayClient, db: Database
) -> None:
    chest = item("chest", capacity=300)
    bag = item("bag", capacity=1_000, inside=chest["_id"])
    stones = [item(f"stone {number}") for number in range(3)]
    me = await add_character(db, gateway.subject, await add_room(db, "Temple", items=[chest, bag, *stones]))
    (bag_id,) = item_ids([bag])
    for stone in stones:
        assert typename(await do(gateway, "pickUp", me, stone)) == "CharacterPayload"

    answers = [await do(gateway, "putIn", me, stone, containerId=bag_id) for stone in stones]

    assert [typename(one) for one in answers] == ["CharacterPayload", "CharacterPayload", "LimitReached"]
    assert answers[-1]["limit"] == 3
    await assert_settled(db)


async def test_items_lie_at_most_four_deep_inside_each_other(gateway: GatewayClient, db: Database) -> None:
    boxes = [item(f"box {number}", capacity=10_000, weight=10) for number in range(5)]
    me = await add_character(db, gateway.subject, await add_room(db, "Temple", items=boxes))
    ids = item_ids(boxes)
    for box in boxes:
        await do(gateway, "pickUp", me, box)

    # Each box goes into the next one, with everything that is inside it.
    answers = [
        typename(await do(gateway, "putIn", me, boxes[number], containerId=ids[number + 1])) for number in range(4)
    ]
    into_itself = await do(gateway, "putIn", me, boxes[3], containerId=ids[0])

    assert answers == ["CharacterPayload"] * 3 + ["LimitReached"]
    assert typename(into_itself) == "WrongItem"
    await assert_settled(db)


async def test_what_is_inside_a_container_goes_with_it_and_counts(gateway: GatewayClient, db: Database) -> None:
    chest = item("chest", capacity=100_000, weight=10_000)
    gold = item("gold bar", weight=6_000, inside=chest["_id"])
    me = await add_character(db, gateway.subject, await add_room(db, "Temple", items=[chest, gold]))

    too_heavy = await do(gateway, "pickUp", me, chest)
    taken = await do(gateway, "takeOut", me, gold, containerId=item_ids([chest])[0])

    assert (typename(too_heavy), too_heavy["limit"]) == ("LimitReached", 150)
    assert [one["id"] for one in taken["character"]["inventory"]] == item_ids([gold])
    await assert_settled(db)


async def test_a_refused_gift_does_not_say_how_much_the_other_one_can_carry(gateway: GatewayClient) -> None:
    anvil, feather = item("anvil", weight=14_000), item("feather")
    room = await add_room(gateway.db, "Smithy", items=[anvil, feather])
    me = await add_character(gateway.db, gateway.subject, room)
    # Her intrinsics differ, and so does her limit.
    weak = await add_character(gateway.db, "weak", room, name="Ida")
    await change_room(gateway.db, room, {"$set": {"characters.$.limit": 4_500}}, of=weak)
    pebbles = [item(f"pebble {number}", weight=0) for number in range(200)]
    laden = await add_character(gateway.db, "laden", room, name="Ada", items=pebbles)
    for thing in (anvil, feather):
        await do(gateway, "pickUp", me, thing)

    heavy = await do(gateway, "give", me, anvil, toId=character_id(weak))
    many = await do(gateway, "give", me, feather, toId=character_id(laden))

    assert (typename(heavy), heavy["message"]) == ("WrongItem", "Ida cannot carry this as well.")
    assert (typename(many), many["message"]) == ("WrongItem", "Ada cannot carry this as well.")
    await assert_settled(gateway.db)


async def test_nobody_acts_for_the_character_of_another_player(gateway: GatewayClient, db: Database) -> None:
    temple = await add_temple(db, "ann")
    thief = gateway.token("thief", roles=())

    answer = await gateway.result("drop", temple.on("bag"), token=thief)

    assert typename(answer) == "NotFound"
    await assert_settled(db)
