"""Stores the rooms, things and shopkeepers of a small world, and creates characters in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world.items import POUND
from portico.schema.kinds import Kind
from tests.game.support.machine import owner_of
from tests.game.support.model import FLOOR, INSIDE, STOCK, Keeper, Place, Thing, World
from tests.support.harness import GatewayClient

CREATE = (
    "mutation ($input: CreateCharacterInput!) { createCharacter(input: $input) { __typename "
    "... on UserError { message } ... on CharacterPayload { character { id } } } }"
)
# Buys everything of some kinds at half of the cost.
ANY_KEEPER = Keeper("", ("WEAPON", "ARMOR", "CONTAINER"), asks=100, pays=50)


def item(key: ObjectId, name: str, thing: Thing, inside: ObjectId | None = None) -> Document:
    return {
        "_id": key,
        "name": name,
        "description": name,
        "quantity": 1,
        "bonus": None,
        "weight": round(thing.weight * POUND),
        "cost": thing.cost,
        "kind": thing.kind,
        "regions": list(thing.regions),
        "hands": thing.hands,
        "capacity": None if thing.capacity is None else round(thing.capacity * POUND),
        "inside": inside,
    }


async def store(db: Database, world: World, *, start: str) -> dict[str, str]:
    """Stores new rooms with their keepers and things, and removes all others. Returns the global ids, by name."""
    setting = world.setting
    for collection in ("game.characters", "game.locations"):
        await db[collection].delete_many({})
    rooms = {name: ObjectId() for name in setting.exits}
    things = {name: ObjectId() for name in setting.things}
    ids = {name: Kind.encode_id("Location", key) for name, key in rooms.items()}
    ids |= {name: Kind.encode_id("Item", key) for name, key in things.items()}

    def stored(place: Place) -> list[Document]:
        names = [name for top in world.at(place) for name in world.tree(top)]
        return [item(things[name], name, setting.things[name], _container(world, name, things)) for name in names]

    for name, key in rooms.items():
        here = [one for one, facts in setting.keepers.items() if facts.room == name]
        ids |= {one: Kind.encode_id("Character", f"{key}.{number}") for number, one in enumerate(here)}
        await db["game.locations"].insert_one(
            room(
                key,
                name,
                exits=[{"direction": one, "to": rooms[to]} for one, to in setting.exits[name].items()],
                items=stored((FLOOR, name)),
                keepers=[
                    keeper(number, one, gold=world.gold[one], items=stored((STOCK, one)), facts=setting.keepers[one])
                    for number, one in enumerate(here)
                ],
                is_start=name == start,
            )
        )
    return ids


def keeper(number: int, name: str, *, gold: int, items: Iterable[Document], facts: Keeper = ANY_KEEPER) -> Document:
    return {
        "number": number,
        "name": name,
        "class": "Shopkeeper",
        "gold": gold,
        "initial_gold": gold,
        "items": list(items),
        "buys": list(facts.buys),
        "asks": facts.asks,
        "pays": facts.pays,
    }


def room(
    key: ObjectId,
    name: str,
    *,
    exits: Iterable[Document] = (),
    items: Iterable[Document] = (),
    keepers: Iterable[Document] = (),
    is_start: bool = False,
) -> Document:
    return {
        "_id": key,
        "name": name,
        "description": f"The {name}.",
        "exits": list(exits),
        "items": list(items),
        "characters": [],
        "keepers": list(keepers),
        "version": 1,
        "revision": 1,
        **({"start": 0} if is_start else {}),
    }


def _container(world: World, name: str, things: dict[str, ObjectId]) -> ObjectId | None:
    kind, where = world.places[name]
    return things[where] if kind == INSIDE else None


async def enter(gateway: GatewayClient, name: str, strength: int) -> str:
    """Creates a character of an owner of its own. Returns its global id."""
    given: dict[str, Any] = {"name": name, "characterClass": "Thief", "intrinsics": {"strength": strength}}
    answer = await gateway.data(CREATE, {"input": given}, token=gateway.token(owner_of(name), []))
    result = answer["createCharacter"]
    assert result["__typename"] == "CharacterPayload", result
    created: str = result["character"]["id"]
    return created
