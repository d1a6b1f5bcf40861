"""What belongs to another player does not exist, by whatever path somebody asks for it."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.game.inventories.stacks import Place, stack_id
from portico.schema.kinds import Kind
from tests.game.support.scene import action, add_temple
from tests.game.support.stacks import bag, call, give, goods, offer, used
from tests.game.support.world import character_id
from tests.support.documents import stored
from tests.support.harness import GatewayClient

ANN, STRANGER = "ann", "mallory"
# The id of something that exists, and one of the same kind that does not.
Pair = tuple[str, str]

# Every path to an object by its id.
PATHS = {
    "character": "query ($id: ID!) { character(id: $id) { name gold inventory { id } } }",
    "trade": "query ($id: ID!) { trade(id: $id) { state offers { itemId } } }",
    "location": "query ($id: ID!) { location(id: $id) { name } }",
    "node": "query ($id: ID!) { node(id: $id) { __typename id } }",
    "nodes": "query ($id: ID!) { nodes(ids: [$id, $id]) { __typename id } }",
    "several at once": "query ($id: ID!) { a: character(id: $id) { name } b: node(id: $id) { id } }",
}


@pytest.fixture
async def pairs(gateway: GatewayClient) -> dict[str, Pair]:
    """A character, a stack and a trade of ann, each with the id of one that nobody has."""
    temple = await add_temple(gateway.db, ANN)
    await give(gateway.db, ANN, "sword", 3)
    await give(gateway.db, "bo", "coin", 3)
    trade = await offer(gateway, ANN, "bo", [goods("sword")], [goods("coin")])
    return {
        "a character": (character_id(temple.me), Kind.encode_id("Character", ObjectId())),
        "a stack": (
            Kind.encode_id("Stack", stack_id(Place(ANN, "bag"), "thing", "sword")),
            Kind.encode_id("Stack", stack_id(Place(ANN, "bag"), "thing", "nothing")),
        ),
        "a trade": (trade, Kind.encode_id("Trade", ObjectId())),
    }


@pytest.mark.parametrize("subject", [STRANGER, None])
async def test_what_belongs_to_another_player_is_answered_by_every_path_as_if_it_did_not_exist(
    gateway: GatewayClient, pairs: dict[str, Pair], subject: str | None
) -> None:
    token = None if subject is None else gateway.token(subject, [])
    for name, (real, missing) in pairs.items():
        for path, text in PATHS.items():
            seen = await gateway.ask(text, {"id": real}, token=token)
            unseen = await gateway.ask(text, {"id": missing}, token=token)

            assert seen.body == unseen.body, (name, path)
            assert real not in str(seen.body), (name, path)


async def test_the_owner_sees_what_others_do_not(gateway: GatewayClient, pairs: dict[str, Pair]) -> None:
    for name, (real, _) in pairs.items():
        found = await gateway.data(PATHS["nodes"], {"id": real}, token=gateway.token(ANN, []))

        assert [one["id"] for one in found["nodes"]] == [real, real], name


@pytest.mark.parametrize("subject", [STRANGER, None])
async def test_no_list_or_relation_shows_what_belongs_to_another_player(
    gateway: GatewayClient, pairs: dict[str, Pair], subject: str | None
) -> None:
    text = f"""{{
        inventory(owner: "{ANN}") {{ stacks {{ nodes {{ id }} pageInfo {{ hasNextPage }} }} }}
        bank: inventory(owner: "{ANN}", name: "bank") {{ stack(category: "thing", itemId: "sword") {{ quantity }} }}
        viewer {{ characters {{ id }} trades {{ nodes {{ id }} pageInfo {{ hasNextPage }} }} }}
    }}"""
    token = None if subject is None else gateway.token(subject, [])

    found = await gateway.data(text, token=token)

    assert (found["inventory"], found["bank"]) == (None, None)
    nothing = {"characters": [], "trades": {"nodes": [], "pageInfo": {"hasNextPage": False}}}
    assert found["viewer"] == (None if subject is None else nothing)
    assert not any(real in str(found) for real, _ in pairs.values())


async def test_a_room_shows_of_another_player_only_the_name_and_the_id(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, ANN)
    text = """query ($id: ID!) { location(id: $id) { characters { characterId name } inventory { name } } }"""
    room = Kind.encode_id("Location", temple.room["_id"])

    found = await gateway.data(text, {"id": room}, token=gateway.token(STRANGER, []))

    shown = [one for one in found["location"]["characters"] if one["characterId"] == character_id(temple.me)]
    assert shown == [{"characterId": character_id(temple.me), "name": "Ann"}]
    carried = {one["name"] for one in temple.me["items"]}
    assert not carried & {one["name"] for one in found["location"]["inventory"]}


async def test_a_subscription_to_a_room_shows_nothing_of_what_characters_carry(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, ANN)
    text = """subscription ($id: ID!) { locationChanged(id: $id) {
      characters { characterId name } inventory { id contents { id } } } }"""
    room = {"id": Kind.encode_id("Location", temple.room["_id"])}

    async with gateway.as_caller(STRANGER).subscription(text, room) as changed:
        await call(gateway, "pickUp", ANN, temple.on("sword"))
        event = (await anext(changed))["locationChanged"]

    assert temple.items["sword"] not in str(event)
    assert not any(temple.items[one["name"]] in str(event) for one in temple.me["items"])
    assert character_id(temple.me) in {one["characterId"] for one in event["characters"]}


ACTIONS = ("move", "pickUp", "drop", "takeOut", "putIn", "wear", "wield", "unequip", "give", "buy", "sell")


@pytest.mark.parametrize("mutation", ACTIONS)
async def test_an_action_as_the_character_of_another_player_is_refused_as_if_there_were_none(
    gateway: GatewayClient, mutation: str
) -> None:
    temple = await add_temple(gateway.db, ANN)
    given = action(temple, mutation)
    missing = Kind.encode_id("Character", ObjectId())

    real = await call(gateway, mutation, STRANGER, {**given, "idempotencyKey": "one"})
    none = await call(gateway, mutation, STRANGER, {**given, "idempotencyKey": "two", "characterId": missing})

    assert real["__typename"] == none["__typename"] == "NotFound"
    assert without_ids(real) == without_ids(none)
    assert (await stored(gateway.db, "game.characters", temple.me))["turn"] == temple.me["turn"]


async def test_a_repeated_key_of_another_player_shows_nothing_of_their_answer(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, ANN)
    await give(gateway.db, ANN, "sword", 3)
    drop = {**temple.on("bag"), "idempotencyKey": "a key of ann"}
    eaten = used("sword", of=bag(ANN))
    first = await call(gateway, "drop", ANN, drop)
    consumed = await call(gateway, "consume", ANN, eaten)
    assert (first["__typename"], consumed["__typename"]) == ("CharacterPayload", "StackPayload")

    again = await call(gateway, "drop", STRANGER, drop)
    used_again = await call(gateway, "consume", STRANGER, eaten)

    assert (again["__typename"], used_again["__typename"]) == ("NotFound", "NotFound")


def without_ids(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "missingId"}
