"""What operators do with characters: they list, move, spawn and delete them. Players delete their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.refusals import LimitReached
from portico.resolvers.game.world.characters import MAX_CHARACTERS
from portico.resolvers.game.world.creation import create_character
from portico.resolvers.game.world.locations import MAX_ITEMS
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.writes.marks import random_operation_id
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.roles import Role
from tests.game.support.scene import action, add_temple, assert_settled, world
from tests.game.support.stacks import call
from tests.game.support.world import add_character, add_room, change_room, character_id, item, item_ids, monks, room_id
from tests.support.documents import stored
from tests.support.harness import MUTATIONS, GatewayClient, SettableClock

LIST = """query ($owner: String, $room: ID, $first: Int, $after: String) {
  characters(owner: $owner, locationId: $room, first: $first, after: $after) {
    nodes { name owner restingSince location { name } } pageInfo { hasNextPage endCursor } } }"""


async def create(gateway: GatewayClient, subject: str, name: str = "New") -> Any:
    return await call(gateway, "createCharacter", subject, {"name": name, "characterClass": "thief"})


async def test_a_game_master_moves_a_character_out_of_a_room_that_it_cannot_leave(gateway: GatewayClient) -> None:
    full = await add_room(gateway.db, "Hall", characters=monks())
    trap = await add_room(gateway.db, "Cell", exits=[{"direction": "N", "to": full["_id"]}])
    square = await add_room(gateway.db, "Square")
    ann, bo = await add_character(gateway.db, "ann", trap), await add_character(gateway.db, "bo", trap)
    given = {"characterId": character_id(ann), "locationId": room_id(square)}

    stuck = await call(gateway, "move", "ann", {"characterId": character_id(ann), "direction": "N"})
    moved = await call(gateway, "moveCharacter", "master", given, GAME_MASTER)

    assert stuck["__typename"] == "LimitReached"
    assert moved["character"]["location"]["name"] == "Square"
    assert (moved["from"]["name"], moved["to"]["name"]) == ("Cell", "Square")
    assert [one["name"] for one in moved["to"]["characters"]] == ["Ann"]
    found = await stored(gateway.db, "game.characters", bo)
    assert [one["name"] for one in found["location"]["characters"]] == ["Bo"]


@pytest.mark.parametrize("role", [MERCHANT, Role.EDITOR])
async def test_only_a_game_master_moves_spawns_and_lists_characters(gateway: GatewayClient, role: Role) -> None:
    temple = await add_temple(gateway.db)
    before = await world(gateway.db)
    token = gateway.token("tester", [role])

    for mutation in ("moveCharacter", "spawnCharacter"):
        answer = await gateway.ask(MUTATIONS[mutation], {"input": action(temple, mutation)}, token=token)
        assert answer.codes == ["FORBIDDEN"]
    assert (await gateway.ask(LIST, token=token)).codes == ["FORBIDDEN"]
    assert (await gateway.ask(LIST, token=None)).codes == ["UNAUTHENTICATED"]

    assert await world(gateway.db) == before


async def test_an_admin_moves_a_character_to_the_room_where_it_is(gateway: GatewayClient, db: Database) -> None:
    temple = await add_temple(db)
    given = {"characterId": character_id(temple.me), "locationId": room_id(temple.room)}

    moved = await call(gateway, "moveCharacter", "root", given, Role.ADMIN)

    assert (moved["from"]["name"], moved["to"]["name"]) == ("Temple", "Temple")
    await assert_settled(db)


async def test_a_repeated_move_says_from_where_even_if_the_first_answer_was_lost(
    gateway: GatewayClient, db: Database
) -> None:
    temple = await add_temple(db)
    given = {**action(temple, "moveCharacter"), "idempotencyKey": "out"}
    await gateway.result("moveCharacter", given)
    # The process stopped before it stored the answer.
    await db["operations"].update_many({}, {"$set": {"state": "running", "lease_until": gateway.state.clock.now()}})

    again = await gateway.result("moveCharacter", given)

    assert (again["from"]["name"], again["to"]["name"]) == ("Temple", "Market")


async def test_a_player_deletes_a_character_and_its_things_lie_on_the_floor(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, "ann")
    mine = [temple.items[name] for name in ("knife", "hat", "axe", "dagger", "cap", "bag", "pear")]
    floor = [temple.items[name] for name in ("sword", "chest")]
    given = action(temple, "deleteCharacter")

    deleted = await call(gateway, "deleteCharacter", "ann", given)

    assert deleted["deletedId"] == character_id(temple.me)
    assert deleted["location"]["name"] == "Temple"
    assert sorted(one["id"] for one in deleted["location"]["inventory"]) == sorted([*mine, *floor])
    token = gateway.token("ann")
    shown = await gateway.data(
        "query ($id: ID!) { character(id: $id) { id } node(id: $id) { id } viewer { characters { id } } }",
        {"id": given["characterId"]},
        token=token,
    )
    assert shown == {"character": None, "node": None, "viewer": {"characters": []}}
    again = await call(gateway, "deleteCharacter", "ann", given)
    moved = await call(gateway, "moveCharacter", "m", action(temple, "moveCharacter"), GAME_MASTER)
    assert (again["__typename"], moved["__typename"]) == ("NotFound", "NotFound")
    assert (await world(gateway.db))["apple"] == "Temple"
    await assert_settled(gateway.db)


async def test_a_gift_that_waits_falls_to_the_floor_too(gateway: GatewayClient, db: Database) -> None:
    temple = await add_temple(db)
    gift = item("gift")
    entry = {"characters.$.gifts": [gift], "characters.$.since": gateway.state.clock.now()}
    counted = {"characters.$.load": gift["weight"], "characters.$.count": 1}
    await change_room(db, temple.room, {"$set": entry, "$inc": counted}, of=temple.me)

    await gateway.result("deleteCharacter", action(temple, "deleteCharacter"))

    assert (await world(db))["gift"] == "Temple"
    await assert_settled(db)


async def test_nobody_deletes_the_character_of_another_player_but_a_game_master(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, "ann")
    given = action(temple, "deleteCharacter")

    refused = await call(gateway, "deleteCharacter", "bo", given)
    shopkeeper = await call(
        gateway, "deleteCharacter", "m", {"characterId": action(temple, "buy")["shopkeeperId"]}, GAME_MASTER
    )
    deleted = await call(gateway, "deleteCharacter", "master", given, GAME_MASTER)

    assert (refused["__typename"], shopkeeper["__typename"]) == ("NotFound", "NotFound")
    assert deleted["deletedId"] == given["characterId"]
    await assert_settled(gateway.db)


async def test_a_character_with_more_than_the_floor_can_take_stays_as_it_is(gateway: GatewayClient) -> None:
    straw = [item(f"straw {number}", weight=0) for number in range(MAX_ITEMS)]
    temple = await add_temple(gateway.db)
    await change_room(gateway.db, temple.room, {"$set": {"items": straw}, "$inc": {"version": 1}})
    await Rooms().refresh(gateway.db, temple.room["_id"])
    before = await world(gateway.db)

    refused = await gateway.result("deleteCharacter", action(temple, "deleteCharacter"))

    assert (refused["__typename"], refused["limit"]) == ("LimitReached", MAX_ITEMS)
    assert await world(gateway.db) == before
    await assert_settled(gateway.db)


async def test_a_deleted_character_counts_for_a_day_and_no_id_is_used_again(
    gateway: GatewayClient, db: Database, clock: SettableClock
) -> None:
    await add_room(db, "Temple", start=0)
    created = [await create(gateway, "ann", f"Ann {number}") for number in range(MAX_CHARACTERS)]
    ids = [one["character"]["id"] for one in created]
    for one in ids[:2]:
        await call(gateway, "deleteCharacter", "ann", {"characterId": one})

    refused = await create(gateway, "ann")
    clock.advance(hours=25)
    both = [await create(gateway, "ann"), await create(gateway, "ann")]
    full = await create(gateway, "ann")

    assert refused["message"] == (
        "A player has at most 20 characters. 2 of them were deleted less than a day ago, and still count."
    )
    assert not {one["character"]["id"] for one in both} & set(ids)
    assert full["message"] == "A player has at most 20 characters."
    assert await db["game.characters"].count_documents({"owner": "ann", "deleted": None}) == MAX_CHARACTERS
    await assert_settled(db)


async def test_concurrent_creations_after_deletions_stay_within_the_bound(gateway: GatewayClient, db: Database) -> None:
    await add_room(db, "Temple", start=0)
    ids = [(await create(gateway, "ann"))["character"]["id"] for _ in range(6)]
    for one in ids:
        await call(gateway, "deleteCharacter", "ann", {"characterId": one})
    gateway.clock.advance(hours=25)
    processes = [Rooms(), Rooms()]

    async def create_one(number: int) -> Document | LimitReached:
        try:
            return await create_character(
                db,
                processes[number % 2],
                owner="ann",
                name="Ann",
                character_class="thief",
                intrinsics=dict.fromkeys(("strength", "dexterity", "intelligence", "charisma"), 10),
                gold=100,
                now=gateway.clock.now(),
                operation_id=random_operation_id(),
            )
        except LimitReached as error:
            return error

    found = await asyncio.gather(*(create_one(number) for number in range(30)))

    alive = await db["game.characters"].count_documents({"owner": "ann", "deleted": None})
    assert alive == sum(isinstance(one, dict) for one in found) == MAX_CHARACTERS
    await assert_settled(db)


async def test_start_rooms_share_new_characters(gateway: GatewayClient, db: Database) -> None:
    rooms = [await add_room(db, f"Room {number}", start=number) for number in range(3)]

    for number in range(9):
        await create(gateway, f"player {number}")

    found = await db["game.locations"].find({}).to_list()
    assert [len(room["characters"]) for room in found] == [3] * len(rooms)


async def test_a_game_master_spawns_a_character_for_a_player_anywhere(gateway: GatewayClient, db: Database) -> None:
    temple = await add_temple(db)

    spawned = await call(gateway, "spawnCharacter", "master", action(temple, "spawnCharacter"), GAME_MASTER)

    assert (spawned["character"]["gold"], spawned["character"]["location"]["name"]) == (100, "Market")
    mine = await gateway.data("{ viewer { characters { id } } }", token=gateway.token("eva"))
    assert mine == {"viewer": {"characters": [{"id": spawned["character"]["id"]}]}}
    await assert_settled(db)


async def test_a_game_master_lists_characters_by_player_and_room(gateway: GatewayClient, db: Database) -> None:
    temple = await add_temple(db, "ann", "bo")
    await add_character(db, "cy", temple.market)
    await call(gateway, "deleteCharacter", "bo", {"characterId": character_id(temple.friend)})
    token = gateway.token("master", [GAME_MASTER])

    async def names(**given: Any) -> list[str]:
        found = (await gateway.data(LIST, given, token=token))["characters"]
        return [one["name"] for one in found["nodes"]]

    assert sorted(await names()) == ["Ann", "Cy"]
    assert await names(owner="ann") == ["Ann"]
    assert await names(owner="bo") == []
    assert await names(room=room_id(temple.market)) == ["Cy"]
    assert await names(owner="ann", room=room_id(temple.market)) == []
    first = (await gateway.data(LIST, {"first": 1}, token=token))["characters"]
    second = (await gateway.data(LIST, {"after": first["pageInfo"]["endCursor"]}, token=token))["characters"]
    assert sorted(one["name"] for one in (*first["nodes"], *second["nodes"])) == ["Ann", "Cy"]
    assert first["nodes"][0]["owner"] in ("ann", "cy")


async def test_an_item_on_the_floor_after_a_deletion_is_like_any_other(gateway: GatewayClient, db: Database) -> None:
    room = await add_room(db, "Temple")
    ring = item("ring")
    ann, bo = await add_character(db, "ann", room, items=[ring]), await add_character(db, "bo", room)

    await call(gateway, "deleteCharacter", "ann", {"characterId": character_id(ann)})
    taken = await call(gateway, "pickUp", "bo", {"characterId": character_id(bo), "itemId": item_ids([ring])[0]})

    assert [one["id"] for one in taken["character"]["inventory"]] == item_ids([ring])
    await assert_settled(db)


async def test_characters_are_deleted_and_moved_while_everybody_acts(gateway: GatewayClient, db: Database) -> None:
    """Gifts, pick-ups, deletions and moves by an operator race. Every item stays in exactly one place."""
    rings = [item(f"ring {number}") for number in range(8)]
    market = await add_room(db, "Market")
    room = await add_room(db, "Temple", items=rings, exits=[{"direction": "N", "to": market["_id"]}])
    everybody = [await add_character(db, f"player {number}", room) for number in range(8)]
    ids, keys = [character_id(one) for one in everybody], item_ids(rings)

    async def play(number: int) -> list[str]:
        me, other = {"characterId": ids[number]}, ids[(number + 1) % 8]
        calls: list[tuple[str, Document]] = [
            ("pickUp", {**me, "itemId": keys[number]}),
            ("give", {**me, "itemId": keys[number], "toId": other}),
            ("give", {**me, "itemId": keys[number - 1], "toId": other}),
            ("move", {**me, "direction": "N"}),
        ]
        return [(await call(gateway, name, f"player {number}", given))["__typename"] for name, given in calls]

    async def keep(number: int) -> str:
        if number % 2:
            given = {"characterId": ids[number]}
            return str((await call(gateway, "deleteCharacter", f"player {number}", given))["__typename"])
        given = {"characterId": ids[number], "locationId": room_id(market)}
        return str((await call(gateway, "moveCharacter", "master", given, GAME_MASTER))["__typename"])

    found = await asyncio.gather(*(play(number) for number in range(8)), *(keep(number) for number in range(8)))

    assert found[8:] == ["MoveCharacterPayload", "DeleteCharacterPayload"] * 4
    await gateway.run_jobs(seconds=6)
    await assert_settled(db)
    places = await world(db)
    assert all(places[f"ring {number}"] for number in range(8))
    assert await db["game.characters"].count_documents({"deleted": {"$exists": True}}) == 4
