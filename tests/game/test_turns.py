"""What characters do, through the public schema, and what can be done with an item."""

from __future__ import annotations

from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world import creation
from portico.resolvers.game.world.locations import MAX_CHARACTERS
from tests.game.support.scene import add_temple, assert_settled
from tests.game.support.stacks import do
from tests.game.support.world import (
    add_character,
    add_room,
    change_room,
    character_id,
    item,
    item_ids,
    keeper,
    keeper_id,
    monks,
    room_id,
)
from tests.support.documents import stored
from tests.support.harness import GatewayClient

SHOWN = """
    id name gold
    location { locationId name characters { characterId name } inventory { id contents { id } } }
    inventory { id contents { id } }
    armor { head { id } } weapons { left { id } right { id } both { id } }
"""


async def seen_by(gateway: GatewayClient, character: dict[str, Any], subject: str) -> Any:
    text = f"query ($id: ID!) {{ character(id: $id) {{ {SHOWN} }} }}"
    return (await gateway.data(text, {"id": character_id(character)}, token=gateway.token(subject)))["character"]


async def test_a_new_character_starts_in_the_first_room_with_the_starting_gold(gateway: GatewayClient) -> None:
    await add_room(gateway.db, "Market", start=1)
    temple = await add_room(gateway.db, "Temple", start=0)

    created = await do(gateway, "createCharacter", name="Ann", characterClass="wizard")

    assert created["__typename"] == "CharacterPayload"
    character = created["character"]
    assert character["gold"] == 100
    assert character["location"]["locationId"] == room_id(temple)
    assert [one["name"] for one in character["location"]["characters"]] == ["Ann"]


async def test_the_name_of_a_character_is_one_line(gateway: GatewayClient, db: Database) -> None:
    await add_room(db, "Temple", start=0)

    created = await do(gateway, "createCharacter", name="Ann\nTamsin the  smith", characterClass="wise\twoman")

    assert created["character"]["name"] == "Ann Tamsin the smith"


async def test_a_partner_must_be_in_the_room(gateway: GatewayClient, db: Database) -> None:
    bag = item("bag")
    me = await add_character(db, "ann", await add_room(db, "Temple"), items=[bag])
    forge = await add_room(db, "Forge", keepers=[keeper("Tamsin")])
    friend = await add_character(db, "bob", forge)
    mine = {"characterId": character_id(me), "itemId": item_ids([bag])[0]}

    refused = [
        await do(gateway, "give", **mine, toId=character_id(friend)),
        await do(gateway, "buy", **mine, shopkeeperId=keeper_id(forge)),
        await do(gateway, "sell", **mine, shopkeeperId=keeper_id(forge)),
    ]

    assert {(one["__typename"], one["message"]) for one in refused} == {
        ("NotFound", "There is no such character in the room.")
    }


async def test_an_entry_that_a_process_with_another_clock_has_left_does_not_keep_a_new_character_out(
    gateway: GatewayClient, db: Database
) -> None:
    now = gateway.state.clock.now()
    left = {"_id": creation.character_id("ann", 0), "name": "Ann", "turn": 10**16, "limit": 0, "load": 0, "count": 0}
    left |= {"took": [], "gold": 0, "refused": {"type": "LimitReached"}, "gifts": [], "since": now, "absent": True}
    await add_room(db, "Temple", start=0, characters=[left], leaving_since=now)

    created = await do(gateway, "createCharacter", name="Ann", characterClass="wizard")

    assert [one["name"] for one in created["character"]["location"]["characters"]] == ["Ann"]


async def test_a_character_that_moves_is_seen_in_the_new_room_and_not_in_the_old_one(gateway: GatewayClient) -> None:
    market = await add_room(gateway.db, "Market")
    temple = await add_room(gateway.db, "Temple", exits=[{"direction": "N", "to": market["_id"]}])
    ann = await add_character(gateway.db, "ann", temple)
    bo = await add_character(gateway.db, "bo", temple)
    cy = await add_character(gateway.db, "cy", market)

    moved = await do(gateway, "move", characterId=character_id(ann), direction="N")

    assert moved["character"]["location"]["name"] == "Market"
    assert [one["name"] for one in moved["character"]["location"]["characters"]] == ["Cy", "Ann"]
    assert [one["name"] for one in (await seen_by(gateway, bo, "bo"))["location"]["characters"]] == ["Bo"]
    assert [one["name"] for one in (await seen_by(gateway, cy, "cy"))["location"]["characters"]] == ["Cy", "Ann"]
    assert (await seen_by(gateway, ann, "ann")) == moved["character"]


async def test_an_item_goes_from_the_floor_to_a_friend_and_into_a_shop(gateway: GatewayClient, db: Database) -> None:
    sword = item("sword", kind="WEAPON", hands=1, cost=11)
    room = await add_room(db, "Temple", items=[sword], keepers=[keeper("Smith")])
    ann, bo = await add_character(db, "ann", room), await add_character(db, "bo", room)
    (sword_id,) = item_ids([sword])

    taken = await do(gateway, "pickUp", characterId=character_id(ann), itemId=sword_id)
    assert [one["id"] for one in taken["character"]["inventory"]] == [sword_id]
    assert taken["character"]["location"]["inventory"] == []
    again = await do(gateway, "pickUp", "bo", characterId=character_id(bo), itemId=sword_id)
    assert (again["__typename"], again["itemId"]) == ("ItemGone", sword_id)
    given = await do(gateway, "give", characterId=character_id(ann), itemId=sword_id, toId=character_id(bo))
    assert given["character"]["inventory"] == []
    assert [one["id"] for one in (await seen_by(gateway, bo, "bo"))["inventory"]] == [sword_id]
    smith = keeper_id(room)
    sold = await do(gateway, "sell", "bo", characterId=character_id(bo), shopkeeperId=smith, itemId=sword_id)
    assert (sold["character"]["gold"], sold["character"]["inventory"]) == (105, [])
    bought = await do(gateway, "buy", characterId=character_id(ann), shopkeeperId=smith, itemId=sword_id)
    assert (bought["character"]["gold"], len(bought["character"]["inventory"])) == (78, 1)
    dropped = await do(gateway, "drop", characterId=character_id(ann), itemId=sword_id)
    assert [one["id"] for one in dropped["character"]["location"]["inventory"]] == [sword_id]
    assert [one["id"] for one in (await seen_by(gateway, bo, "bo"))["location"]["inventory"]] == [sword_id]


async def test_a_new_character_starts_in_the_next_room_if_the_first_one_is_full(gateway: GatewayClient) -> None:
    full = await add_room(gateway.db, "Cell", start=0, characters=monks())
    open_to_all = await add_room(gateway.db, "Temple", start=1)

    created = await do(gateway, "createCharacter", name="Ann", characterClass="wizard")

    assert created["character"]["location"]["locationId"] == room_id(open_to_all)
    await assert_no_entry_is_left(gateway.db, full)


async def test_a_new_character_is_refused_if_all_start_rooms_are_full_and_the_player_can_try_again(
    gateway: GatewayClient, db: Database
) -> None:
    cells = [await add_room(db, name, start=number, characters=monks()) for number, name in enumerate(("Cell", "Cave"))]
    given = {"name": "Ann", "characterClass": "wizard"}

    refused = await do(gateway, "createCharacter", **given, idempotencyKey="the first try")
    again = await do(gateway, "createCharacter", **given, idempotencyKey="the first try")

    assert (refused["__typename"], again["__typename"]) == ("LimitReached", "LimitReached")
    assert refused["message"] == f"The room is full: {MAX_CHARACTERS} characters are in it."
    text = "{ viewer { characters { id } } }"
    assert await gateway.data(text, token=gateway.token("ann")) == {"viewer": {"characters": []}}
    assert await db["game.characters"].count_documents({}) == 0
    for cell in cells:
        await assert_no_entry_is_left(db, cell)

    # A monk leaves, so there is a place again.
    leaves = {"$pull": {"characters": {"name": "Monk 7"}}, "$inc": {"revision": 1, "version": 1}}
    await db["game.locations"].update_one({"_id": cells[1]["_id"]}, leaves)
    created = await do(gateway, "createCharacter", **given, idempotencyKey="the second try")

    assert created["character"]["location"]["name"] == "Cave"


async def assert_no_entry_is_left(db: Database, room: Document) -> None:
    """Nobody but the monks is in the roster."""
    found = await stored(db, "game.locations", room)
    assert found["characters"] == room["characters"]
    assert found.get("leaving_since") is None


async def act(gateway: GatewayClient, mutation: str, character: Document, thing: Document, **given: Any) -> Any:
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
        assert typename(await act(gateway, "pickUp", me, stone)) == "CharacterPayload"

    answers = [await act(gateway, "putIn", me, stone, containerId=bag_id) for stone in stones]

    assert [typename(one) for one in answers] == ["CharacterPayload", "CharacterPayload", "LimitReached"]
    assert answers[-1]["limit"] == 3
    await assert_settled(db)


async def test_items_lie_at_most_four_deep_inside_each_other(gateway: GatewayClient, db: Database) -> None:
    boxes = [item(f"box {number}", capacity=10_000, weight=10) for number in range(5)]
    me = await add_character(db, gateway.subject, await add_room(db, "Temple", items=boxes))
    ids = item_ids(boxes)
    for box in boxes:
        await act(gateway, "pickUp", me, box)

    # Each box goes into the next one, with everything that is inside it.
    answers = [
        typename(await act(gateway, "putIn", me, boxes[number], containerId=ids[number + 1])) for number in range(4)
    ]
    into_itself = await act(gateway, "putIn", me, boxes[3], containerId=ids[0])

    assert answers == ["CharacterPayload"] * 3 + ["LimitReached"]
    assert typename(into_itself) == "WrongItem"
    await assert_settled(db)


async def test_what_is_inside_a_container_goes_with_it_and_counts(gateway: GatewayClient, db: Database) -> None:
    chest = item("chest", capacity=100_000, weight=10_000)
    gold = item("gold bar", weight=6_000, inside=chest["_id"])
    me = await add_character(db, gateway.subject, await add_room(db, "Temple", items=[chest, gold]))

    too_heavy = await act(gateway, "pickUp", me, chest)
    taken = await act(gateway, "takeOut", me, gold, containerId=item_ids([chest])[0])

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
        await act(gateway, "pickUp", me, thing)

    heavy = await act(gateway, "give", me, anvil, toId=character_id(weak))
    many = await act(gateway, "give", me, feather, toId=character_id(laden))

    assert (typename(heavy), heavy["message"]) == ("WrongItem", "Ida cannot carry this as well.")
    assert (typename(many), many["message"]) == ("WrongItem", "Ada cannot carry this as well.")
    await assert_settled(gateway.db)


async def test_nobody_acts_for_the_character_of_another_player(gateway: GatewayClient, db: Database) -> None:
    temple = await add_temple(db, "ann")
    thief = gateway.token("thief", roles=())

    answer = await gateway.result("drop", temple.on("bag"), token=thief)

    assert typename(answer) == "NotFound"
    await assert_settled(db)
